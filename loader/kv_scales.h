/* kv_scales.h - the tensors of an 8-bit KV cache with static scales. Not for use outside the loader.
 *
 *   msmodelslim, C8        {k,v}_proj.kv_cache_scale, .kv_cache_offset [n_kv_heads * head_dim]: q = x / scale + offset
 *   compressed-tensors     self_attn.{k,v}_scale, one number: q = x / scale
 *   ModelOpt               {k,v}_proj.{k,v}_scale, likewise, also in families with one module for q, k and v; a layer
 *                          without both has scales of 1
 *
 * Source of the last: modelopt, torch/export/quant_utils.py; vLLM, model_executor/layers/attention. */
#ifndef YK_LOADER_KV_SCALES_H
#define YK_LOADER_KV_SCALES_H

#include "loader/model/model_config.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/tensors.h"

/* A module and the suffixes of its tensors; offset NULL: no such tensor. */
typedef struct yk_kv_scale_names {
  char module[YK_WEIGHT_NAME_BYTES];
  const char *scale, *offset;
} yk_kv_scale_names;

/* yk_kv_scale_names_of - the names for role K or V. Errors: YK_E_UNSUPPORTED if msmodelslim's names are wanted and
 *   the family stores q, k and v in one module. */
yk_status yk_kv_scale_names_of(const yk_model_config *config, yk_weight_role role, int layer, yk_kv_scale_names *out,
                               yk_err *err);

/* yk_kv_scales_read - scales and offsets of the layer's channels first .. first + n - 1.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found: a missing tensor, its type or shape, a scale that
 *   is not finite and above 0, an offset that is not finite; YK_E_UNSUPPORTED as above. */
yk_status yk_kv_scales_read(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer,
                            int64_t first, int64_t n, float *scales, float *offsets, yk_err *err);

#endif
