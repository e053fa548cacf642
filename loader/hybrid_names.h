/* hybrid_names.h - the forms of names in checkpoints of models with gated delta nets. Not for use outside the
 * loader. */
#ifndef YK_LOADER_HYBRID_NAMES_H
#define YK_LOADER_HYBRID_NAMES_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_hybrid_names_choose - config->delta.is_fused, from the tensors of the first gated delta net. No effect for other
 *   families. Errors: YK_E_FORMAT if its projections have neither form. */
yk_status yk_hybrid_names_choose(const yk_shards *shards, yk_model_config *config, yk_err *err);

#endif
