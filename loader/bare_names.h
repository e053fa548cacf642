/* bare_names.h - checkpoints of a model without its head, whose names lack the prefix "model.". Not for use outside the
 * loader. */
#ifndef YK_LOADER_BARE_NAMES_H
#define YK_LOADER_BARE_NAMES_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_bare_names_extend - if the names of the files lack the prefix of the family's names, give them the prefix; also
 *   sets config->lacks_head if the model makes embeddings and has no head. Errors: YK_E_NOMEM, YK_E_FORMAT if a name
 *   exists with and without the prefix. */
yk_status yk_bare_names_extend(yk_shards *shards, yk_model_config *config, yk_err *err);

#endif
