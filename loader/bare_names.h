/* bare_names.h - checkpoints of a model without its head, whose names lack the prefix "model.". For use in the loader
 * and in code that rewrites checkpoints. */
#ifndef YK_LOADER_BARE_NAMES_H
#define YK_LOADER_BARE_NAMES_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_bare_names_prefix - if the files have the module `embedding`, such as model.embed_tokens, without its prefix
 *   alone, give the prefix to all names but those of the module `head`. Errors: YK_E_NOMEM. */
yk_status yk_bare_names_prefix(yk_shards *shards, const char *embedding, const char *head, yk_err *err);

/* yk_bare_names_extend - the same with the family's names; also sets config->lacks_head if the model makes embeddings
 *   and has no head. Errors: as above. */
yk_status yk_bare_names_extend(yk_shards *shards, yk_model_config *config, yk_err *err);

#endif
