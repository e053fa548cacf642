/* model_config.h - the configuration of a model: the numbers that determine shapes, arithmetic and sampling. */
#ifndef YK_LOADER_MODEL_CONFIG_H
#define YK_LOADER_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "kernels/activation.h"
#include "kernels/expert_choice.h"
#include "kernels/kv_format.h"
#include "kernels/score_growth.h"
#include "kernels/weight.h"

enum {
  YK_MAX_LAYERS = 1024,
  YK_MAX_EOS_IDS = 16,
  YK_MAX_HIDDEN = 1 << 18,
  YK_MAX_FFN = 1 << 20,
  YK_MAX_VOCAB = 1 << 23,
  YK_MAX_HEADS = 1 << 12,
  YK_MAX_HEAD_DIM = 1 << 10,
  YK_MAX_POSITIONS = 1 << 26
};

typedef enum yk_model_family {
  YK_FAMILY_LLAMA,
  YK_FAMILY_MISTRAL,
  YK_FAMILY_QWEN2,
  YK_FAMILY_QWEN3,
  YK_FAMILY_MINICPM, /* also FM9G, "Jiuge" */
  YK_FAMILY_GLM,     /* GLM-4 with the names of transformers */
  YK_FAMILY_CHATGLM, /* ChatGLM2, ChatGLM3, and GLM-4 with the names of its own code */
  YK_FAMILY_MIXTRAL,
  YK_FAMILY_QWEN2_MOE,
  YK_FAMILY_QWEN3_MOE,
  YK_FAMILY_GLM4_MOE, /* GLM-4.5 to 4.7 */
  YK_FAMILY_DEEPSEEK_V2,
  YK_FAMILY_DEEPSEEK_V3, /* also R1 and Kimi-K2 */
  YK_FAMILY_QWEN3_NEXT,
  YK_FAMILY_QWEN3_5,        /* also 3.6 and 3.8 */
  YK_FAMILY_QWEN3_5_MOE,    /* the same, with experts */
  YK_FAMILY_QWEN3_5_VL,     /* the text part of a model that also reads images */
  YK_FAMILY_QWEN3_5_MOE_VL, /* the same, with experts */
  YK_FAMILY_SEED_OSS,
  YK_FAMILY_ERNIE4_5,
  YK_FAMILY_ERNIE4_5_MOE,
  YK_FAMILY_GRANITE,
  YK_FAMILY_GRANITE_MOE,    /* with or without a shared expert */
  YK_FAMILY_GRANITE_HYBRID, /* with Mamba2, with or without experts */
  YK_FAMILY_HUNYUAN,        /* Hunyuan V1 */
  YK_FAMILY_HUNYUAN_MOE,
  YK_FAMILY_PHI3,          /* also Phi-4 */
  YK_FAMILY_GLM4_MOE_LITE, /* GLM-4.7-Flash */
  YK_FAMILY_KIMI_K25,      /* the text part, which is DeepSeek-V3 */
  YK_FAMILY_DEEPSEEK_V32,
  YK_FAMILY_GLM_MOE_DSA, /* GLM-5 */
  YK_FAMILY_GPT_OSS,
  YK_FAMILY_GEMMA3,
  YK_FAMILY_GEMMA3_VL,   /* the text part of a model that also reads images */
  YK_FAMILY_GLM4,        /* GLM-4-0414 and Z1 */
  YK_FAMILY_MISTRAL3_VL, /* the text part of Mistral-Small-3.1 and 3.2, which is Mistral */
  YK_FAMILY_MINISTRAL3,
  YK_FAMILY_MINISTRAL3_VL, /* its text part, as the next one's */
  YK_FAMILY_MISTRAL4,      /* Mistral-Small-4 */
  YK_FAMILY_MISTRAL4_VL,
  YK_FAMILY_MINIMAX_M2,
  YK_FAMILY_GEMMA4,
  YK_FAMILY_GEMMA4_VL,  /* the text part of a model that also reads images and sound */
  YK_FAMILY_NEMOTRON_H, /* also Nemotron-3 */
  YK_FAMILY_LLAMA4,
  YK_FAMILY_LLAMA4_VL /* the text part of a model that also reads images, as published */
} yk_model_family;

