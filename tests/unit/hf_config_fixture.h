/* hf_config_fixture.h - a small valid config.json, whose keys tests change, and checks of refusals. */
#ifndef YK_UNIT_HF_CONFIG_FIXTURE_H
#define YK_UNIT_HF_CONFIG_FIXTURE_H

#include "unit/config_fixture.h"

/* A small valid model; tests change single keys. */
static const char base_config[] =
    "{'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_act': 'silu', 'hidden_size': 64,"
    " 'intermediate_size': 96, 'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2,"
    " 'vocab_size': 200, 'max_position_embeddings': 256, 'rms_norm_eps': 1e-5, 'torch_dtype': 'bfloat16'}";

/* The base configuration with the keys of changes replaced (a value of "-" deletes), and other files in its folder. */
static inline yk_status load_logged(const char *changes, const char *generation, const char *quantize,
                                    const yk_log *log, yk_model_config *out, yk_err *err)
{
  json_t *generation_json = generation ? config_parse(generation) : NULL;
  json_t *quantize_json = quantize ? config_parse(quantize) : NULL;
  char *config = config_text(base_config, changes);
  char *generation_text = generation ? json_dumps(generation_json, JSON_ENCODE_ANY) : NULL;
  char *quantize_text = quantize ? json_dumps(quantize_json, JSON_ENCODE_ANY) : NULL;
  yk_config_texts texts = {.config = config, .config_bytes = strlen(config)};
  texts.generation = generation_text;
  texts.generation_bytes = generation ? strlen(generation_text) : 0;
  texts.quantize = quantize_text;
  texts.quantize_file = "quantize_config.json";
  texts.quantize_bytes = quantize ? strlen(quantize_text) : 0;
  yk_status status = yk_model_config_parse(&texts, log, out, err);
  free(config);
  free(generation_text);
  free(quantize_text);
  json_decref(generation_json);
  json_decref(quantize_json);
  return status;
}

static inline yk_status load(const char *changes, const char *generation, const char *quantize, yk_model_config *out,
                             yk_err *err)
{
  return load_logged(changes, generation, quantize, NULL, out, err);
}

static inline yk_model_config load_good(const char *changes, const char *generation, const char *quantize)
{
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok(changes, load(changes, generation, quantize, &config, &err), &err);
  return config;
}

static inline yk_model_config good(const char *changes)
{
  return load_good(changes, NULL, NULL);
}

typedef struct bad_case {
  const char *changes;
  yk_status status;
  const char *words;
} bad_case;

static inline void expect_bad(const bad_case *cases, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].changes, cases[i].status, cases[i].words, load(cases[i].changes, NULL, NULL, &config, &err),
                 &err);
  }
}

#define EXPECT_BAD(cases) expect_bad(cases, sizeof(cases) / sizeof *(cases))

#endif
