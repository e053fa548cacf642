/* dir.h - files of one checkpoint directory. */
#ifndef YK_LOADER_DIR_H
#define YK_LOADER_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { YK_PATH_BYTES = 4096 };

/* Name of msmodelslim's description of quantised tensors: prefix, any text, suffix. */
#define YK_DESCRIPTION_PREFIX "quant_model_description"
#define YK_DESCRIPTION_SUFFIX ".json"

/* yk_dir_path - "dir/name". YK_E_INVAL if the path is too long. */
yk_status yk_dir_path(const char *dir, const char *name, char out[YK_PATH_BYTES], yk_err *err);

/* yk_dir_has - whether dir/name exists, of any kind. */
bool yk_dir_has(const char *dir, const char *name);

/* yk_dir_read - read a whole file into malloc'd memory that the caller frees. If the file is missing and not required,
 *   *text is NULL and the call succeeds. */
yk_status yk_dir_read(const char *dir, const char *name, bool required, char **text, size_t *n_bytes, yk_err *err);

/* yk_dir_make - create a directory, unless the name exists already. Errors: YK_E_IO. */
yk_status yk_dir_make(const char *dir, yk_err *err);

/* yk_dir_sync - flush the names in a directory to the disk, if the file system can. Errors: YK_E_IO. */
yk_status yk_dir_sync(const char *dir, yk_err *err);

/* yk_dir_find_suffix - the name of some file with this suffix, in out. False if there is none or dir cannot be read. */
bool yk_dir_find_suffix(const char *dir, const char *suffix, char out[256]);

/* yk_dir_find_all - number of files that begin with prefix and end with suffix; the first and the last of them by
 * name. */
int yk_dir_find_all(const char *dir, const char *prefix, const char *suffix, char first[256], char last[256]);

#endif
