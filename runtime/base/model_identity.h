/* model_identity.h - a number that tells whether a model is the one that an interrupted run began with. */
#ifndef YK_BASE_MODEL_IDENTITY_H
#define YK_BASE_MODEL_IDENTITY_H

#include <stdint.h>

#include "base/status.h"

/* yk_model_identity - add the configuration, the tokenizer, the templates and samples of the weights in a checkpoint's
 *   directory to *hash, which is YK_HASH_START or of what comes before. path: the directory, or a file of weights or a
 *   tokenizer, which counts with the texts beside it. Errors: YK_E_IO. Thread: any. */
yk_status yk_model_identity(const char *path, uint32_t *hash, yk_err *err);

/* yk_model_file_identity - the same of one file of the directory. What is neither text nor weights, or no file, does
 *   not count. */
yk_status yk_model_file_identity(const char *dir, const char *name, uint32_t *hash, yk_err *err);

/* yk_file_hash - the same of all that a file holds. */
yk_status yk_file_hash(const char *path, uint32_t *hash, yk_err *err);

#endif
