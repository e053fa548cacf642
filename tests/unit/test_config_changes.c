/* Members that replace those of config.json and generation_config.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loader/hf/config_changes.h"

typedef yk_status (*apply_fn)(const yk_config_changes *changes, char **text, size_t *n_bytes, yk_err *err);

/* file: the text, or NULL if there is none. */
static void expect(apply_fn apply, const yk_config_changes *changes, const char *file, const char *expected)
{
  yk_err err = YK_ERR_INIT;
  char *text = file ? strdup(file) : NULL;
  size_t n_bytes = file ? strlen(file) : 0;
  if (apply(changes, &text, &n_bytes, &err) != YK_OK) fail_msg("%s", err.message);
  assert_string_equal(text, expected);
  assert_int_equal(n_bytes, strlen(expected));
  free(text);
}

static void expect_config(const char *changes, const char *file, const char *expected)
{
  expect(yk_config_changes_apply_config, &(yk_config_changes){.config = changes}, file, expected);
}

static void test_members(void **state)
{
  (void)state;
  expect_config(NULL, " {\"a\":1}", " {\"a\":1}");
  expect_config("{}", "{\"a\":1}", "{\"a\": 1}");
  expect_config("{\"b\": 2}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}");
  expect_config("{\"a\": {\"x\": [1e400]}, \"c\": null}", "{\"a\": {\"y\": 2}, \"b\": 18446744073709551616}",
                "{\"b\": 18446744073709551616, \"a\": {\"x\": [1e400]}, \"c\": null}");
  expect_config("{\"a\": 2, \"a\": 3}", "{\"a\": 1, \"q\\\"\": \"\\n\"}", "{\"q\\\"\": \"\\n\", \"a\": 3}");
}

/* A change under either name of rotary settings keeps the settings that it does not name. */
static void test_rotary_settings(void **state)
{
  (void)state;
  const char *file = "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5.0}, \"b\": 1}";
  expect_config("{\"rope_scaling\": {\"factor\": 2}}", file,
                "{\"b\": 1, \"rope_theta\": 5.0, \"rope_scaling\": {\"factor\": 2}}");
  expect_config("{\"rope_theta\": 7}", file,
                "{\"b\": 1, \"rope_scaling\": {\"rope_type\": \"default\"}, \"rope_theta\": 7}");
  expect_config("{\"rope_theta\": 7, \"rope_scaling\": null}", file,
                "{\"b\": 1, \"rope_theta\": 7, \"rope_scaling\": null}");
  expect_config("{\"rope_parameters\": {}}", file, "{\"b\": 1, \"rope_theta\": 5.0, \"rope_parameters\": {}}");
  expect_config("{\"rope_parameters\": {\"rope_theta\": 3}}", "{\"rope_scaling\": {}, \"rope_theta\": 5, \"b\": 1}",
                "{\"b\": 1, \"rope_theta\": 5, \"rope_parameters\": {\"rope_theta\": 3}}");
  expect_config("{\"partial_rotary_factor\": 1}", "{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
                "{\"rope_scaling\": {}, \"partial_rotary_factor\": 1}");
  expect_config("{\"rope_scaling\": {\"original_max_position_embeddings\": 8}}",
                "{\"original_max_position_embeddings\": 4}",
                "{\"rope_scaling\": {\"original_max_position_embeddings\": 8}}");
  /* Gemma's settings per layer type */
  file = "{\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5, \"rope_type\": \"linear\"},"
         " \"sliding_attention\": {\"rope_theta\": 6}}}";
  expect_config("{\"rope_scaling\": {\"factor\": 2}}", file,
                "{\"rope_theta\": 5, \"rope_local_base_freq\": 6, \"rope_scaling\": {\"factor\": 2}}");
  expect_config("{\"rope_local_base_freq\": 9}", file,
                "{\"rope_theta\": 5, \"rope_scaling\": {\"rope_type\": \"linear\"}, \"rope_local_base_freq\": 9}");
  expect_config("{\"rope_theta\": 9}", "{\"rope_parameters\": 3}",
                "{\"rope_scaling\": 3, \"rope_theta\": 9}"); /* the error is reported by the reader */
}

