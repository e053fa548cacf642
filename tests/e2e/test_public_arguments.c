/* Every invalid number, enum, length and pointer of yoke.h is refused by name, before memory that it describes is read,
 * and leaves NULL as the created object. Also the text functions on a model with a tokenizer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "yoke/process.h"
#include "yoke/tools.h"

enum { VOCAB = 200, CONTEXT = 256 };

static void *const not_null = (void *)(uintptr_t)0x1000; /* must not stay in an out parameter, and is never read */

static int open_engine(void **state)
{
  yk_engine_options options = fixture_options("qwen3", 1);
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

static void assert_refused(yk_status status, yk_err *err, yk_status code, const char *part)
{
  assert_int_equal(status, code);
  assert_int_equal(err->code, code);
  if (!strstr(err->message, part)) fail_msg("expected \"%s\" in \"%s\"", part, err->message);
  *err = YK_ERR_INIT;
}

/* ---- Engine and plan --------------------------------------------------------------------------------------------- */

static void options_refused(const yk_engine_options *options, const char *part)
{
  yk_err err = YK_ERR_INIT;
  yk_engine *engine = not_null;
  yk_plan plan;
  assert_refused(yk_engine_create(options, &engine, &err), &err, YK_E_INVAL, part);
  assert_null(engine);
  assert_refused(yk_plan_make(options, 0, &plan, &err), &err, YK_E_INVAL, part);
}

#define OPTIONS_REFUSED(field, value, part)                                                                            \
  do {                                                                                                                 \
    yk_engine_options options = fixture_options("qwen3", 1);                                                           \
    options.field = (value);                                                                                           \
    options_refused(&options, part);                                                                                   \
  } while (0)

static void engine_options(void **state)
{
  (void)state;
  OPTIONS_REFUSED(device, (yk_device_kind)3, "device: expected 0 to 2, found 3");
  OPTIONS_REFUSED(device, (yk_device_kind)-1, "device: expected 0 to 2, found -1");
  OPTIONS_REFUSED(dtype, (yk_dtype_choice)4, "dtype: expected 0 to 3, found 4");
  OPTIONS_REFUSED(dtype, (yk_dtype_choice)-7, "dtype: expected 0 to 3, found -7");
  OPTIONS_REFUSED(weights, (yk_weights_choice)2, "weights: expected 0 to 1, found 2");
  OPTIONS_REFUSED(kv_cache_dtype, (yk_kv_cache_choice)8, "kv_cache_dtype: expected 0 to 7, found 8");
  OPTIONS_REFUSED(activations, (yk_activations_choice)4, "activations: expected 0 to 3, found 4");
  OPTIONS_REFUSED(lm_head, (yk_lm_head_choice)2, "lm_head: expected 0 to 1, found 2");
  OPTIONS_REFUSED(log.level, (yk_log_level)4, "log.level: expected 0 to 3, found 4");
  OPTIONS_REFUSED(n_ranks, 65, "number of ranks: expected 1 to 64, found 65");
  OPTIONS_REFUSED(n_ranks, INT32_MIN, "number of ranks: expected 1 to 64");
  OPTIONS_REFUSED(gpu_memory_utilization, NAN, "gpu_memory_utilization: expected more than 0 and at most 1, found nan");
  OPTIONS_REFUSED(gpu_memory_utilization, -INFINITY, "gpu_memory_utilization");
  OPTIONS_REFUSED(step_timeout_s, NAN, "step_timeout_s: expected 0 to 1e6, found nan");
  OPTIONS_REFUSED(step_timeout_s, INFINITY, "step_timeout_s");
  OPTIONS_REFUSED(kv_cache_bytes, INT64_MIN, "kv_cache_bytes");
  OPTIONS_REFUSED(max_seqs, -1, "max_seqs");
  OPTIONS_REFUSED(max_batched_tokens, 0, "max_batched_tokens");
  OPTIONS_REFUSED(long_prompt_rows, 31, "long_prompt_rows: expected 32 to 1048576, found 31");
  OPTIONS_REFUSED(long_prompt_rows, -2, "long_prompt_rows");
  OPTIONS_REFUSED(max_model_tokens, -1, "max_model_tokens");
  OPTIONS_REFUSED(n_cpu_threads, -1, "n_cpu_threads");
  OPTIONS_REFUSED(model_dir, NULL, "model_dir");
}

static void device_memory(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_plan plan;
  yk_engine_options options = fixture_options("qwen3", 1);
  assert_refused(yk_plan_make(&options, -1, &plan, &err), &err, YK_E_INVAL, "device_memory_bytes: expected 0 to ");
  assert_refused(yk_plan_make(&options, INT64_MAX, &plan, &err), &err, YK_E_INVAL, "device_memory_bytes");
}

static void log_levels(void **state)
{
  (void)state;
  yk_log log = yk_log_stderr((yk_log_level)1000);
  yk_log_write(&log, (yk_log_level)1000, "a level that does not exist"); /* is written, without a prefix */
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static void a_time_limit_that_is_no_number(void **state)
{
  static answer whole;
  const int32_t prompt[] = {5, 6, 7};
  yk_err err = YK_ERR_INIT;
  const yk_output *output;
  yk_request_options options = fixture_request(*state, prompt, 3, 100);
  yk_request *request = fixture_submit(*state, &options);
  for (int i = 0; i < 3; i++) {
    assert_refused(yk_request_next(request, NAN, &output, &err), &err, YK_E_INVAL, "timeout_s: expected a number");
    assert_null(output);
  }
  fixture_read(request, &whole);
  assert_int_equal(whole.n, 100);
  request = fixture_submit(*state, &options); /* and these are valid */
  assert_int_equal(yk_request_next(request, INFINITY, &output, &err), YK_OK);
  assert_int_equal(yk_request_next(request, -INFINITY, &output, &err), YK_OK);
  yk_request_free(request);
  fixture_answer(*state, &options, &whole);
}

static void names_of_finish_reasons(void **state)
{
  (void)state;
  assert_string_equal(yk_finish_reason_name(YK_FINISH_NONE), "");
  assert_string_equal(yk_finish_reason_name(YK_FINISH_ERROR), "error");
  assert_string_equal(yk_finish_reason_name((yk_finish_reason)5), "unknown");
  assert_string_equal(yk_finish_reason_name((yk_finish_reason)99), "unknown");
  assert_string_equal(yk_finish_reason_name((yk_finish_reason)-1), "unknown");
}

static void request_refused(yk_engine *engine, const yk_request_options *options, yk_status code, const char *part)
{
  yk_err err = YK_ERR_INIT;
  yk_request *request = not_null;
  assert_refused(yk_engine_submit(engine, options, &request, &err), &err, code, part);
  assert_null(request);
}

/* A length without an array, and a length that no array can have: the array would be read beyond its end. */
static void arrays_of_a_request(void **state)
{
  const int32_t ids[] = {5, 6, 7};
  const yk_logit_bias biases[] = {{5, 1}};
  const char *const stops[] = {"x"};
  const yk_request_options good = fixture_request(*state, ids, 3, 5);
  yk_request_options options = good;
  options.ids = NULL;
  request_refused(*state, &options, YK_E_INVAL, "prompt: expected an array of 3, found NULL");
  options.n_ids = 0;
  request_refused(*state, &options, YK_E_INVAL, "prompt: expected at least one token");
  const size_t lengths[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 32, CONTEXT};
  for (size_t i = 0; each_case(i, i < sizeof lengths / sizeof lengths[0]); i++) {
    options = good;
    options.n_ids = lengths[i];
    request_refused(*state, &options, YK_E_CAPACITY, "prompt: expected at most 255 tokens");
    options = good;
    options.sampling.max_tokens = 0;
    options.sampling.n_prompt_logprobs = 0;
    options.n_ids = lengths[i] == CONTEXT ? CONTEXT + 1 : lengths[i];
    request_refused(*state, &options, YK_E_CAPACITY, "prompt: expected at most 256 tokens");
    if (lengths[i] == CONTEXT) continue;
    options = good;
    options.sampling.biases = biases;
    options.sampling.n_biases = lengths[i];
    request_refused(*state, &options, YK_E_INVAL, "number of logit_bias entries: expected 0 to 1024");
    options = good;
    options.sampling.stop_ids = ids;
    options.sampling.n_stop_ids = lengths[i];
    request_refused(*state, &options, YK_E_INVAL, "number of stop ids: expected 0 to 256");
    options = good;
    options.sampling.stop_strings = stops;
    options.sampling.n_stop_strings = lengths[i];
    request_refused(*state, &options, YK_E_INVAL, "number of stop strings: expected 0 to 256");
  }
  options = good;
  options.sampling.n_biases = 2;
  request_refused(*state, &options, YK_E_INVAL, "logit_bias: expected an array of 2, found NULL");
  options = good;
  options.sampling.n_stop_ids = 2;
  request_refused(*state, &options, YK_E_INVAL, "stop ids: expected an array of 2, found NULL");
  options = good;
  options.sampling.n_stop_strings = 2;
  request_refused(*state, &options, YK_E_INVAL, "stop strings: expected an array of 2, found NULL");
}

/* ---- Held sequences ---------------------------------------------------------------------------------------------- */

static void held_sequences(void **state)
{
  static float logits[2 * VOCAB];
  const int32_t ids[] = {5, 6};
  yk_err err = YK_ERR_INIT;
  yk_held_sequence *held = NULL;
  assert_int_equal(yk_held_sequence_create(*state, &held, &err), YK_OK);
  assert_refused(yk_held_sequence_append(held, ids, 2, (yk_logits_of)3, logits, &err), &err, YK_E_INVAL,
                 "which: expected 0 to 2, found 3");
  assert_refused(yk_held_sequence_append(held, ids, 2, (yk_logits_of)-1, logits, &err), &err, YK_E_INVAL, "which");
  assert_refused(yk_held_sequence_append(held, NULL, 2, YK_LOGITS_NONE, NULL, &err), &err, YK_E_INVAL,
                 "ids: expected an array of 2, found NULL");
  assert_refused(yk_held_sequence_append(held, ids, 0, YK_LOGITS_NONE, NULL, &err), &err, YK_E_INVAL, "at least one");
  assert_refused(yk_held_sequence_append(held, ids, SIZE_MAX, YK_LOGITS_NONE, NULL, &err), &err, YK_E_CAPACITY,
                 "sequence: expected at most 256 tokens");
  assert_refused(yk_held_sequence_append(held, ids, 2, YK_LOGITS_ALL, NULL, &err), &err, YK_E_INVAL, "logits");
  assert_refused(yk_held_sequence_truncate(held, SIZE_MAX, &err), &err, YK_E_INVAL, "n_tokens");
  assert_int_equal(yk_held_sequence_length(held), 0);
  assert_int_equal(yk_held_sequence_append(held, ids, 2, YK_LOGITS_ALL, logits, &err), YK_OK);
  yk_held_sequence_free(held);
}

/* ---- Devices and links ------------------------------------------------------------------------------------------- */

static void devices_and_links(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_device_info devices[1];
  static yk_link_report report;
  int n = 7;
  assert_refused(yk_device_list(devices, -1, &n, &err), &err, YK_E_INVAL, "max: expected 0 or more, found -1");
  assert_refused(yk_device_list(NULL, 1, &n, &err), &err, YK_E_INVAL, "out: expected an array of 1, found NULL");
  assert_int_equal(n, 0);
  yk_status status = yk_links_test(NULL, 2, false, &report, &err);
  assert_true(status == YK_E_INVAL || status == YK_E_UNSUPPORTED); /* the latter without CUDA */
  assert_int_equal(report.n_links, 0);
  yk_link_report_free(&report);
}

/* ---- Programs of other versions ---------------------------------------------------------------------------------- */

/* A program whose structs are this much longer. */
enum { MORE = 24 };

static void structs_that_a_later_version_has(void **state)
{
  struct {
    yk_request_options options;
    char more[MORE];
  } later;
  struct {
    yk_engine_stats stats;
    char more[MORE];
  } stats;
  static answer found;
  yk_err err = YK_ERR_INIT;
  yk_request *request = not_null;
  const int32_t prompt[] = {5, 6, 7};
  memset(&later, 0x55, sizeof later);
  memset(&stats, 0x55, sizeof stats);
  yk_request_options_init_sized(*state, &later.options, sizeof later);
  assert_int_equal(later.options.struct_size, sizeof later);
  later.options.ids = prompt;
  later.options.n_ids = 3;
  later.options.sampling.max_tokens = 2;
  fixture_answer(*state, &later.options, &found);
  assert_int_equal(found.n, 2);
  later.more[MORE - 1] = 1;
  assert_refused(yk_engine_submit(*state, &later.options, &request, &err), &err, YK_E_UNSUPPORTED,
                 "yk_request_options: expected 0 in byte ");
  assert_null(request);
  yk_engine_get_stats_sized(*state, &stats.stats, sizeof stats);
  assert_int_equal(stats.stats.struct_size, sizeof stats);
  for (int i = 0; i < MORE; i++) assert_int_equal(stats.more[i], 0);
}

static void structs_that_an_older_version_has(void **state)
{
  const size_t older = offsetof(yk_engine_info, vocab_size);
  yk_engine_info info;
  yk_engine_options engine_options = fixture_options("qwen3", 1);
  yk_request_options options = fixture_request(*state, NULL, 0, 1);
  yk_err err = YK_ERR_INIT;
  yk_request *request = not_null;
  memset(&info, 0x55, sizeof info);
  yk_engine_get_info_sized(*state, &info, older);
  assert_int_equal(info.struct_size, older);
  assert_string_equal(info.family, "qwen3");
  for (size_t i = older; i < sizeof info; i++) assert_int_equal(((const char *)&info)[i], 0x55);
  const size_t wrong[] = {0, sizeof(size_t), (size_t)-1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    options.struct_size = engine_options.struct_size = wrong[i];
    options_refused(&engine_options, "yk_engine_options.struct_size: expected at least ");
    assert_refused(yk_engine_submit(*state, &options, &request, &err), &err, YK_E_INVAL,
                   "yk_request_options.struct_size: expected at least ");
  }
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void text_needs_a_tokenizer(void **state)
{
  const int32_t id = 5;
  yk_err err = YK_ERR_INIT;
  int32_t *ids = not_null;
  char *text = not_null;
  yk_text_stream *stream = not_null;
  size_t n = 7;
  assert_refused(yk_engine_tokenize(*state, "a", 1, true, &ids, &n, &err), &err, YK_E_UNSUPPORTED, "no tokenizer.json");
  assert_null(ids);
  assert_int_equal(n, 0);
  n = 7;
  assert_refused(yk_engine_detokenize(*state, &id, 1, true, &text, &n, &err), &err, YK_E_UNSUPPORTED, "tokenizer.json");
  assert_null(text);
  assert_int_equal(n, 0);
  assert_refused(yk_text_stream_create(*state, true, &stream, &err), &err, YK_E_UNSUPPORTED, "no tokenizer.json");
  assert_null(stream);
}

static int open_demo(void **state)
{
  static char dir[512];
  yk_engine_options options = fixture_options("qwen3", 1);
  snprintf(dir, sizeof dir, "%s/models/demo", test_data_dir());
  options.model_dir = dir;
  *state = fixture_open(&options);
  return 0;
}

static const char story[] = "348+275=623 \xC3\xA9t\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80!\n\n One day Mia";

static int32_t *ids_of_story(yk_engine *engine, size_t *n_ids)
{
  yk_err err = YK_ERR_INIT;
  int32_t *ids = NULL;
  if (yk_engine_tokenize(engine, story, strlen(story), true, &ids, n_ids, &err) != YK_OK) fail_msg("%s", err.message);
  return ids;
}

static void text_arguments(void **state)
{
  yk_err err = YK_ERR_INIT;
  int32_t *ids = not_null;
  size_t n = 7;
  assert_refused(yk_engine_tokenize(*state, NULL, 3, true, &ids, &n, &err), &err, YK_E_INVAL,
                 "text: expected an array of 3");
  assert_null(ids);
  ids = not_null;
  assert_refused(yk_engine_tokenize(*state, "\xFF", 1, true, &ids, &n, &err), &err, YK_E_INVAL, "UTF-8");
  assert_null(ids);
  assert_refused(yk_engine_tokenize(*state, "a", SIZE_MAX, true, &ids, &n, &err), &err, YK_E_INVAL,
                 "text: expected at most");
  ids = not_null;
  assert_refused(yk_engine_tokenize_last(*state, "a", 1, true, 0, &ids, &n, &err), &err, YK_E_INVAL,
                 "last ids of a text: expected 1 to");
  assert_null(ids);
  assert_refused(yk_engine_tokenize_truncated(*state, "a", 1, true, 0, true, &ids, &n, &err), &err, YK_E_INVAL,
                 "most ids of a text");
  assert_refused(yk_engine_tokenize_last(*state, "\xFF", 1, true, 1, &ids, &n, &err), &err, YK_E_INVAL, "UTF-8");
  assert_refused(yk_engine_tokenize_bounded(*state, "\xFF", 1, true, 1, &ids, &n, &err), &err, YK_E_INVAL, "UTF-8");
  yk_request_options options;
  yk_request_options_init(*state, &options);
  options.text = "a";
  options.text_bytes = SIZE_MAX;
  request_refused(*state, &options, YK_E_INVAL, "text: expected at most");
  static const char *const stops[] = {"x", "caf\xE9"};
  yk_request_options_init(*state, &options);
  options.text = "a";
  options.sampling.stop_strings = stops;
  options.sampling.n_stop_strings = 2;
  request_refused(*state, &options, YK_E_INVAL, "stop string 1: expected UTF-8, found byte 0xE9 at offset 3");
  yk_engine_info info;
  yk_engine_get_info(*state, &info);
  const int32_t wrong[] = {5, -1}, beyond = INT32_MAX;
  char *text = not_null;
  assert_refused(yk_engine_detokenize(*state, wrong, 2, true, &text, &n, &err), &err, YK_E_INVAL,
                 "token id -1 at index 1 is outside the vocabulary");
  assert_null(text);
  assert_refused(yk_engine_detokenize(*state, &beyond, 1, true, &text, &n, &err), &err, YK_E_INVAL, "2147483647");
  assert_refused(yk_engine_detokenize(*state, NULL, 1, true, &text, &n, &err), &err, YK_E_INVAL, "found NULL");
  assert_int_equal(yk_engine_detokenize(*state, NULL, 0, true, &text, &n, &err), YK_OK);
  assert_string_equal(text, "");
  assert_int_equal(n, 0);
  free(text);
}

/* Needs no grammar library: each is refused before the library is looked for. */
static void constraints(void **state)
{
  static const int32_t ids[] = {5, -1};
  const struct {
    yk_sampling sampling;
    const char *part;
  } rows[] = {
      {{.constraint_kind = (yk_constraint_kind)99}, "constraint_kind: expected"},
      {{.constraint_kind = (yk_constraint_kind)-1}, "constraint_kind: expected"},
      {{.constraint_kind = YK_CONSTRAINT_REGEX, .constraint_bytes = 3}, "constraint: expected an array of 3"},
      {{.constraint_kind = YK_CONSTRAINT_REGEX, .constraint = "a", .constraint_bytes = SIZE_MAX},
       "constraint: expected at most 16777216 bytes, found"},
      {{.constraint_kind = YK_CONSTRAINT_JSON_SCHEMA, .constraint = "{\xFF}", .constraint_bytes = 3},
       "constraint: expected UTF-8, found byte 0xFF at offset 1"},
      {{.constraint_kind = YK_CONSTRAINT_REGEX,
        .constraint = "\xE2\x82",
        .constraint_bytes = 2,
        .constraint_name = "r"},
       "r: expected UTF-8, found byte 0xE2 at offset 0"},
      {{.n_allowed_ids = 1}, "allowed_token_ids"},
      {{.allowed_ids = ids, .n_allowed_ids = 2}, "allowed_token_ids"},
      {{.reasoning_tags = &(yk_reasoning_tags){"<a>", NULL, NULL}}, "reasoning_tags: expected an open and a close tag"},
      {{.reasoning_tags = &(yk_reasoning_tags){NULL, "<a>", NULL}}, "reasoning_tags: expected an open and a close tag"},
      {{.reasoning_tags = &(yk_reasoning_tags){"<a>", "", NULL}}, "tags of reasoning: expected a text"},
      {{.max_reasoning_tokens = -2}, "max_reasoning_tokens"},
  };
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_request_options options;
    yk_request_options_init(*state, &options);
    const yk_sampling *from = &rows[i].sampling;
    yk_sampling *to = &options.sampling;
    options.text = "a";
    options.text_bytes = 1;
    to->constraint_kind = from->constraint_kind;
    to->constraint = from->constraint;
    to->constraint_bytes = from->constraint_bytes;
    to->constraint_name = from->constraint_name;
    to->allowed_ids = from->allowed_ids;
    to->n_allowed_ids = from->n_allowed_ids;
    to->reasoning_tags = from->reasoning_tags;
    if (from->max_reasoning_tokens) to->max_reasoning_tokens = from->max_reasoning_tokens;
    request_refused(*state, &options, YK_E_INVAL, rows[i].part);
  }
}

static void ids_back_to_text(void **state)
{
  yk_err err = YK_ERR_INIT;
  size_t n_ids = 0, n_bytes = 0;
  int32_t *ids = ids_of_story(*state, &n_ids);
  char *text = NULL;
  assert_int_equal(yk_engine_detokenize(*state, ids, n_ids, true, &text, &n_bytes, &err), YK_OK);
  assert_int_equal(n_bytes, strlen(story));
  assert_string_equal(text, story);
  free(text);
  free(ids);
}

static void special_tokens(void **state)
{
  yk_err err = YK_ERR_INIT;
  yk_engine_info info;
  yk_engine_get_info(*state, &info);
  assert_int_equal(info.n_eos_ids, 2); /* from generation_config.json, and the first also from config.json */
  assert_int_equal(info.eos_ids[0], 920);
  assert_int_equal(info.eos_ids[1], 922);
  char *with = NULL, *without = NULL;
  size_t n_with = 0, n_without = 0;
  assert_int_equal(yk_engine_detokenize(*state, info.eos_ids, 2, false, &with, &n_with, &err), YK_OK);
  assert_int_equal(yk_engine_detokenize(*state, info.eos_ids, 2, true, &without, &n_without, &err), YK_OK);
  assert_string_equal(with, "<|endoftext|><|im_end|>");
  assert_int_equal(n_with, strlen(with));
  assert_string_equal(without, "");
  free(with);
  free(without);
}

/* Id by id: the pieces are whole characters, and together the text. A refused call changes nothing. */
static void a_stream(void **state)
{
  yk_err err = YK_ERR_INIT;
  size_t n_ids = 0, n_bytes = 0, length = 0;
  int32_t *ids = ids_of_story(*state, &n_ids);
  const int32_t wrong[] = {ids[0], INT32_MAX};
  char all[256] = "";
  const char *text = NULL;
  yk_text_stream *stream = NULL;
  assert_int_equal(yk_text_stream_create(*state, true, &stream, &err), YK_OK);
  for (int round = 0; round < 2; round++) { /* finish begins another text */
    length = 0;
    for (size_t i = 0; i < n_ids; i++) {
      assert_refused(yk_text_stream_push(stream, wrong, 2, &text, &n_bytes, &err), &err, YK_E_INVAL, "at index 1");
      assert_null(text);
      assert_int_equal(yk_text_stream_push(stream, &ids[i], 1, &text, &n_bytes, &err), YK_OK);
      if (n_bytes) assert_true(((unsigned char)text[0] & 0xC0) != 0x80);
      memcpy(all + length, text, n_bytes);
      length += n_bytes;
    }
    assert_int_equal(yk_text_stream_finish(stream, &text, &n_bytes, &err), YK_OK);
    memcpy(all + length, text, n_bytes);
    all[length + n_bytes] = '\0';
    assert_string_equal(all, story);
  }
  assert_int_equal(yk_text_stream_push(stream, ids, n_ids, &text, &n_bytes, &err), YK_OK);
  assert_memory_equal(text, story, n_bytes);
  yk_text_stream_free(stream);
  yk_text_stream_free(NULL);
  free(ids);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest without_tokenizer[] = {cmocka_unit_test(engine_options),
                                                 cmocka_unit_test(device_memory),
                                                 cmocka_unit_test(log_levels),
                                                 cmocka_unit_test(a_time_limit_that_is_no_number),
                                                 cmocka_unit_test(names_of_finish_reasons),
                                                 cmocka_unit_test(arrays_of_a_request),
                                                 cmocka_unit_test(held_sequences),
                                                 cmocka_unit_test(devices_and_links),
                                                 cmocka_unit_test(structs_that_a_later_version_has),
                                                 cmocka_unit_test(structs_that_an_older_version_has),
                                                 cmocka_unit_test(text_needs_a_tokenizer)};
  const struct CMUnitTest with_tokenizer[] = {cmocka_unit_test(text_arguments), cmocka_unit_test(constraints),
                                              cmocka_unit_test(ids_back_to_text), cmocka_unit_test(special_tokens),
                                              cmocka_unit_test(a_stream)};
  int status = fixture_gate();
  if (status) return status;
  status = cmocka_run_group_tests(without_tokenizer, open_engine, close_engine);
  return status ? status : cmocka_run_group_tests(with_tokenizer, open_demo, close_engine);
}