/* The place of the text model in the files, which determines the prefix of its tensors' names: the files hold the text
 * model alone, or other parts, for images or sound, too. */
typedef enum yk_text_place {
  YK_TEXT_ALONE,         /* model.layers, lm_head */
  YK_TEXT_IN_MODEL,      /* model.language_model.layers, lm_head */
  YK_TEXT_OUTSIDE_MODEL, /* language_model.model.layers, language_model.lm_head */
  YK_TEXT_IN_BACKBONE,   /* backbone.layers, lm_head */
  YK_N_TEXT_PLACES
} yk_text_place;

typedef enum yk_rope_type {
  YK_ROPE_DEFAULT,
  YK_ROPE_LINEAR,
  YK_ROPE_LLAMA3,
  YK_ROPE_YARN,
  YK_ROPE_LONGROPE,
  YK_ROPE_PROPORTIONAL
} yk_rope_type;

/* Rotary embedding. Fields that a type does not use have their defaults. */
typedef struct yk_rope_config {
  yk_rope_type type;
  double theta;
  double factor;                            /* linear, llama3, yarn, longrope, proportional; 1 otherwise */
  double original_max_positions;            /* llama3, yarn, longrope: training context before scaling */
  double low_freq_factor, high_freq_factor; /* llama3; high >= low */
  double beta_fast, beta_slow;              /* yarn; 32 and 1 */
  double attention_factor;                  /* yarn, longrope; 0: derived from factor and the two below */
  double mscale, mscale_all_dim;            /* yarn; 0: not given */
  /* longrope: [pairs] divisors of the frequencies in contexts of up to original_max_positions, and in longer ones */
  float short_divisors[YK_MAX_HEAD_DIM / 2], long_divisors[YK_MAX_HEAD_DIM / 2];
  bool truncate; /* yarn: round the bounds of the ramp to whole dimensions; default true */
  double share;  /* proportional: fraction of pairs, the first ones, that rotate; others have frequency 0. Else 1 */
} yk_rope_config;

/* Multi-head latent attention: the projections of DeepSeek-V2, section 2.1. Its norms have a separate epsilon. */
typedef struct yk_latent_config {
  int32_t q_rank;  /* values between q_a and q_b; 0: q is one projection */
  int32_t kv_rank; /* size of the latent vector of a token, from which keys and values of all heads are computed; 0: no
                    * latent attention */
  int32_t nope_dim, value_dim; /* per head: q and k without rotation, and v; head_dim: q and k with rotation */
} yk_latent_config;

typedef enum yk_quant_method {
  YK_QUANT_NONE,
  YK_QUANT_AWQ,
  YK_QUANT_GPTQ,
  YK_QUANT_COMPRESSED_TENSORS,
  YK_QUANT_AUTO_ROUND,
  YK_QUANT_FP8,
  YK_QUANT_MSMODELSLIM,
  YK_QUANT_MODELOPT,
  YK_QUANT_MXFP4 /* gpt-oss: its experts alone */
} yk_quant_method;

typedef enum yk_quant_zeros {
  YK_ZEROS_STORED,   /* a tensor holds them */
  YK_ZEROS_LESS_ONE, /* a tensor holds zero - 1 */
  YK_ZEROS_OPTIONAL, /* stored, or without a tensor as NONE */
  YK_ZEROS_NONE      /* all 8 (4 bits) or 0 (8 bits, signed); a tensor of zeros is not read */
} yk_quant_zeros;

/* Storage of quantised weights. */
typedef struct yk_quant_scheme {
  yk_weight_format format; /* AWQ (4-bit integers), INT8, FP8 or FP4 */
  yk_packing packing;
  int32_t group_size;    /* 16 to 1024 (FP8: 1 to 65536), or -1 for the whole K of each layer */
  bool may_be_channel;   /* a layer with one scale per output uses groups of the whole K */
  int32_t group_outputs; /* BLOCKS: outputs that share a scale, 1 to 65536, or -1 for all of each layer */
  yk_quant_zeros zeros;
  yk_inputs_kind inputs; /* INT8, AWQ: how the layer's inputs are quantised */
  bool has_input_zeros;  /* STATIC inputs: a tensor holds their zeros */
  int32_t input_bits;    /* FP8, FP4: the checkpoint requests inputs rounded to floats of this number of bits, which is
                          * not supported and reported as a remark; 0: no rounding */
  bool act_order;        /* groups may be other than runs of neighbouring inputs: g_idx is required */
} yk_quant_scheme;

