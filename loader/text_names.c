#include "loader/text_names.h"

#include "loader/model/weight_names.h"

static bool has_layers(const yk_shards *shards, const yk_model_config *config)
{
  for (size_t i = 0; i < yk_shards_count(shards); i++)
    if (yk_weight_layer(config, yk_shards_at(shards, i)->name) >= 0) return true;
  return false;
}

void yk_text_names_choose(const yk_shards *shards, yk_model_config *config)
{
  const yk_text_place of_class = config->text_place;
  if (!yk_family_has_parts(config->family) || has_layers(shards, config)) return;
  for (yk_text_place place = YK_TEXT_ALONE; place < YK_N_TEXT_PLACES; place++) {
    config->text_place = place;
    if (has_layers(shards, config)) return;
  }
  config->text_place = of_class;
}
