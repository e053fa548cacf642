#include "loader/model/ffn_group.h"

#include "base/checked.h"
#include "loader/model/quant_rules.h"
#include "loader/model/weight_modules.h"

int64_t yk_ffn_group(const yk_model_config *config, yk_weight_role down, int64_t n_channels)
{
  int64_t largest = 0;
  for (int32_t layer = 0; layer < config->n_layers; layer++) {
    char name[YK_WEIGHT_NAME_BYTES];
    const yk_quant_scheme *scheme;
    yk_err refusal = YK_ERR_INIT;
    if (!yk_weight_is_in_layer(config, down, layer)) continue;
    yk_weight_name(config, down, layer, name);
    if (yk_quant_scheme_of(&config->quant, name, &scheme, &refusal) != YK_OK || !scheme) continue;
    int64_t group = scheme->group_size > 0 ? scheme->group_size : n_channels;
    largest = yk_max_i64(largest, group);
  }
  return largest;
}
