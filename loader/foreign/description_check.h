/* description_check.h - check msmodelslim's description against the tensors in the files.
 * Not for use outside the loader. */
#ifndef YK_LOADER_DESCRIPTION_CHECK_H
#define YK_LOADER_DESCRIPTION_CHECK_H

#include "base/log.h"
#include "loader/safetensors/shards.h"

/* yk_description_check - every tensor that the directory's description lists as quantised must exist. Tensors listed as
 *   FLOAT that do not exist (a tied lm_head), and tensors that are not listed, give one warning per kind.
 *   Errors: YK_E_FORMAT naming description and tensor; those of reading the description. */
yk_status yk_description_check(const char *dir, const yk_shards *shards, const yk_log *log, yk_err *err);

#endif
