/* config_fixture.h - configurations in the tests' form: with single quotes, as changes of a base. */
#ifndef YK_UNIT_CONFIG_FIXTURE_H
#define YK_UNIT_CONFIG_FIXTURE_H

#include "unit/loader_fixture.h"
#include "unit/single_quotes.h"

#include "base/json_tree.h"
#include "each_case.h"
#include "loader/hf/hf_config.h"
#include "loader/hf/hf_parts.h"
#include "loader/model/quant_rules.h"

static inline json_t *config_parse(const char *text)
{
  char *copy = double_quoted(text);
  json_error_t at;
  json_t *value = json_loads(copy, JSON_DECODE_ANY, &at);
  if (!value) fail_msg("%s: %s", copy, at.text);
  free(copy);
  return value;
}

/* The result of reading a quantization_config with these keys ("'bits': 4"). */
static inline yk_status config_read_quant(const char *keys, yk_quant_config *quant, yk_err *err)
{
  char text[2048];
  assert_true(snprintf(text, sizeof text, "{'quantization_config': {%s}}", keys) < (int)sizeof text);
  char *copy = double_quoted(text);
  yk_json_doc *root;
  expect_ok(copy, yk_json_parse("config.json", copy, strlen(copy), NULL, &root, err), err);
  free(copy);
  yk_status status = yk_hf_read_quant(yk_json_root(root), YK_JSON_NONE, NULL, quant, err);
  yk_json_free(root);
  return status;
}

/* Keys of a quantization_config, and words of the message that refuses them, separated by |. */
typedef struct unsupported_quant {
  const char *keys, *words;
} unsupported_quant;

static inline void expect_unsupported_quants(const unsupported_quant *cases, size_t n)
{
  for (size_t i = 0; each_case(i, i < n); i++) {
    yk_quant_config quant;
    yk_err err = YK_ERR_INIT;
    yk_status status = config_read_quant(cases[i].keys, &quant, &err);
    yk_quant_rules_free(quant.rules);
    expect_error(cases[i].keys, YK_E_UNSUPPORTED, cases[i].words, status, &err);
  }
}

/* The text of a configuration with the keys of changes replaced; a value of "-" deletes. The caller frees it. */
static inline char *config_text(const char *base, const char *changes)
{
  json_t *root = config_parse(base), *over = config_parse(changes), *value;
  const char *key;
  json_object_foreach(over, key, value)
  {
    const char *text = json_string_value(value);
    if (text && strcmp(text, "-") == 0)
      json_object_del(root, key);
    else
      json_object_set(root, key, value);
  }
  char *text = json_dumps(root, 0);
  json_decref(root);
  json_decref(over);
  return text;
}

static inline yk_status config_load(const char *base, const char *changes, yk_model_config *out, yk_err *err)
{
  char *text = config_text(base, changes);
  const yk_config_texts texts = {.config = text, .config_bytes = strlen(text)};
  yk_status status = yk_model_config_parse(&texts, NULL, out, err);
  free(text);
  return status;
}

static inline yk_model_config config_good(const char *base, const char *changes)
{
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok(changes, config_load(base, changes, &config, &err), &err);
  return config;
}

#endif
