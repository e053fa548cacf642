#include "loader/bare_names.h"

#include <stdio.h>
#include <string.h>

#include "loader/integers/quant_tensors.h"
#include "loader/model/weight_names.h"
#include "loader/safetensors/tensors.h"

static const char prefix[] = "model.";

static bool has_module(const yk_shards *shards, const char *module)
{
  return yk_quant_suffix(shards, module) || yk_tensors_find(shards, module, "weight", NULL);
}

yk_status yk_bare_names_prefix(yk_shards *shards, const char *embedding, const char *head, yk_err *err)
{
  const size_t n = strlen(prefix);
  bool may_lack = strncmp(embedding, prefix, n) == 0 && !has_module(shards, embedding);
  return may_lack && has_module(shards, embedding + n) ? yk_shards_prefix(shards, prefix, head, err) : YK_OK;
}

yk_status yk_bare_names_extend(yk_shards *shards, yk_model_config *config, yk_err *err)
{
  char embedding[YK_WEIGHT_NAME_BYTES], head[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(config, YK_ROLE_EMBEDDING, 0, embedding);
  yk_weight_name(config, YK_ROLE_LM_HEAD, 0, head);
  YK_TRY(yk_bare_names_prefix(shards, embedding, head, err));
  config->lacks_head = config->pooling.takes_last_token && !config->tie_word_embeddings && !has_module(shards, head);
  return YK_OK;
}
