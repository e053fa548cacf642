#include "loader/hybrid_names.h"

#include <string.h>

#include "loader/integers/quant_tensors.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/tensors.h"

static bool has_module(const yk_shards *shards, const char *module)
{
  return yk_quant_suffix(shards, module) || yk_tensors_find(shards, module, "weight", NULL);
}

yk_status yk_hybrid_names_choose(const yk_shards *shards, yk_model_config *config, yk_err *err)
{
  char split[YK_WEIGHT_NAME_BYTES], fused[YK_WEIGHT_NAME_BYTES];
  int32_t layer = 0;
  if (!yk_family_is_hybrid(config->family)) return YK_OK;
  while (layer < config->n_layers && !config->delta.layers[layer]) layer++;
  if (layer == config->n_layers) return YK_OK;
  yk_weight_name(config, YK_ROLE_DELTA_QKV, layer, split);
  yk_weight_name(config, YK_ROLE_DELTA_QKVZ, layer, fused);
  config->delta.is_fused = has_module(shards, fused);
  if (config->delta.is_fused || has_module(shards, split)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: expected the projections of a gated delta net, %s.weight or %s.weight (or quantised ones), "
                    "found neither",
                    yk_shards_source(shards), split, fused);
}
