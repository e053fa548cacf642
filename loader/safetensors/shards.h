/* shards.h - the weight files of one directory as a single table of tensors: for the loader, and for who
 * rewrites checkpoints. */
#ifndef YK_LOADER_SHARDS_H
#define YK_LOADER_SHARDS_H

#include "base/log.h"
#include "loader/safetensors/safetensors.h"

typedef struct yk_shards yk_shards;

/* yk_shards_open - msmodelslim's quant_model_weight*.safetensors, or its files with an index; where there are none,
 *   model.safetensors, else all files that model.safetensors.index.json names.
 *   The index and the files must agree: a shard or a tensor that is only in the index is an error; one that is only in
 *   a file is used and logged. Errors: see yk_checkpoint_open. Constant afterwards. */
yk_status yk_shards_open(const char *dir, const yk_log *log, yk_shards **out, yk_err *err);

/* yk_shards_of - a table of tensors [n] that lie in one file of another format. source: the file's name. Both, and the
 *   tensors' names, must outlive the table. Errors: YK_E_NOMEM. */
yk_status yk_shards_of(const char *source, const yk_tensor *tensors, size_t n, yk_shards **out, yk_err *err);

/* yk_shards_replace - put tensors [n], views of others, in the place of those. origins [n]: the position of the tensor
 *   that each is a view of, which goes. tensors: a block that malloc gave, the table's from now on, also on failure.
 *   Errors: YK_E_FORMAT where a name is there already; YK_E_NOMEM. Before anybody else has the table. */
yk_status yk_shards_replace(yk_shards *shards, yk_tensor *tensors, const size_t *origins, size_t n, yk_err *err);

void yk_shards_close(yk_shards *shards); /* NULL is allowed */

/* yk_shards_settle - yk_safetensors_settle of every file. NULL is allowed. */
yk_status yk_shards_settle(const yk_shards *shards, yk_status status, yk_err *err);

/* yk_shards_find - the tensor and the name of its file, or NULL. file may be NULL. */
const yk_tensor *yk_shards_find(const yk_shards *shards, const char *name, const char **file);

/* All tensors, sorted by name; position is that of a name, or the count where there is none. */
size_t yk_shards_count(const yk_shards *shards);
const yk_tensor *yk_shards_at(const yk_shards *shards, size_t i);
size_t yk_shards_position(const yk_shards *shards, const char *name);

/* yk_shards_source - the one file or the index: where a missing tensor was looked for. */
const char *yk_shards_source(const yk_shards *shards);

#endif
