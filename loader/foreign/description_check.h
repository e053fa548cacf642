/* description_check.h - msmodelslim's description against the tensors that there are.
 * Not for use outside the loader. */
#ifndef YK_LOADER_DESCRIPTION_CHECK_H
#define YK_LOADER_DESCRIPTION_CHECK_H

#include "base/log.h"
#include "loader/safetensors/shards.h"

/* yk_description_check - every tensor that the directory's description calls quantised exists. One that it calls FLOAT
 *   and that does not exist (a tied lm_head), or one that it does not name, is worth a warning a kind.
 *   Errors: YK_E_FORMAT naming description and tensor; those of reading it. */
yk_status yk_description_check(const char *dir, const yk_shards *shards, const yk_log *log, yk_err *err);

#endif
