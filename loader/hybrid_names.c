#include "loader/hybrid_names.h"

#include <string.h>

#include "loader/integers/quant_tensors.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/tensors.h"

/* A family by the names of its tensors: those of a text model, and those of a model that also reads images. */
typedef struct twins {
  yk_model_family text, language_part;
} twins;

static const twins families[] = {{YK_FAMILY_QWEN3_5, YK_FAMILY_QWEN3_5_VL},
                                 {YK_FAMILY_QWEN3_5_MOE, YK_FAMILY_QWEN3_5_MOE_VL}};

static bool has_layers(const yk_shards *shards, yk_model_family family)
{
  for (size_t i = 0; i < yk_shards_count(shards); i++)
    if (yk_weight_layer(family, yk_shards_at(shards, i)->name) >= 0) return true;
  return false;
}

static void choose_family(const yk_shards *shards, yk_model_config *config)
{
  if (has_layers(shards, config->family)) return;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    const twins *pair = &families[i];
    if (config->family != pair->text && config->family != pair->language_part) continue;
    yk_model_family other = config->family == pair->text ? pair->language_part : pair->text;
    if (has_layers(shards, other)) config->family = other;
    return;
  }
}

static bool has_module(const yk_shards *shards, const char *module)
{
  return yk_quant_suffix(shards, module) || yk_tensors_find(shards, module, "weight", NULL);
}

yk_status yk_hybrid_names_choose(const yk_shards *shards, yk_model_config *config, yk_err *err)
{
  char split[YK_WEIGHT_NAME_BYTES], fused[YK_WEIGHT_NAME_BYTES];
  int32_t layer = 0;
  if (!yk_family_is_hybrid(config->family)) return YK_OK;
  choose_family(shards, config);
  while (layer < config->n_layers && !config->delta.layers[layer]) layer++;
  if (layer == config->n_layers) return YK_OK;
  yk_weight_name(config->family, YK_ROLE_DELTA_QKV, layer, split);
  yk_weight_name(config->family, YK_ROLE_DELTA_QKVZ, layer, fused);
  config->delta.is_fused = has_module(shards, fused);
  if (config->delta.is_fused || has_module(shards, split)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: expected the projections of a gated delta net, %s.weight or %s.weight (or quantised ones), "
                    "found neither",
                    yk_shards_source(shards), split, fused);
}