typedef struct yk_quant_config {
  yk_quant_method method;
  yk_quant_scheme scheme;       /* for modules that match no rule */
  bool only_named;              /* modules that match no rule are not quantised; only the packing of scheme is used */
  struct yk_quant_rules *rules; /* quant_rules.h; NULL: none */
  yk_kv_format kv_format;       /* of the KV cache, if the checkpoint has static scales for it; ACT: it has none */
} yk_quant_config;

/* Sampling defaults, each within the range of the request parameter. Without generation_config.json: temperature 1 and
 * all others off. */
typedef struct yk_generation_defaults {
  float temperature;        /* 0 if do_sample is false */
  float top_p;              /* 1: off */
  float min_p;              /* 0: off */
  int32_t top_k;            /* 0: off; at most vocab_size */
  float repetition_penalty; /* 1: off */
  int32_t max_new_tokens;   /* 0: no default */
} yk_generation_defaults;

/* A mixture of experts, which replaces the feed-forward network of some layers: kernels/experts.h has the
 * arithmetic. */
typedef struct yk_experts_config {
  int32_t n_experts;       /* 0: every layer is dense */
  int32_t top_k;           /* experts per row */
  int32_t ffn_size;        /* of one expert */
  int32_t shared_ffn_size; /* of the shared expert, which processes every row; 0: no shared expert */
  int32_t latent_size;  /* of the experts' inputs and results, between two projections (kernels/mixture.h); 0: hidden */
  bool has_shared_gate; /* the shared expert's output is multiplied by the sigmoid of a linear layer's output */
  bool has_biases;      /* of the router and of the experts' projections */
  bool is_interleaved;  /* one module has the interleaved outputs of gate and up; gate's outputs are the even rows */
  bool has_choice_bias; /* a correction is added to the scores for the choice of experts, not for their weights */
  yk_expert_scoring scoring;
  int32_t n_groups, top_groups;
  yk_expert_group_score group_score;
  bool normalise;
  bool weighs_inputs; /* the weight of a choice multiplies the expert's input, not the result */
  float scale;
  /* Layers with experts have a dense FFN too, and add both results (runtime/model/ffn_branches.c). The dense FFN, the
   * experts and the router have a norm each before them, and both results one after; each expert has a factor on the
   * weights of its choices. */
  bool has_branches;
  bool layers[YK_MAX_LAYERS]; /* [n_layers] whether a layer has experts */
} yk_experts_config;

/* Gated delta nets (kernels/gated_delta.h), which replace the attention of some layers. */
typedef struct yk_delta_config {
  int32_t n_key_heads;   /* 0: every layer has attention */
  int32_t n_value_heads; /* a multiple of n_key_heads */
  int32_t key_dim, value_dim;
  bool is_fused;              /* one module has q, k, v and z, and one b and a, each interleaved by key head */
  bool layers[YK_MAX_LAYERS]; /* [n_layers] whether a layer is a gated delta net */
} yk_delta_config;

/* yk_delta_config_channels - channels of the convolution of all heads: q, k and v. */
static inline int64_t yk_delta_config_channels(const yk_delta_config *delta)
{
  return 2 * (int64_t)delta->n_key_heads * delta->key_dim + (int64_t)delta->n_value_heads * delta->value_dim;
}

/* Mamba2 (kernels/mamba.h), which replaces the attention of some layers. */
typedef struct yk_mamba_config {
  int32_t n_heads; /* 0: no layer has Mamba2; a multiple of n_groups */
  int32_t n_groups, head_dim, state_size;
  float min_step, max_step;       /* limits of the time step; max_step may be infinite */
  bool has_conv_bias, has_biases; /* of the convolution; of the projections */
  bool layers[YK_MAX_LAYERS];     /* [n_layers] whether a layer is Mamba2 */
} yk_mamba_config;