/* Members are merged into text_config, and replace the file's there wherever they stand in the changes. */
static void test_nested(void **state)
{
  (void)state;
  const char *file = "{\"a\": 1, \"text_config\": {\"b\": 2, \"rope_parameters\": {\"rope_theta\": 3}}}";
  expect_config("{\"b\": 4}", file,
                "{\"a\": 1, \"b\": 4, \"text_config\": {\"rope_parameters\": {\"rope_theta\": 3}, \"b\": 4}}");
  expect_config("{\"text_config\": {\"b\": 5}, \"b\": 4}", file,
                "{\"a\": 1, \"b\": 4, \"text_config\": {\"rope_parameters\": {\"rope_theta\": 3}, \"b\": 5}}");
  expect_config("{\"text_config\": {\"rope_parameters\": {\"factor\": 5}}}", file,
                "{\"a\": 1, \"text_config\": {\"b\": 2, \"rope_theta\": 3, \"rope_parameters\": {\"factor\": 5}}}");
  expect_config("{\"text_config\": null}", file, "{\"a\": 1, \"text_config\": null}");
  expect_config("{\"text_config\": {\"b\": 5}}", "{\"a\": 1}", "{\"a\": 1, \"text_config\": {\"b\": 5}}");
}

/* Keys of the file that decide in place of the changed key. */
static void test_voided(void **state)
{
  (void)state;
  expect_config("{\"torch_dtype\": \"float32\"}", "{\"dtype\": \"float16\"}", "{\"torch_dtype\": \"float32\"}");
  expect_config("{\"use_sliding_window\": false}", "{\"layer_types\": []}", "{\"use_sliding_window\": false}");
  expect_config("{\"use_sliding_window\": false, \"layer_types\": [1]}", "{\"layer_types\": []}",
                "{\"use_sliding_window\": false, \"layer_types\": [1]}");
}

static void test_generation(void **state)
{
  (void)state;
  const apply_fn apply = yk_config_changes_apply_generation;
  const char *file = "{\"do_sample\": false, \"eos_token_id\": [1, 2], \"top_k\": 20}";
  expect(apply, &(yk_config_changes){.generation = "{\"top_p\": 0.5}"}, file,
         "{\"do_sample\": false, \"eos_token_id\": [1, 2], \"top_k\": 20, \"top_p\": 0.5}");
  expect(apply, &(yk_config_changes){.generation = "{\"temperature\": 0.5}"}, file,
         "{\"eos_token_id\": [1, 2], \"top_k\": 20, \"temperature\": 0.5}");
  expect(apply, &(yk_config_changes){.generation = "{\"temperature\": 0.5, \"do_sample\": false}"}, file,
         "{\"eos_token_id\": [1, 2], \"top_k\": 20, \"temperature\": 0.5, \"do_sample\": false}");
  expect(apply, &(yk_config_changes){.has_plain_sampling = true}, file, "{\"eos_token_id\": [1, 2]}");
  expect(apply, &(yk_config_changes){.has_plain_sampling = true, .generation = "{\"top_k\": 5}"}, file,
         "{\"eos_token_id\": [1, 2], \"top_k\": 5}");
  expect(apply, &(yk_config_changes){.generation = "{\"top_k\": 5}"}, NULL, "{\"top_k\": 5}");
}

static void refuse(const char *changes, const char *file, yk_status status, const char *part)
{
  yk_err err = YK_ERR_INIT;
  char *text = strdup(file);
  size_t n_bytes = strlen(file);
  assert_int_equal(yk_config_changes_apply_config(&(yk_config_changes){.config = changes}, &text, &n_bytes, &err),
                   status);
  assert_non_null(strstr(err.message, part));
  assert_string_equal(text, file);
  free(text);
}

static void test_refusals(void **state)
{
  (void)state;
  refuse("[]", "{}", YK_E_INVAL, "hf_overrides: expected a JSON object, found array");
  refuse("{\"a\":", "{}", YK_E_INVAL, "hf_overrides");
  refuse("{}", "[]", YK_E_FORMAT, "config.json: expected a JSON object, found array");
  refuse("{}", "{", YK_E_FORMAT, "config.json");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_members),    cmocka_unit_test(test_rotary_settings),
                                     cmocka_unit_test(test_nested),     cmocka_unit_test(test_voided),
                                     cmocka_unit_test(test_generation), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
