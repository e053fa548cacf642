/* Adapters through the C interface: loaded and unloaded while the engine runs, slots in use, held sequences, and
 * errors. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

typedef yk_status (*reader)(yk_engine *engine, const yk_adapter_path *adapter, yk_err *err);

static yk_status read_as(yk_engine *engine, const char *name, reader read, yk_err *err)
{
  char path[512];
  snprintf(path, sizeof path, "%s/golden/adapters/all_linear", test_data_dir());
  const yk_adapter_path adapter = {name, path};
  return read(engine, &adapter, err);
}

static yk_status load(yk_engine *engine, const char *name, yk_err *err)
{
  return read_as(engine, name, yk_engine_load_adapter, err);
}

static yk_status replace(yk_engine *engine, const char *name, yk_err *err)
{
  return read_as(engine, name, yk_engine_replace_adapter, err);
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

/* A held sequence continues with the new weights; a new one computes what any engine computes with them. */
static void test_replaced(void **state)
{
  yk_engine *engine = *state;
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  int32_t ids[N_IDS];
  const size_t n_bytes = (size_t)info.vocab_size * sizeof(float);
  float *expected = malloc(2 * n_bytes), *found = expected + info.vocab_size;
  yk_held_sequence *sequence;
  yk_err err = YK_ERR_INIT;
  fixture_prompt(3, info.vocab_size, ids, N_IDS);
  const yk_adapter_path missing = {"x", "/missing"};
  expect_failure(YK_E_INVAL, "\"x\"", yk_engine_replace_adapter(engine, &missing, &err), &err);
  yk_err_clear(&err);
  assert_int_equal(load(engine, "x", &err), YK_OK);
  append(engine, "x", ids, expected);
  assert_int_equal(yk_held_sequence_create_adapted(engine, "x", &sequence, &err), YK_OK);
  expect_failure(YK_E_IO, "adapter_config.json", yk_engine_replace_adapter(engine, &missing, &err), &err);
  yk_err_clear(&err);
  assert_int_equal(replace(engine, "x", &err), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, ids, N_IDS, YK_LOGITS_LAST, found, &err), YK_OK);
  assert_memory_equal(found, expected, n_bytes);
  yk_held_sequence_free(sequence);
  append(engine, "x", ids, found);
  assert_memory_equal(found, expected, n_bytes);
  assert_int_equal(yk_engine_unload_adapter(engine, "x", &err), YK_OK);
  free(expected);
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t n_bytes)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "ab");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
  fclose(file);
}

/* An adapter of one module of the first layer, with 96 inputs and outputs. */
static void write_adapter(const char *folder, const char *module)
{
  enum { SIZE = 96, RANK = 2, N = SIZE * RANK };
  static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 2}";
  static const float values[2 * N] = {1};
  char header[1024], prefix[128];
  assert_int_equal(mkdir(folder, 0700), 0);
  write_file(folder, "adapter_config.json", config, strlen(config));
  snprintf(prefix, sizeof prefix, "base_model.model.model.layers.0.%s", module);
  uint64_t n = (uint64_t)snprintf(header, sizeof header,
                                  "{\"%s.lora_A.weight\": {\"dtype\": \"F32\", \"shape\": [%d, %d], "
                                  "\"data_offsets\": [0, %d]}, \"%s.lora_B.weight\": {\"dtype\": \"F32\", "
                                  "\"shape\": [%d, %d], \"data_offsets\": [%d, %d]}}",
                                  prefix, RANK, SIZE, 4 * N, prefix, SIZE, RANK, 4 * N, 8 * N);
  write_file(folder, "adapter_model.safetensors", &n, sizeof n);
  write_file(folder, "adapter_model.safetensors", header, (size_t)n);
  write_file(folder, "adapter_model.safetensors", values, sizeof values);
}

static void remove_adapter(const char *folder)
{
  static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
  char path[512];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    remove(path);
  }
  remove(folder);
}

/* An engine, and two adapters for it: the ranks load the first, and refuse the second. */
typedef struct refusing_engine {
  char folder[32], good[64], bad[64];
  yk_adapter_path paths[2];
  yk_engine *engine;
} refusing_engine;

static void open_refusing(refusing_engine *r)
{
  *r = (refusing_engine){.folder = "/tmp/yoke_adapters_XXXXXX"};
  assert_non_null(mkdtemp(r->folder));
  snprintf(r->good, sizeof r->good, "%s/good", r->folder);
  snprintf(r->bad, sizeof r->bad, "%s/bad", r->folder);
  write_adapter(r->good, "self_attn.o_proj");
  write_adapter(r->bad, "self_attn.q_proj"); /* its norm has an offset */
  r->paths[0] = (yk_adapter_path){"x", r->good};
  r->paths[1] = (yk_adapter_path){"x", r->bad};
  yk_engine_options options = fixture_options("format_msmodelslim_w8a16", 1);
  options.max_adapters = 1;
  options.device = YK_DEVICE_CPU;
  r->engine = fixture_open(&options);
}

static void close_refusing(const refusing_engine *r)
{
  fixture_close(r->engine);
  remove_adapter(r->good);
  remove_adapter(r->bad);
  remove(r->folder);
}

