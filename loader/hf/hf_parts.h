/* hf_parts.h - the parts of hf_config.c, one file each. Not for use outside the loader. */
#ifndef YK_LOADER_HF_PARTS_H
#define YK_LOADER_HF_PARTS_H

#include "base/json.h"
#include "base/log.h"
#include "loader/model/model_config.h"

/* yk_hf_read_family - config->family from the first known class of "architectures"; without classes, from
 *   "model_type". Also sets text_place to that of the family's published files. */
yk_status yk_hf_read_family(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_activation - the FFN's activation and its parameters: the family's default unless the file names one. */
yk_status yk_hf_read_activation(yk_json root, const char *file, yk_model_family family, yk_activation *out,
                                yk_err *err);

/* yk_hf_read_layer_options - biases of linear layers, norms of q, k and results, attention sinks, tied embeddings:
 *   fixed by the family or read from the file; needs family. */
yk_status yk_hf_read_layer_options(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_scales - factors of embeddings, residuals, scores and logits; needs family and sizes. */
yk_status yk_hf_read_scales(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_rope - config->rope from rope_scaling, rope_parameters and rope_theta; needs family, head_dim and
 *   max_position_embeddings. Also sets the rotating part of a head, and max_model_tokens. */
yk_status yk_hf_read_rope(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_longrope - config->rope of type longrope from its settings, and default_model_tokens; needs
 *   max_position_embeddings and the rope's original_max_positions. n_pairs: half of the rotating elements of a head. */
yk_status yk_hf_read_longrope(yk_json object, const char *label, int32_t n_pairs, yk_model_config *config, yk_err *err);

/* yk_hf_read_llama4_layers - Llama 4: is_unrotated of each layer, and score_growth of those layers; needs n_layers. */
yk_status yk_hf_read_llama4_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_llama4_chunks - Llama 4: window_tokens and window_is_chunk; needs n_layers and is_unrotated. */
yk_status yk_hf_read_llama4_chunks(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_llama4_experts - Llama 4: config->experts, without experts if no layer has any; needs n_layers. */
yk_status yk_hf_read_llama4_experts(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_experts - config->experts; needs family, n_layers, ffn_size and the layer options, and for Nemotron-H the
 *   blocks. n_experts stays 0 for models without experts. */
yk_status yk_hf_read_experts(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_latent - sizes of latent attention, head_dim, n_kv_heads and the layout of rotating pairs. */
yk_status yk_hf_read_latent(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_delta - config->delta and attention_gates; needs family and n_layers. Zero for families without gated
 *   delta nets. */
yk_status yk_hf_read_delta(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_gemma4_widths - Gemma 4: moves head_dim and n_kv_heads, which the caller has read for layers with a
 *   window, to config->local, and sets them to those of layers without a window. Also sets values_are_keys; needs
 *   n_heads. */
yk_status yk_hf_read_gemma4_widths(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_gemma4_layers - Gemma 4: n_kv_shared_layers, reader_ffn_size and layer_input_size; removes the window of
 *   the last layer. Needs sizes and windows. No effect for other families. */
yk_status yk_hf_read_gemma4_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_blocks - Nemotron-H, whose layers are one sublayer each: n_layers, parts, mamba.layers and experts.layers.
 * yk_hf_has_dense_blocks - whether any of those layers is a dense FFN. */
yk_status yk_hf_read_blocks(yk_json root, const char *file, yk_model_config *config, yk_err *err);
bool yk_hf_has_dense_blocks(const yk_model_config *config);

/* yk_hf_read_granite_ffn_size, yk_hf_read_granite_layers - Granite with Mamba2: ffn_size, that of the experts if there
 *   are any; and mamba.layers, which needs n_layers and has no effect for other families. */
yk_status yk_hf_read_granite_ffn_size(yk_json root, const char *file, yk_model_config *config, yk_err *err);
yk_status yk_hf_read_granite_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_mamba - the fields of config->mamba other than layers; needs n_layers and mamba.layers. No effect if no
 *   layer is Mamba2. */
yk_status yk_hf_read_mamba(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_chatglm - sizes, biases, scales and rotation of the ChatGLM2 family, which has its own keys. */
yk_status yk_hf_read_chatglm(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_rope_default - no scaling, with default values in the fields of all scaling types. */
yk_rope_config yk_hf_rope_default(int32_t max_position_embeddings);

/* yk_hf_read_layer_types - which layers [n_layers] have the type `other`; all other layers have full attention. Without
 *   the key "layer_types", is_other stays as it is. */
yk_status yk_hf_read_layer_types(yk_json root, const char *file, int32_t n_layers, const char *other, bool *is_other,
                                 yk_err *err);

/* yk_hf_read_windows - window_tokens of every layer; needs family and n_layers. */
yk_status yk_hf_read_windows(yk_json root, const char *file, yk_model_config *config, yk_err *err);

/* yk_hf_read_quant - quantization_config or (older) compression_config in config.json, else the separate file (absent
 *   if there is none). */
yk_status yk_hf_read_quant(yk_json root, yk_json separate, const char *separate_file, yk_quant_config *quant,
                           yk_err *err);

/* yk_hf_read_msmodelslim - convert msmodelslim's description of every tensor into rules. file: its name. */
yk_status yk_hf_read_msmodelslim(yk_json object, const char *file, yk_quant_config *quant, yk_err *err);

/* yk_hf_read_generation - bos and eos ids, sampling defaults. text: the keys of the language model, root itself unless
 *   they stand in an object of root; generation is absent if there is no such file. A default
 *   outside its range is clamped, with a warning to log. */
yk_status yk_hf_read_generation(yk_json root, yk_json text, const char *file, yk_json generation,
                                const char *generation_file, const yk_log *log, yk_model_config *config, yk_err *err);

enum { YK_POOLING_FOLDER_BYTES = 64 };

/* yk_hf_find_pooling - the folder of the module that pools, from modules.json. False: none is named, or its name leads
 *   elsewhere than into the model's own folder. */
bool yk_hf_find_pooling(yk_json modules, char folder[YK_POOLING_FOLDER_BYTES]);

enum { YK_POOLING_FILE_BYTES = YK_POOLING_FOLDER_BYTES + 40 };

/* yk_hf_name_pooling_file - the name for messages of the file that modules.json's module Pooling is configured by:
 *   "1_Pooling/config.json". */
void yk_hf_name_pooling_file(yk_json modules, char name[YK_POOLING_FILE_BYTES]);

/* yk_hf_read_pooling - how the model makes embeddings, from config.json (root), modules.json and its pooling module's
 *   config.json, which are absent if there is no such file. */
void yk_hf_read_pooling(yk_json root, yk_json modules, yk_json pooling, int32_t hidden_size, yk_pooling_config *out);

#endif
