/* hf_experts.c - the keys of config.json for mixtures of experts and their routing. Each family has its own keys; keys
 * that determine shapes are required. */
#include <string.h>

#include "loader/hf/hf_parts.h"

/* Layers with experts: Qwen's keys. */
static yk_status read_sparse_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char key[] = "mlp_only_layers";
  int32_t step = 1;
  YK_TRY(yk_json_get_i32(root, file, "decoder_sparse_step", false, 1, INT32_MAX, &step, err));
  for (int32_t i = 0; i < config->n_layers; i++) config->experts.layers[i] = (i + 1) % step == 0;
  yk_json dense = yk_json_get(root, key);
  if (!yk_json_is_given(dense)) return YK_OK;
  if (!yk_json_is(dense, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of layers, found %s", file, key,
                      yk_json_type_name(dense));
  for (size_t i = 0; i < yk_json_size(dense); i++) {
    yk_json layer = yk_json_at(dense, i);
    int64_t value = -1;
    if (!yk_json_is_integer(layer) || !yk_json_to_i64(layer, &value) || value < 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a layer from 0 on, found %s", file, key, i,
                        yk_json_is_integer(layer) ? yk_json_text(layer) : yk_json_type_name(layer));
    if (value < config->n_layers) config->experts.layers[value] = false;
  }
  return YK_OK;
}

static yk_status set_top_k(const char *file, const char *key, int32_t top_k, yk_experts_config *x, yk_err *err)
{
  if (top_k < 1) return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected at least 1, found %d", file, key, top_k);
  if (top_k > x->n_experts)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected at most the %d experts, found %d", file, key, x->n_experts,
                      top_k);
  if (top_k > YK_MAX_TOP_K)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported; supported: 1 to %d", file, key, top_k,
                      YK_MAX_TOP_K);
  x->top_k = top_k;
  return YK_OK;
}

static yk_status read_top_k(yk_json root, const char *file, const char *key, yk_experts_config *x, yk_err *err)
{
  int32_t top_k = 0;
  YK_TRY(yk_json_get_i32(root, file, key, true, 1, INT32_MAX, &top_k, err));
  return set_top_k(file, key, top_k, x, err);
}

/* Shared experts are one of their joint size. */
static yk_status set_shared_size(const char *file, const char *key, int32_t n_shared, yk_experts_config *x, yk_err *err)
{
  if ((int64_t)n_shared * x->ffn_size > YK_MAX_FFN)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected at most %d in all of %d each, found %d", file, key,
                      YK_MAX_FFN, x->ffn_size, n_shared);
  x->shared_ffn_size = n_shared * x->ffn_size;
  return YK_OK;
}