/* The ranks refuse an adapter that is to replace another one, whose weights are lost then. */
static void test_lost(void **state)
{
  (void)state;
  refusing_engine r;
  open_refusing(&r);
  yk_engine *engine = r.engine;
  const int32_t ids[] = {5, 9};
  yk_held_sequence *sequence, *plain;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_engine_load_adapter(engine, &r.paths[0], &err), YK_OK);
  assert_int_equal(yk_held_sequence_create_adapted(engine, "x", &sequence, &err), YK_OK);
  assert_int_equal(yk_held_sequence_create(engine, &plain, &err), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, ids, 1, YK_LOGITS_NONE, NULL, &err), YK_OK);
  expect_failure(YK_E_UNSUPPORTED, "offset", yk_engine_replace_adapter(engine, &r.paths[1], &err), &err);
  yk_err_clear(&err);
  assert_int_equal(yk_engine_list_adapters(engine, NULL, 0), 0);
  expect_failure(YK_E_DEVICE, "lost", yk_held_sequence_append(sequence, ids + 1, 1, YK_LOGITS_NONE, NULL, &err), &err);
  yk_err_clear(&err);
  assert_int_equal(yk_held_sequence_append(plain, ids, 2, YK_LOGITS_NONE, NULL, &err), YK_OK);
  yk_held_sequence_free(plain);
  yk_held_sequence_free(sequence);
  assert_int_equal(yk_engine_load_adapter(engine, &r.paths[0], &err), YK_OK);
  assert_int_equal(yk_held_sequence_create_adapted(engine, "x", &sequence, &err), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, ids, 2, YK_LOGITS_NONE, NULL, &err), YK_OK);
  yk_held_sequence_free(sequence);
  close_refusing(&r);
}

/* Callers whose requests end after a token, so that some end in every step. cmocka may only fail on the main thread. */
typedef struct short_requests {
  yk_engine *engine;
  atomic_bool stops;
  atomic_int failures;
} short_requests;

static void *send_short_requests(void *context)
{
  short_requests *s = context;
  const int32_t id = 5;
  while (!atomic_load(&s->stops)) {
    yk_request_options options = fixture_request(s->engine, &id, 1, 1);
    yk_request *request;
    const yk_output *output;
    bool is_right = yk_engine_submit(s->engine, &options, &request, NULL) == YK_OK;
    if (is_right) {
      is_right = yk_request_next(request, 60, &output, NULL) == YK_OK && output->has_token;
      yk_request_free(request);
    }
    if (!is_right) atomic_fetch_add(&s->failures, 1);
  }
  return NULL;
}

/* A request with the adapter runs while the adapter is unloaded, replaced, or refused by the ranks. Whether the request
 * has failed: never if the adapter is not lost, and else unless it ended before. */
static bool change_under_request(const refusing_engine *r, int change)
{
  static answer found;
  const int32_t ids[] = {5, 9};
  const yk_output *output;
  yk_err err = YK_ERR_INIT;
  if (yk_engine_list_adapters(r->engine, NULL, 0) == 0)
    while (yk_engine_load_adapter(r->engine, &r->paths[0], &err) == YK_E_CAPACITY) yk_err_clear(&err);
  if (err.code != YK_OK) fail_msg("%s", err.message);
  yk_request_options options = fixture_request(r->engine, ids, 2, 200);
  options.adapter = "x";
  yk_request *request = fixture_submit(r->engine, &options);
  assert_int_equal(yk_request_next(request, 60, &output, &err), YK_OK);
  yk_status status = change == 0   ? yk_engine_unload_adapter(r->engine, "x", &err)
                     : change == 1 ? yk_engine_replace_adapter(r->engine, &r->paths[0], &err)
                                   : yk_engine_replace_adapter(r->engine, &r->paths[1], &err);
  assert_int_equal(status, change == 2 ? YK_E_UNSUPPORTED : YK_OK);
  fixture_read(request, &found);
  if (found.finish == YK_FINISH_LENGTH) return false;
  assert_int_equal(change, 2);
  expect_failure(YK_E_DEVICE, "adapter were lost", found.error.code, &found.error);
  return true;
}

/* The request alone fails, if its adapter is lost, and the others end in the same step. A sanitizer sees whether that
 * step still reads a request that its caller has freed. */
static void test_lost_with_others(void **state)
{
  (void)state;
  enum { N_CALLERS = 4, N_LOST = 20, MOST_ROUNDS = 1000 };
  refusing_engine r;
  pthread_t callers[N_CALLERS];
  open_refusing(&r);
  short_requests s = {.engine = r.engine};
  for (int i = 0; i < N_CALLERS; i++) assert_int_equal(pthread_create(&callers[i], NULL, send_short_requests, &s), 0);
  int n_lost = 0;
  for (int round = 0; n_lost < N_LOST && round < MOST_ROUNDS; round++)
    n_lost += change_under_request(&r, round < 4 ? round % 2 : 2);
  atomic_store(&s.stops, true);
  for (int i = 0; i < N_CALLERS; i++) pthread_join(callers[i], NULL);
  assert_int_equal(n_lost, N_LOST);
  assert_int_equal(atomic_load(&s.failures), 0);
  close_refusing(&r);
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
      cmocka_unit_test_setup_teardown(test_replaced, open_engine, close_engine),
      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_lost_with_others),
      cmocka_unit_test_setup_teardown(test_refusals, open_engine, close_engine),
      cmocka_unit_test(test_options_without_an_array),
      cmocka_unit_test(test_an_engine_without)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