/* yk_mamba_config_width - elements of z or x of all heads. Thread: any. */
static inline int64_t yk_mamba_config_width(const yk_mamba_config *mamba)
{
  return (int64_t)mamba->n_heads * mamba->head_dim;
}

/* yk_mamba_config_channels - channels of the convolution of all groups: x, b and c. Thread: any. */
static inline int64_t yk_mamba_config_channels(const yk_mamba_config *mamba)
{
  return yk_mamba_config_width(mamba) + 2 * (int64_t)mamba->n_groups * mamba->state_size;
}

/* The sublayers of a layer, each after a norm. */
typedef enum yk_layer_parts {
  YK_LAYER_WHOLE, /* attention, or what replaces it, then a feed-forward network */
  YK_LAYER_ATTENTION_ALONE,
  YK_LAYER_FFN_ALONE
} yk_layer_parts;

/* How the model makes an embedding of a text. */
typedef struct yk_pooling_config {
  bool takes_last_token; /* the final hidden state of the last token; false: the model makes no embeddings */
  bool normalises;       /* divided by its Euclidean length */
  char refused[160];     /* why modules.json gives no embeddings; "": there is no such file, or it does */
} yk_pooling_config;

/* The widths of the attention of a layer. */
typedef struct yk_attention_widths {
  int32_t n_kv_heads; /* n_heads is a multiple of n_kv_heads; with latent attention n_kv_heads is 1 */
  int32_t head_dim;   /* even; not always hidden_size / n_heads */
  int32_t rotary_dim; /* even; the first rotary_dim elements of a head rotate, the others do not; 0: none rotates */
} yk_attention_widths;

