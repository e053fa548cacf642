#include "comm/conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sanitized.h"

static bool open_local(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cpu_device_create(dtype, 1, &limits, &devs[rank], NULL) != YK_OK) return false;
  return yk_comm_local_create(devs, n_ranks, comms, NULL) == YK_OK;
}

static void close_local(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) {
    comms[rank]->ops->destroy(comms[rank]);
    devs[rank]->ops->destroy(devs[rank]);
  }
}

static double round_once(int n_ranks, comm_shape shape)
{
  (void)n_ranks, (void)shape;
  return 1;
}

static void another_type_is_refused(void **state)
{
  (void)state;
  yk_device *devs[1];
  yk_comm *comms[1];
  float data[1] = {0};
  yk_err err = YK_ERR_INIT;
  assert_true(open_local(1, YK_F16, devs, comms));
  assert_int_equal(comms[0]->ops->all_reduce(comms[0], data, 1, YK_F32, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "float16"));
  close_local(1, devs, comms);
}

int main(void)
{
  const struct CMUnitTest own[] = {cmocka_unit_test(another_type_is_refused)};
  comm_fixture fixture = {.name = "local",
                          .open = open_local,
                          .close = close_local,
                          .max_ranks = TEST_IS_SANITIZED ? 4 : YK_MAX_RANKS,
                          .rounding_steps = round_once};
  int n_failed = comm_conformance_run(&fixture);
  return n_failed + cmocka_run_group_tests(own, NULL, NULL);
}
