/* shards.h - the weight files of one directory as a single table of tensors. For use in the loader and in code that
 * rewrites checkpoints. */
#ifndef YK_LOADER_SHARDS_H
#define YK_LOADER_SHARDS_H

#include "base/log.h"
#include "loader/safetensors/safetensors.h"

typedef struct yk_shards yk_shards;

/* yk_shards_open - open msmodelslim's quant_model_weight*.safetensors, or its files with an index; if there are none,
 *   model.safetensors, else all files listed in model.safetensors.index.json.
 *   The index and the files must agree: a shard or a tensor that is only in the index is an error; a tensor that is
 *   only in a file is used and logged. Errors: see yk_checkpoint_open. Constant afterwards. */
yk_status yk_shards_open(const char *dir, const yk_log *log, yk_shards **out, yk_err *err);

/* yk_shards_of - a table of tensors [n] in one file of another format. source: the file's name. source, tensors and the
 *   tensors' names must outlive the table. Errors: YK_E_NOMEM. */
yk_status yk_shards_of(const char *source, const yk_tensor *tensors, size_t n, yk_shards **out, yk_err *err);

/* yk_shards_replace - replace some tensors by tensors [n], which are views of them. origins [n]: for each new tensor
 *   the position of the tensor that it is a view of, which is removed. tensors: a block from malloc; the table takes
 *   ownership, also on failure.
 *   Errors: YK_E_FORMAT if a name exists already; YK_E_NOMEM. Call it before the table is shared. */
yk_status yk_shards_replace(yk_shards *shards, yk_tensor *tensors, const size_t *origins, size_t n, yk_err *err);

/* yk_shards_prefix - adds a prefix to every tensor's name, except the tensors of one module (name and a dot). At most
 *   once for a table. Errors: YK_E_FORMAT if two names become one; YK_E_NOMEM. Call it before the table is shared. */
yk_status yk_shards_prefix(yk_shards *shards, const char *prefix, const char *module, yk_err *err);

void yk_shards_close(yk_shards *shards); /* NULL is allowed */

/* yk_shards_settle - yk_safetensors_settle for every file. NULL is allowed. */
yk_status yk_shards_settle(const yk_shards *shards, yk_status status, yk_err *err);

/* yk_shards_find - the tensor and the name of its file, or NULL. file may be NULL. */
const yk_tensor *yk_shards_find(const yk_shards *shards, const char *name, const char **file);

/* All tensors, sorted by name; yk_shards_position returns the index of a name, or the count if there is none. */
size_t yk_shards_count(const yk_shards *shards);
const yk_tensor *yk_shards_at(const yk_shards *shards, size_t i);
size_t yk_shards_position(const yk_shards *shards, const char *name);

/* yk_shards_source - name of the single file or of the index, for messages about missing tensors. */
const char *yk_shards_source(const yk_shards *shards);

#endif