typedef struct yk_model_config {
  yk_model_family family;
  yk_text_place text_place; /* of published files; opening a checkpoint sets that of its files (loader/text_names.h) */
  int32_t vocab_size, hidden_size;
  int32_t ffn_size;        /* channels of dense FFNs; may be 0 if no layer has one */
  int32_t reader_ffn_size; /* of layers that read another layer's cache (yk_model_config_kv_layer); 0: ffn_size */
  int32_t n_layers;
  int32_t n_heads;
  /* Those of yk_attention_widths for layers without a window, or for all layers: see yk_model_config_widths */
  int32_t n_kv_heads, head_dim, rotary_dim;
  yk_attention_widths local;  /* of layers with a window; head_dim 0: the same as the other layers */
  int32_t n_kv_shared_layers; /* number of last layers that read other layers' KV caches: yk_model_config_kv_layer */
  bool values_are_keys;       /* values of layers without a window are their keys before norm and rotation */
  int32_t layer_input_size;   /* elements of each layer's separate embedding of a token; 0: none */
  yk_latent_config latent;
  int32_t max_position_embeddings;
  int32_t max_model_tokens; /* longest context: max_position_embeddings, or the context extended by rope scaling */
  /* The longest context unless the caller requests a longer context, which changes the arithmetic of shorter contexts
   * too: see yk_rope_frequencies. 0: max_model_tokens. */
  int32_t default_model_tokens;
  float rms_norm_eps;
  bool tie_word_embeddings; /* lm_head is the embedding matrix: the files have no separate head */
  bool lacks_head;          /* neither that nor a head: the model only makes embeddings */
  bool qkv_bias, o_bias, mlp_bias;
  bool qk_norm;             /* per-head RMSNorm of q and k, after projection */
  bool qk_norm_follows;     /* after RoPE too; else before */
  bool qk_norm_is_plain;    /* without weights, and only in layers that rotate */
  bool row_norms;           /* RMSNorm of the whole rows of q and k, over all heads, in place of qk_norm */
  bool value_norms;         /* per-head RMSNorm of v, without weights */
  bool attention_gates;     /* q_proj has for each head its query, then a gate: results are multiplied by its sigmoid */
  bool result_norms;        /* the results of attention and FFN are normalised before they are added */
  bool layer_scalars;       /* each layer has a factor on the residual after its last sublayer */
  bool attention_sinks;     /* each query head has a number that counts in its softmax as a score without a value */
  float norm_offset;        /* added to the stored weights of norms: 1, or 0; not for the norm of a gated delta net */
  yk_dtype dtype;           /* of activations: torch_dtype or dtype; float16 if missing */
  yk_activation activation; /* of every FFN: from hidden_act */
  yk_rope_config rope;
  bool has_local_rope; /* layers with a window rotate by the next one */
  yk_rope_config local_rope;
  bool rotary_interleaved;              /* elements 2i and 2i + 1 are a pair; else i and i + rotary_dim / 2 */
  int32_t window_tokens[YK_MAX_LAYERS]; /* [n_layers] keys that a row attends to, including itself; 0: all */
  bool window_is_chunk;                 /* a row attends to the keys of its chunk of window_tokens, up to itself */
  bool is_unrotated[YK_MAX_LAYERS];     /* [n_layers] q and k of a layer do not rotate */
  yk_score_growth score_growth;         /* of attention scores with the position of the query */
  bool growth_is_unrotated;             /* score_growth applies only to layers that do not rotate */
  float attention_scale;                /* factor on products of queries and keys; 0: 1 / sqrt(head_dim) */
  float embed_scale;                    /* factor on embedding rows: scale_emb, else 1 */
  bool rounds_embed_scale;              /* the factor is rounded to the type of the activations */
  float residual_scale; /* factor on each branch when added to the residual: scale_depth / sqrt(layers), else 1 */
  float logit_scale;    /* factor on final hidden rows before lm_head: dim_model_base / hidden_size, else 1 */
  float logit_cap;      /* logits l become cap tanh(l / cap); 0: none */
  int32_t bos_id;       /* -1: none */
  int32_t eos_ids[YK_MAX_EOS_IDS]; /* [n_eos_ids] union of config.json and generation_config.json */
  int32_t n_eos_ids;
  yk_experts_config experts;
  yk_delta_config delta;
  yk_mamba_config mamba;
  uint8_t parts[YK_MAX_LAYERS]; /* [n_layers] yk_layer_parts */
  yk_quant_config quant;
  yk_generation_defaults generation;
  yk_pooling_config pooling;
} yk_model_config;

/* yk_model_config_widths - the widths of a layer's attention. Thread: any, as all below. */
static inline yk_attention_widths yk_model_config_widths(const yk_model_config *config, int32_t layer)
{
  if (config->window_tokens[layer] > 0 && config->local.head_dim > 0) return config->local;
  return (yk_attention_widths){config->n_kv_heads, config->head_dim, config->rotary_dim};
}

/* yk_model_config_kv_layer - the layer whose KV cache a layer reads. For the last n_kv_shared_layers layers: the last
 * layer before them that has a window if this layer has one, and has none if not; otherwise, and if there is no such
 * layer, the layer itself. */
static inline int32_t yk_model_config_kv_layer(const yk_model_config *config, int32_t layer)
{
  const int32_t first_shared = config->n_layers - config->n_kv_shared_layers;
  const bool has_window = config->window_tokens[layer] > 0;
  if (layer < first_shared) return layer;
  for (int32_t i = first_shared - 1; i >= 0; i--)
    if ((config->window_tokens[i] > 0) == has_window) return i;
  return layer;
}

/* yk_model_config_has_reader_ffn - whether a layer's dense FFN has reader_ffn_size channels, not ffn_size. */
static inline bool yk_model_config_has_reader_ffn(const yk_model_config *config, int32_t layer)
{
  return config->reader_ffn_size > 0 && layer >= config->n_layers - config->n_kv_shared_layers;
}

/* yk_model_has_states - whether some layer keeps a recurrent state per sequence. */
static inline bool yk_model_has_states(const yk_model_config *config)
{
  return config->delta.n_key_heads > 0 || config->mamba.n_heads > 0;
}