static yk_status read_qwen(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  /* transformers 5 saves Qwen3-MoE with Mixtral's name for this key. */
  bool is_renamed = !yk_json_get(root, "num_experts").doc && yk_json_get(root, "num_local_experts").doc;
  const char *n_experts = is_renamed ? "num_local_experts" : "num_experts";
  YK_TRY(yk_json_get_i32(root, file, n_experts, true, 0, YK_MAX_EXPERTS, &x->n_experts, err));
  if (x->n_experts == 0) return YK_OK;
  YK_TRY(read_top_k(root, file, "num_experts_per_tok", x, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  x->normalise = yk_family_is_hybrid(config->family);
  YK_TRY(yk_json_get_bool(root, file, "norm_topk_prob", false, &x->normalise, err));
  YK_TRY(read_sparse_layers(root, file, config, err));
  if (config->family == YK_FAMILY_QWEN3_MOE) return YK_OK;
  x->has_shared_gate = true;
  return yk_json_get_i32(root, file, "shared_expert_intermediate_size", true, 1, YK_MAX_FFN, &x->shared_ffn_size, err);
}

static yk_status read_mixtral(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  YK_TRY(yk_json_get_i32(root, file, "num_local_experts", true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  YK_TRY(read_top_k(root, file, "num_experts_per_tok", x, err));
  x->ffn_size = config->ffn_size;
  x->normalise = true;
  memset(x->layers, true, (size_t)config->n_layers * sizeof *x->layers);
  return YK_OK;
}

/* Granite: as Mixtral, with a shared expert in two of the three classes; the one with Mamba2 may have no experts. */
static yk_status read_granite(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t n_experts = 1;
  if (config->family == YK_FAMILY_GRANITE_HYBRID)
    YK_TRY(yk_json_get_i32(root, file, "num_local_experts", true, 0, YK_MAX_EXPERTS, &n_experts, err));
  if (n_experts == 0) return YK_OK;
  YK_TRY(yk_json_get_i32(root, file, "shared_intermediate_size", false, 0, YK_MAX_FFN, &config->experts.shared_ffn_size,
                         err));
  return read_mixtral(root, file, config, err);
}

/* MiniMax-M2. Keys of its other models, and of other routers, are in every file with these values. */
static yk_status read_minimax(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char *const required[] = {"use_routing_bias", "use_qk_norm"};
  const char *scoring, *norms;
  int32_t shared_size = 0;
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    bool is_on = true;
    YK_TRY(yk_json_get_bool(root, file, required[i], false, &is_on, err));
    if (!is_on)
      return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s false is not supported; supported: true", file, required[i]);
  }
  YK_TRY(yk_json_get_str(root, file, "scoring_func", false, &scoring, err));
  YK_TRY(yk_json_get_str(root, file, "qk_norm_type", false, &norms, err));
  YK_TRY(yk_json_get_i32(root, file, "shared_intermediate_size", false, 0, YK_MAX_FFN, &shared_size, err));
  if ((scoring && strcmp(scoring, "sigmoid") != 0) || (norms && strcmp(norms, "per_layer") != 0) || shared_size > 0)
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "%s: expected scoring_func sigmoid, qk_norm_type per_layer, shared_intermediate_size 0, found %s, "
        "%s, %d: others are not supported",
        file, scoring ? scoring : "sigmoid", norms ? norms : "per_layer", shared_size);
  yk_json types = yk_json_get(root, "attn_type_list");
  if (yk_json_is_given(types) && !yk_json_is(types, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: attn_type_list: expected an array of integers, found %s", file,
                      yk_json_type_name(types));
  for (size_t i = 0; i < yk_json_size(types); i++) {
    int64_t type = 0;
    if (!yk_json_to_i64(yk_json_at(types, i), &type) || type != 1)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: attn_type_list[%zu]: layers without softmax attention are not supported", file, i);
  }
  config->experts.scoring = YK_SCORE_SIGMOID;
  config->experts.has_choice_bias = true;
  return read_mixtral(root, file, config, err);
}

/* The softmax over the chosen experts' logits equals the softmax over all logits, normalised over the chosen
 * experts. */
static yk_status read_gpt_oss(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  config->experts.has_biases = config->experts.is_interleaved = true;
  return read_mixtral(root, file, config, err);
}

/* Gemma 4: every layer or none has experts in parallel with its dense FFN. */
static yk_status read_gemma4(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  bool has_experts = false;
  YK_TRY(yk_json_get_bool(root, file, "enable_moe_block", false, &has_experts, err));
  if (!has_experts) return YK_OK;
  YK_TRY(yk_json_get_i32(root, file, "num_experts", true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  YK_TRY(read_top_k(root, file, "top_k_experts", x, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  x->normalise = x->has_branches = true;
  memset(x->layers, true, (size_t)config->n_layers * sizeof *x->layers);
  return YK_OK;
}

/* Families whose class has a default of 8 groups, which fits only one model. */
static bool requires_groups(yk_model_family family)
{
  return family == YK_FAMILY_DEEPSEEK_V3 || family == YK_FAMILY_DEEPSEEK_V32 || family == YK_FAMILY_KIMI_K25;
}

/* Ernie 4.5: layers with experts are every moe_layer_interval-th one between two others. */
static yk_status read_ernie_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t first = 1, last = -1, interval = 1; /* the class defaults */
  YK_TRY(yk_json_get_i32(root, file, "moe_layer_start_index", false, 0, INT32_MAX, &first, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_layer_end_index", false, -1, INT32_MAX, &last, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_layer_interval", false, 1, INT32_MAX, &interval, err));
  if (last == -1) last = config->n_layers - 1;
  for (int32_t i = 0; i < config->n_layers; i++)
    config->experts.layers[i] = (i + 1) % interval == 0 && i >= first && i <= last;
  return YK_OK;
}

/* The sum of a row's weights is at least moe_norm_min before it divides them: a bound that sums of probabilities of
 * chosen experts do not reach has no effect. */
static yk_status read_ernie(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const double largest_bound = 1e-6;
  yk_experts_config *x = &config->experts;
  const char *n_experts = yk_json_get(root, "num_experts").doc ? "num_experts" : "moe_num_experts";
  double bound = 1e-12; /* the class default */
  int32_t n_shared = 2;
  YK_TRY(yk_json_get_i32(root, file, n_experts, true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  YK_TRY(read_top_k(root, file, yk_json_get(root, "moe_k").doc ? "moe_k" : "num_experts_per_tok", x, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_num_shared_experts", false, 0, YK_MAX_EXPERTS, &n_shared, err));
  YK_TRY(set_shared_size(file, "moe_num_shared_experts", n_shared, x, err));
  YK_TRY(yk_json_get_f64(root, file, "moe_norm_min", false, 0, 1, &bound, err));
  if (bound > largest_bound)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: moe_norm_min %g is not supported; supported: 0 to %g", file, bound,
                      largest_bound);
  x->normalise = x->has_choice_bias = true;
  return read_ernie_layers(root, file, config, err);
}

/* Hunyuan: a number that a file may give for each layer, and that must be the same in all. */
static yk_status read_same(yk_json root, const char *file, const char *key, int32_t *out, yk_err *err)
{
  yk_json value = yk_json_get(root, key);
  if (!yk_json_is(value, YK_JSON_ARRAY)) return yk_json_get_i32(root, file, key, false, 0, INT32_MAX, out, err);
  if (yk_json_size(value) == 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a number, or one for each layer, found an empty array", file,
                      key);
  for (size_t i = 0; i < yk_json_size(value); i++) {
    yk_json element = yk_json_at(value, i);
    int64_t n = -1;
    if (!yk_json_is_integer(element) || !yk_json_to_i64(element, &n) || n < 0 || n > INT32_MAX)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a number from 0 on, found %s", file, key, i,
                        yk_json_is_integer(element) ? yk_json_text(element) : yk_json_type_name(element));
    if (i > 0 && n != *out)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: %s[%zu] %d beside %d is not supported; supported: one number for "
                        "all layers",
                        file, key, i, (int)n, *out);
    *out = (int32_t)n;
  }
  return YK_OK;
}

static yk_status require_same(yk_json root, const char *file, const char *key, int32_t expected, yk_err *err)
{
  int32_t found = expected;
  YK_TRY(read_same(root, file, key, &found, err));
  if (found == expected) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported for this family; supported: %d", file, key,
                    found, expected);
}

/* Hunyuan: experts of the size of its FFN, and one shared expert, in every layer. */
static yk_status read_hunyuan(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  const char *key = yk_json_get(root, "moe_topk").doc ? "moe_topk" : "num_experts_per_tok";
  int32_t top_k = 0;
  YK_TRY(read_same(root, file, "num_experts", &x->n_experts, err));
  YK_TRY(read_same(root, file, key, &top_k, err));
  if (x->n_experts < 1 || x->n_experts > YK_MAX_EXPERTS)
    return yk_err_set(err, YK_E_FORMAT, "%s: num_experts: expected 1 to %d, found %d", file, YK_MAX_EXPERTS,
                      x->n_experts);
  YK_TRY(set_top_k(file, key, top_k, x, err));
  YK_TRY(require_same(root, file, "moe_intermediate_size", config->ffn_size, err));
  YK_TRY(require_same(root, file, "num_shared_expert", 1, err));
  YK_TRY(require_same(root, file, "moe_layer_num_skipped", 0, err));
  x->ffn_size = x->shared_ffn_size = config->ffn_size;
  x->normalise = true;
  memset(x->layers, true, (size_t)config->n_layers * sizeof *x->layers);
  return YK_OK;
}

/* Groups of experts, of which the best are selected. */
static yk_status read_groups(yk_json root, const char *file, bool is_required, yk_experts_config *x, yk_err *err)
{
  YK_TRY(yk_json_get_i32(root, file, "n_group", is_required, 1, x->n_experts, &x->n_groups, err));
  if (x->n_experts % x->n_groups != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: n_group: expected a divisor of the %d experts, found %d", file,
                      x->n_experts, x->n_groups);
  if (x->n_groups > YK_MAX_EXPERT_GROUPS)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: n_group %d is not supported; supported: 1 to %d", file, x->n_groups,
                      YK_MAX_EXPERT_GROUPS);
  YK_TRY(yk_json_get_i32(root, file, "topk_group", x->n_groups > 1, 1, x->n_groups, &x->top_groups, err));
  int32_t group_size = x->n_experts / x->n_groups, n_left = x->top_groups * group_size;
  if (x->top_k > n_left)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: num_experts_per_tok: expected at most the %d experts of topk_group = %d groups, found %d",
                      file, n_left, x->top_groups, x->top_k);
  if (x->n_groups > 1 && x->group_score == YK_GROUP_SCORE_LARGEST_TWO && group_size < 2)
    return yk_err_set(err, YK_E_FORMAT, "%s: n_group: expected groups of at least 2 of the %d experts, found %d groups",
                      file, x->n_experts, x->n_groups);
  return YK_OK;
}

/* A value of topk_method. */
typedef struct choice_method {
  const char *name;
  bool has_groups, has_choice_bias;
  yk_expert_group_score group_score;
} choice_method;

/* Read scoring_func and topk_method; x->scoring holds the default of the first. */
static yk_status read_method(yk_json root, const char *file, yk_model_family family, yk_experts_config *x, yk_err *err)
{
  static const choice_method methods[] = {{"noaux_tc", true, true, YK_GROUP_SCORE_LARGEST_TWO},
                                          {"group_limited_greedy", true, false, YK_GROUP_SCORE_MAXIMUM},
                                          {"greedy", false, false, YK_GROUP_SCORE_MAXIMUM}};
  const size_t n_methods = sizeof methods / sizeof *methods;
  const char *scoring, *name;
  YK_TRY(yk_json_get_str(root, file, "scoring_func", false, &scoring, err));
  if (scoring && strcmp(scoring, "sigmoid") != 0 && strcmp(scoring, "softmax") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: scoring_func \"%s\" is not supported; supported: softmax, "
                      "sigmoid",
                      file, scoring);
  if (scoring) x->scoring = strcmp(scoring, "softmax") == 0 ? YK_SCORE_SOFTMAX : YK_SCORE_SIGMOID;
  YK_TRY(yk_json_get_str(root, file, "topk_method", false, &name, err));
  if (!name) name = family == YK_FAMILY_DEEPSEEK_V2 ? "greedy" : "noaux_tc";
  size_t i = 0;
  while (i < n_methods && strcmp(methods[i].name, name) != 0) i++;
  if (i == n_methods)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: topk_method \"%s\" is not supported; supported: noaux_tc, group_limited_greedy, greedy",
                      file, name);
  x->has_choice_bias = methods[i].has_choice_bias && !yk_family_is_mistral4(family);
  x->group_score = methods[i].group_score;
  return methods[i].has_groups ? read_groups(root, file, requires_groups(family), x, err) : YK_OK;
}

static const char types_key[] = "mlp_layer_types";

/* "dense" or "sparse" for every layer. */
static yk_status read_layer_types(yk_json types, const char *file, yk_model_config *config, yk_err *err)
{
  if (!yk_json_is(types, YK_JSON_ARRAY) || yk_json_size(types) != (size_t)config->n_layers)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"%s\": expected an array of num_hidden_layers = %d strings, found %s of %zu", file,
                      types_key, config->n_layers, yk_json_type_name(types), yk_json_size(types));
  for (int32_t i = 0; i < config->n_layers; i++) {
    const char *type = yk_json_string(yk_json_at(types, (size_t)i));
    if (!type || (strcmp(type, "dense") != 0 && strcmp(type, "sparse") != 0))
      return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s[%d] \"%s\" is not supported; supported: dense, sparse", file,
                        types_key, i, type ? type : "(not a string)");
    config->experts.layers[i] = strcmp(type, "sparse") == 0;
  }
  return YK_OK;
}

static yk_status read_dense_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t n_dense = 0, step = 1;
  yk_json types = yk_json_get(root, types_key);
  bool is_required =
      config->family != YK_FAMILY_GLM4_MOE_LITE && !yk_family_is_mistral4(config->family) && !yk_json_is_given(types);
  if (config->family == YK_FAMILY_GLM4_MOE_LITE) n_dense = 1; /* the class default */
  YK_TRY(yk_json_get_i32(root, file, "first_k_dense_replace", is_required, 0, INT32_MAX, &n_dense, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_layer_freq", false, 1, INT32_MAX, &step, err));
  for (int32_t i = n_dense; i < config->n_layers; i++) config->experts.layers[i] = i % step == 0;
  return yk_json_is_given(types) ? read_layer_types(types, file, config, err) : YK_OK;
}

/* Families whose class has a default other than 1, which fits only one model. */
static bool requires_scale(yk_model_family family)
{
  return family == YK_FAMILY_GLM4_MOE_LITE || family == YK_FAMILY_GLM_MOE_DSA || requires_groups(family);
}

/* DeepSeek-V2 and V3, and families that use V3's keys. n_routed_experts null: every layer is dense; n_shared_experts
 * null: no shared expert. */
static yk_status read_deepseek(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  const bool is_v2 = config->family == YK_FAMILY_DEEPSEEK_V2, is_mistral4 = yk_family_is_mistral4(config->family);
  int32_t n_shared = 0;
  if (yk_json_is(yk_json_get(root, "n_routed_experts"), YK_JSON_NULL)) return YK_OK;
  YK_TRY(yk_json_get_i32(root, file, "n_routed_experts", true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  YK_TRY(read_top_k(root, file, "num_experts_per_tok", x, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  const bool has_shared_key = yk_json_get(root, "n_shared_experts").doc != NULL;
  YK_TRY(yk_json_get_i32(root, file, "n_shared_experts", !has_shared_key, 0, YK_MAX_EXPERTS, &n_shared, err));
  YK_TRY(set_shared_size(file, "n_shared_experts", n_shared, x, err));
  x->normalise = !is_v2;
  x->scoring = is_v2 || is_mistral4 ? YK_SCORE_SOFTMAX : YK_SCORE_SIGMOID;
  YK_TRY(yk_json_get_bool(root, file, "norm_topk_prob", false, &x->normalise, err));
  YK_TRY(
      yk_json_get_f32(root, file, "routed_scaling_factor", requires_scale(config->family), 1e-6, 1e6, &x->scale, err));
  YK_TRY(read_method(root, file, config->family, x, err));
  return read_dense_layers(root, file, config, err);
}

/* Nemotron-3: the keys of DeepSeek-V3, and its choice of experts; further keys have the size of the shared expert and
 * that of the experts' inputs. */
static yk_status read_nemotron(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char latent[] = "moe_latent_size";
  yk_experts_config *x = &config->experts;
  bool is_used = false;
  int32_t n_shared = 1;
  for (int32_t i = 0; i < config->n_layers; i++) is_used |= x->layers[i];
  if (!is_used) return YK_OK;
  YK_TRY(yk_json_get_i32(root, file, "n_routed_experts", true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  YK_TRY(read_top_k(root, file, "num_experts_per_tok", x, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  YK_TRY(yk_json_get_i32(root, file, "moe_shared_expert_intermediate_size", true, 1, YK_MAX_FFN, &x->shared_ffn_size,
                         err));
  YK_TRY(yk_json_get_i32(root, file, latent, false, 1, YK_MAX_HIDDEN, &x->latent_size, err));
  YK_TRY(yk_json_get_i32(root, file, "n_shared_experts", false, 0, YK_MAX_EXPERTS, &n_shared, err));
  if (n_shared != 1)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: n_shared_experts %d is not supported for this family; supported: 1",
                      file, n_shared);
  if (config->mlp_bias)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: mlp_bias true is not supported with experts; supported: false", file);
  x->normalise = x->has_choice_bias = true;
  x->scoring = YK_SCORE_SIGMOID;
  x->group_score = YK_GROUP_SCORE_LARGEST_TWO;
  YK_TRY(yk_json_get_bool(root, file, "norm_topk_prob", false, &x->normalise, err));
  YK_TRY(yk_json_get_f32(root, file, "routed_scaling_factor", true, 1e-6, 1e6, &x->scale, err));
  return read_groups(root, file, false, x, err);
}

yk_status yk_hf_read_experts(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  config->experts.n_groups = config->experts.top_groups = 1;
  config->experts.scale = 1;
  if (yk_family_is_latent(config->family)) return read_deepseek(root, file, config, err);
  switch (config->family) {
  case YK_FAMILY_MINIMAX_M2: return read_minimax(root, file, config, err);
  case YK_FAMILY_NEMOTRON_H: return read_nemotron(root, file, config, err);
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL: return yk_hf_read_llama4_experts(root, file, config, err);
  case YK_FAMILY_MIXTRAL: return read_mixtral(root, file, config, err);
  case YK_FAMILY_GEMMA4:
  case YK_FAMILY_GEMMA4_VL: return read_gemma4(root, file, config, err);
  case YK_FAMILY_GPT_OSS: return read_gpt_oss(root, file, config, err);
  case YK_FAMILY_HUNYUAN_MOE: return read_hunyuan(root, file, config, err);
  case YK_FAMILY_GRANITE_MOE:
  case YK_FAMILY_GRANITE_HYBRID: return read_granite(root, file, config, err);
  case YK_FAMILY_ERNIE4_5_MOE: return read_ernie(root, file, config, err);
  case YK_FAMILY_QWEN2_MOE:
  case YK_FAMILY_QWEN3_MOE:
  case YK_FAMILY_QWEN3_NEXT:
  case YK_FAMILY_QWEN3_5_MOE:
  case YK_FAMILY_QWEN3_5_MOE_VL: return read_qwen(root, file, config, err);
  case YK_FAMILY_GLM4_MOE: return read_deepseek(root, file, config, err);
  default: return YK_OK;
  }
}
