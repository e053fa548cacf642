/* The lease of the engine for an exchange, when the engine begins to serve between the two looks at the engine's
 * state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine_state.h"

static char engine_in_place; /* any address */
static int n_acquired, n_refused_first;
static yk_host_state state;

yk_engine *__wrap_yk_engine_host_acquire(yk_engine_host *host);
yk_host_state __wrap_yk_engine_host_look(yk_engine_host *host, yk_err *why);

yk_engine *__wrap_yk_engine_host_acquire(yk_engine_host *host)
{
  (void)host;
  return n_acquired++ < n_refused_first ? NULL : (yk_engine *)(void *)&engine_in_place;
}

yk_host_state __wrap_yk_engine_host_look(yk_engine_host *host, yk_err *why)
{
  (void)host;
  *why = YK_ERR_INIT;
  return state;
}

static void test_an_engine_that_has_begun_to_serve(void **context)
{
  static yk_server server;
  static yk_exchange exchange;
  (void)context;
  atomic_store(&server.has_chat, true);
  exchange.server = &server;
  state = YK_HOST_SERVING;
  n_refused_first = 1;
  assert_true(yk_exchange_lease_engine(&exchange));
  assert_ptr_equal(exchange.engine, &engine_in_place);
  assert_int_equal(exchange.reply.http_status, 0);
}

static void test_an_engine_that_loads(void **context)
{
  static yk_server server;
  static yk_exchange exchange;
  (void)context;
  atomic_store(&server.has_chat, true);
  exchange.server = &server;
  state = YK_HOST_LOADING;
  n_acquired = 0;
  n_refused_first = 1;
  assert_false(yk_exchange_lease_engine(&exchange));
  assert_int_equal(exchange.reply.http_status, 503);
  assert_int_equal(exchange.reply.retry_after_s, 5);
  yk_strbuf_free(&exchange.reply.body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_engine_that_has_begun_to_serve),
      cmocka_unit_test(test_an_engine_that_loads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