/* yk_layer_is_recurrent - whether a layer keeps a recurrent state per sequence. */
static inline bool yk_layer_is_recurrent(const yk_model_config *config, int32_t layer)
{
  return config->delta.layers[layer] || config->mamba.layers[layer];
}

/* yk_model_config_norms_heads - whether a layer has per-head norms of q and k, with weights or without. */
static inline bool yk_model_config_norms_heads(const yk_model_config *config, int32_t layer)
{
  return config->qk_norm && !(config->qk_norm_is_plain && config->is_unrotated[layer]);
}

/* yk_family_is_llama4 - whether a family is Llama 4, with or without images. */
static inline bool yk_family_is_llama4(yk_model_family family)
{
  return family == YK_FAMILY_LLAMA4 || family == YK_FAMILY_LLAMA4_VL;
}

/* yk_family_is_hunyuan - whether a family is Hunyuan V1, with experts or without. */
static inline bool yk_family_is_hunyuan(yk_model_family family)
{
  return family == YK_FAMILY_HUNYUAN || family == YK_FAMILY_HUNYUAN_MOE;
}

/* yk_family_is_granite - whether a family is Granite, with experts and Mamba2 or without. */
static inline bool yk_family_is_granite(yk_model_family family)
{
  return family >= YK_FAMILY_GRANITE && family <= YK_FAMILY_GRANITE_HYBRID;
}

/* yk_family_is_hybrid - whether a family has gated delta nets between the layers with attention. */
static inline bool yk_family_is_hybrid(yk_model_family family)
{
  return family >= YK_FAMILY_QWEN3_NEXT && family <= YK_FAMILY_QWEN3_5_MOE_VL;
}

/* yk_family_is_gemma3 - whether a family is Gemma 3, with or without images. */
static inline bool yk_family_is_gemma3(yk_model_family family)
{
  return family == YK_FAMILY_GEMMA3 || family == YK_FAMILY_GEMMA3_VL;
}

/* yk_family_is_gemma4 - whether a family is Gemma 4, with images and sound or without. */
static inline bool yk_family_is_gemma4(yk_model_family family)
{
  return family == YK_FAMILY_GEMMA4 || family == YK_FAMILY_GEMMA4_VL;
}

/* yk_family_is_gemma - whether a family is Gemma 3 or 4. */
static inline bool yk_family_is_gemma(yk_model_family family)
{
  return yk_family_is_gemma3(family) || yk_family_is_gemma4(family);
}

/* yk_family_is_latent - whether a family has latent attention. */
static inline bool yk_family_is_latent(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_DEEPSEEK_V2:
  case YK_FAMILY_DEEPSEEK_V3:
  case YK_FAMILY_GLM4_MOE_LITE:
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_DEEPSEEK_V32:
  case YK_FAMILY_GLM_MOE_DSA:
  case YK_FAMILY_MISTRAL4:
  case YK_FAMILY_MISTRAL4_VL: return true;
  default: return false;
  }
}

/* yk_family_is_mistral4 - whether a family is Mistral-Small-4, with or without images. */
static inline bool yk_family_is_mistral4(yk_model_family family)
{
  return family == YK_FAMILY_MISTRAL4 || family == YK_FAMILY_MISTRAL4_VL;
}

/* yk_family_is_ministral3 - whether a family is Ministral-3, with or without images. */
static inline bool yk_family_is_ministral3(yk_model_family family)
{
  return family == YK_FAMILY_MINISTRAL3 || family == YK_FAMILY_MINISTRAL3_VL;
}

/* yk_family_has_parts - whether the files of a family may hold parts other than the text model. If config.json has the
 * object "text_config", the keys of the text model are those of this object. */
static inline bool yk_family_has_parts(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_NEMOTRON_H:
  case YK_FAMILY_KIMI_K25:
  case YK_FAMILY_GEMMA3_VL:
  case YK_FAMILY_GEMMA4_VL:
  case YK_FAMILY_MISTRAL3_VL:
  case YK_FAMILY_MINISTRAL3_VL:
  case YK_FAMILY_MISTRAL4_VL:
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL: return true;
  default: return yk_family_is_hybrid(family);
  }
}

#endif
