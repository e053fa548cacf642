/* model_path.h - the paths accepted by --model and --tokenizer: a directory, or a file that has companion files in its
 * directory. */
#ifndef YK_BASE_MODEL_PATH_H
#define YK_BASE_MODEL_PATH_H

#include <stdbool.h>

#include "base/status.h"

enum { YK_MODEL_PATH_BYTES = 4096 };

/* yk_model_path_is_dir - whether path is an existing directory. Thread: any. */
bool yk_model_path_is_dir(const char *path);

/* yk_model_path_dir - the directory of a model's configuration, tokenizer and templates: path itself if it is a
 *   directory, else the directory that contains it. Errors: YK_E_INVAL if the path is too long. Thread: any. */
yk_status yk_model_path_dir(const char *path, char out[YK_MODEL_PATH_BYTES], yk_err *err);

#endif
