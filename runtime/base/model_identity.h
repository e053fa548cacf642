/* model_identity.h - a hash by which a resumed run detects a different model. */
#ifndef YK_BASE_MODEL_IDENTITY_H
#define YK_BASE_MODEL_IDENTITY_H

#include <stdint.h>

#include "base/status.h"

/* yk_model_identity - add the configuration, the tokenizer, the templates and samples of the weights in a checkpoint's
 *   directory to *hash, which is YK_HASH_START or an earlier hash. path: the directory, or a file of weights or a
 *   tokenizer, which is hashed with the text files in its directory. Errors: YK_E_IO. Thread: any. */
yk_status yk_model_identity(const char *path, uint32_t *hash, yk_err *err);

/* yk_model_file_identity - add one file of the directory. Files that are neither text nor weights, and missing files,
 *   add nothing. */
yk_status yk_model_file_identity(const char *dir, const char *name, uint32_t *hash, yk_err *err);

/* yk_file_hash - add the whole content of a file. */
yk_status yk_file_hash(const char *path, uint32_t *hash, yk_err *err);

#endif
