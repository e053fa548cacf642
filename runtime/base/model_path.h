/* model_path.h - what --model and --tokenizer may name: a directory, or a file that has others beside it. */
#ifndef YK_BASE_MODEL_PATH_H
#define YK_BASE_MODEL_PATH_H

#include <stdbool.h>

#include "base/status.h"

enum { YK_MODEL_PATH_BYTES = 4096 };

/* yk_model_path_is_dir - whether path is an existing directory. Thread: any. */
bool yk_model_path_is_dir(const char *path);

/* yk_model_path_dir - the directory of a model's configuration, tokenizer and templates: path itself where it is a
 *   directory, else the directory that holds it. Errors: YK_E_INVAL where the path is too long. Thread: any. */
yk_status yk_model_path_dir(const char *path, char out[YK_MODEL_PATH_BYTES], yk_err *err);

#endif
