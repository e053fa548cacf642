/* Any bytes are a configuration or an error. The input is config.json, then generation_config.json,
 * quantize_config.json, modules.json and the config.json of a pooling, with a NUL between them. An accepted
 * configuration must be within the limits that later arithmetic relies on. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/hf/hf_config.h"
#include "loader/model/quant_rules.h"
#include "model/rope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* The bytes up to the next NUL, or NULL if none are left; *rest moves past them. */
static const char *next_text(const uint8_t **rest, size_t *n_rest, size_t *n_text)
{
  const char *text = (const char *)*rest;
  if (*n_rest == 0) return NULL;
  const uint8_t *end = memchr(*rest, 0, *n_rest);
  *n_text = end ? (size_t)(end - *rest) : *n_rest;
  size_t used = *n_text + (end ? 1 : 0);
  *rest += used;
  *n_rest -= used;
  return text;
}

/* Routing supports at most this many, and needs whole groups. */
static void check_experts(const yk_experts_config *x, int n_layers)
{
  bool is_mixture = false;
  for (int i = 0; i < n_layers; i++) is_mixture |= x->layers[i];
  require(!is_mixture || x->n_experts >= 1);
  if (x->n_experts == 0) return;
  require(x->n_experts >= 1 && x->n_experts <= YK_MAX_EXPERTS);
  require(x->top_k >= 1 && x->top_k <= YK_MAX_TOP_K && x->ffn_size >= 1 && x->ffn_size <= YK_MAX_FFN);
  require(x->shared_ffn_size >= 0 && x->shared_ffn_size <= YK_MAX_FFN && (x->shared_ffn_size || !x->has_shared_gate));
  require(x->n_groups >= 1 && x->n_groups <= YK_MAX_EXPERT_GROUPS && x->n_experts % x->n_groups == 0);
  int32_t group_size = x->n_experts / x->n_groups;
  require(x->top_groups >= 1 && x->top_groups <= x->n_groups && x->top_k <= x->top_groups * group_size);
  require(x->n_groups == 1 || x->group_score != YK_GROUP_SCORE_LARGEST_TWO || group_size >= 2);
  require(x->scale > 0 && isfinite(x->scale));
}

static void check_latent(const yk_model_config *config)
{
  const yk_latent_config *latent = &config->latent;
  if (latent->kv_rank == 0) return;
  require(latent->kv_rank <= YK_MAX_HEAD_DIM && latent->q_rank >= 0 && latent->q_rank <= YK_MAX_HIDDEN);
  require(latent->nope_dim >= 1 && latent->nope_dim <= YK_MAX_HEAD_DIM);
  require(latent->value_dim >= 1 && latent->value_dim <= YK_MAX_HEAD_DIM);
  require(config->n_kv_heads == 1 && isfinite(yk_rope_score_factor(&config->rope)));
}

static bool has_dense_layer(const yk_model_config *config)
{
  for (int i = 0; i < config->n_layers; i++)
    if (config->parts[i] != YK_LAYER_ATTENTION_ALONE && !config->experts.layers[i]) return true;
  return false;
}

static void check_config(const yk_model_config *config)
{
  require(config->n_layers >= 1 && config->n_layers <= YK_MAX_LAYERS);
  require(config->vocab_size >= 1 && config->vocab_size <= YK_MAX_VOCAB);
  require(config->hidden_size >= 1 && config->hidden_size <= YK_MAX_HIDDEN);
  require(config->ffn_size >= has_dense_layer(config) && config->ffn_size <= YK_MAX_FFN);
  require(config->n_heads >= 1 && config->n_heads <= YK_MAX_HEADS && config->n_kv_heads >= 1);
  require(config->n_heads % config->n_kv_heads == 0);
  require(config->head_dim >= 2 && config->head_dim <= YK_MAX_HEAD_DIM && config->head_dim % 2 == 0);
  require(config->rotary_dim >= (config->family == YK_FAMILY_NEMOTRON_H ? 0 : 2));
  require(config->rotary_dim <= config->head_dim && config->rotary_dim % 2 == 0);
  bool has_index = config->family == YK_FAMILY_DEEPSEEK_V32 || config->family == YK_FAMILY_GLM_MOE_DSA;
  require(config->max_position_embeddings >= 1 && config->max_model_tokens >= 1);
  require(has_index || config->max_model_tokens >= config->max_position_embeddings);
  require(config->max_model_tokens <= YK_MAX_POSITIONS);
  for (int i = 0; i < config->n_layers; i++) require(config->window_tokens[i] >= 0);
  require(config->n_eos_ids >= 0 && config->n_eos_ids <= YK_MAX_EOS_IDS);
  for (int i = 0; i < config->n_eos_ids; i++)
    require(config->eos_ids[i] >= 0 && config->eos_ids[i] < config->vocab_size);
  const yk_generation_defaults *g = &config->generation; /* the checks of a request with these defaults */
  require(g->temperature >= 0 && g->temperature <= 100 && g->top_p > 0 && g->top_p <= 1 && g->min_p >= 0 &&
          g->min_p <= 1);
  require(g->top_k >= 0 && g->top_k <= config->vocab_size && g->max_new_tokens >= 0);
  require(g->repetition_penalty > 0 && g->repetition_penalty <= 10);
  require(isfinite(config->embed_scale) && isfinite(config->residual_scale) && isfinite(config->logit_scale));
  require(isfinite(config->attention_scale) && config->attention_scale >= 0);
  require(yk_model_family_name(config->family)[0]);
  require(!config->pooling.takes_last_token || !config->pooling.refused[0]);
  check_experts(&config->experts, config->n_layers);
  check_latent(config);
  const yk_quant_scheme *scheme;
  yk_err err = YK_ERR_INIT;
  bool is_reported = yk_quant_scheme_of(&config->quant, "model.layers.0.mlp.down_proj", &scheme, &err) == YK_OK;
  require(is_reported || err.message[0]);
  if (is_reported && scheme)
    require(scheme->format != YK_WEIGHT_PLAIN && scheme->packing < YK_N_PACKINGS &&
            (scheme->group_size == -1 || scheme->group_size >= (scheme->format == YK_WEIGHT_FP8 ? 1 : 16)));

  float table[2 * YK_MAX_HEAD_DIM];
  yk_rope_table_fill(&config->rope, config->head_dim, config->rotary_dim, 2, table);
  for (int i = 0; i < 2 * config->head_dim; i++) require(isfinite(table[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  yk_config_texts texts = {0};
  texts.config = next_text(&data, &n_bytes, &texts.config_bytes);
  if (!texts.config) texts.config = "";
  texts.generation = next_text(&data, &n_bytes, &texts.generation_bytes);
  texts.quantize_file = "quantize_config.json";
  texts.quantize = next_text(&data, &n_bytes, &texts.quantize_bytes);
  texts.modules = next_text(&data, &n_bytes, &texts.modules_bytes);
  texts.pooling = next_text(&data, &n_bytes, &texts.pooling_bytes);
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  if (yk_model_config_parse(&texts, NULL, &config, &err) != YK_OK) {
    require(err.code != YK_OK && err.message[0]);
    return 0;
  }
  require(err.code == YK_OK);
  check_config(&config);
  yk_model_config_free(&config);
  return 0;
}
