/* Adapters through the C interface: loaded and unloaded while the engine runs, slots in use, held sequences, and
 * errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { N_IDS = 20 };

static int open_engine(void **state)
{
  yk_engine_options options = fixture_options("qwen3_f32", 2);
  options.max_adapters = 1;
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

static yk_status load(yk_engine *engine, const char *name, yk_err *err)
{
  char path[512];
  snprintf(path, sizeof path, "%s/golden/adapters/all_linear", test_data_dir());
  const yk_adapter_path adapter = {name, path};
  return yk_engine_load_adapter(engine, &adapter, err);
}

static void expect_failure(yk_status expected, const char *words, yk_status found, const yk_err *err)
{
  assert_int_equal(found, expected);
  if (!strstr(err->message, words)) fail_msg("\"%s\" is not in: %s", words, err->message);
}

static void append(yk_engine *engine, const char *adapter, const int32_t *ids, float *logits)
{
  yk_held_sequence *sequence, *fork;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_held_sequence_create_adapted(engine, adapter, &sequence, &err), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, ids, N_IDS - 1, YK_LOGITS_NONE, NULL, &err), YK_OK);
  assert_int_equal(yk_held_sequence_fork(sequence, &fork, &err), YK_OK);
  yk_held_sequence_free(sequence);
  assert_int_equal(yk_held_sequence_append(fork, ids + N_IDS - 1, 1, YK_LOGITS_LAST, logits, &err), YK_OK);
  yk_held_sequence_free(fork);
}

static int32_t best_of(const float *logits, int32_t n)
{
  int32_t best = 0;
  for (int32_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

/* A request and a held sequence, and its fork, have the same results; with the adapter others than without. */
static void test_requests_and_held_sequences(void **state)
{
  yk_engine *engine = *state;
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  int32_t ids[N_IDS];
  float *logits = malloc(2 * (size_t)info.vocab_size * sizeof *logits), *adapted = logits + info.vocab_size;
  yk_err err = YK_ERR_INIT;
  static answer plain, with;
  fixture_prompt(3, info.vocab_size, ids, N_IDS);
  assert_int_equal(load(engine, "x", &err), YK_OK);
  yk_request_options request = fixture_request(engine, ids, N_IDS, 1);
  fixture_answer(engine, &request, &plain);
  request.adapter = "x";
  fixture_answer(engine, &request, &with);
  append(engine, "", ids, logits);
  append(engine, "x", ids, adapted);
  assert_int_equal(best_of(logits, info.vocab_size), plain.ids[0]);
  assert_int_equal(best_of(adapted, info.vocab_size), with.ids[0]);
  assert_true(memcmp(logits, adapted, (size_t)info.vocab_size * sizeof *logits) != 0);
  assert_true(plain.logprobs[0] != with.logprobs[0]);
  assert_int_equal(yk_engine_unload_adapter(engine, "x", &err), YK_OK);
  free(logits);
}

/* A slot is free once no request uses its adapter; the name is removed earlier. */
static void test_places(void **state)
{
  yk_engine *engine = *state;
  yk_adapter_name name;
  yk_held_sequence *sequence;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_engine_list_adapters(engine, NULL, 0), 0);
  assert_int_equal(load(engine, "x", &err), YK_OK);
  assert_int_equal(yk_engine_list_adapters(engine, &name, 1), 1);
  assert_string_equal(name.text, "x");
  assert_int_equal(yk_held_sequence_create_adapted(engine, "x", &sequence, &err), YK_OK);
  assert_int_equal(yk_engine_unload_adapter(engine, "x", &err), YK_OK);
  assert_int_equal(yk_engine_list_adapters(engine, &name, 1), 0);
  expect_failure(YK_E_CAPACITY, "1 of them by unloaded", load(engine, "y", &err), &err);
  yk_held_sequence_free(sequence);
  yk_err_clear(&err);
  assert_int_equal(load(engine, "y", &err), YK_OK);
  assert_int_equal(yk_engine_unload_adapter(engine, "y", &err), YK_OK);
}

static void test_refusals(void **state)
{
  yk_engine *engine = *state;
  const int32_t id = 5;
  const yk_adapter_path missing = {"x", "/missing"};
  char long_name[YK_ADAPTER_NAME_BYTES + 1];
  yk_request *request;
  yk_held_sequence *sequence;
  yk_request_options options = fixture_request(engine, &id, 1, 1);
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  yk_err err = YK_ERR_INIT;
  expect_failure(YK_E_INVAL, "NULL", yk_engine_load_adapter(engine, NULL, &err), &err);
  yk_err_clear(&err);
  expect_failure(YK_E_INVAL, "1 to 255, found 256", load(engine, long_name, &err), &err);
  yk_err_clear(&err);
  expect_failure(YK_E_INVAL, "found 0", load(engine, "", &err), &err);
  yk_err_clear(&err);
  expect_failure(YK_E_IO, "adapter_config.json", yk_engine_load_adapter(engine, &missing, &err), &err);
  yk_err_clear(&err);
  expect_failure(YK_E_INVAL, "\"x\"", yk_engine_unload_adapter(engine, "x", &err), &err);
  yk_err_clear(&err);
  options.adapter = "x";
  expect_failure(YK_E_INVAL, "\"x\"", yk_engine_submit(engine, &options, &request, &err), &err);
  yk_err_clear(&err);
  expect_failure(YK_E_INVAL, "\"x\"", yk_held_sequence_create_adapted(engine, "x", &sequence, &err), &err);
  yk_err_clear(&err);
  assert_int_equal(load(engine, "x", &err), YK_OK);
  expect_failure(YK_E_INVAL, "not taken", load(engine, "x", &err), &err);
  yk_err_clear(&err);
  assert_int_equal(yk_engine_unload_adapter(engine, "x", &err), YK_OK);
}

/* The roll call of a run of several processes comes first. */
static void test_options_without_an_array(void **state)
{
  (void)state;
  yk_engine_options options = fixture_options("qwen3_f32", 2);
  options.device = YK_DEVICE_CPU;
  options.max_adapters = 1;
  options.n_adapters = 1;
  options.n_processes = 2;
  options.process = 1;
  options.master_host = "127.0.0.1";
  options.start_timeout_s = 0.1;
  bool has_run, is_stuck;
  yk_err err = YK_ERR_INIT;
  expect_failure(YK_E_INVAL, "adapters", yk_engine_follow(&options, NULL, NULL, &has_run, &is_stuck, &err), &err);
}

static void test_an_engine_without(void **state)
{
  (void)state;
  yk_engine_options options = fixture_options("qwen3_f32", 1);
  yk_engine *engine = fixture_open(&options);
  yk_err err = YK_ERR_INIT;
  expect_failure(YK_E_UNSUPPORTED, "max_adapters", load(engine, "x", &err), &err);
  fixture_close(engine);
}

int main(void)
{
  yk_process_init();
  int status = fixture_gate();
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_requests_and_held_sequences, open_engine, close_engine),
      cmocka_unit_test_setup_teardown(test_places, open_engine, close_engine),
      cmocka_unit_test_setup_teardown(test_refusals, open_engine, close_engine),
      cmocka_unit_test(test_options_without_an_array), cmocka_unit_test(test_an_engine_without)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
