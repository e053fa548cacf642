/* dir.h - files of one checkpoint directory. */
#ifndef YK_LOADER_DIR_H
#define YK_LOADER_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { YK_PATH_BYTES = 4096 };

/* msmodelslim's description of what is quantised is called so, with whatever between. */
#define YK_DESCRIPTION_PREFIX "quant_model_description"
#define YK_DESCRIPTION_SUFFIX ".json"

/* yk_dir_path - "dir/name". YK_E_INVAL where that is longer than a path may be. */
yk_status yk_dir_path(const char *dir, const char *name, char out[YK_PATH_BYTES], yk_err *err);

/* yk_dir_has - whether dir/name exists, of any kind. */
bool yk_dir_has(const char *dir, const char *name);

/* yk_dir_read - a whole file into malloc'd memory that the caller frees. Where it does not exist and is not required,
 *   *text is NULL and the call succeeds. */
yk_status yk_dir_read(const char *dir, const char *name, bool required, char **text, size_t *n_bytes, yk_err *err);

/* yk_dir_make - a directory, unless something of its name is there already. Errors: YK_E_IO. */
yk_status yk_dir_make(const char *dir, yk_err *err);

/* yk_dir_sync - bring the names in a directory to the disk, as far as its file system can. Errors: YK_E_IO. */
yk_status yk_dir_sync(const char *dir, yk_err *err);

/* yk_dir_find_suffix - the name of some file that ends so, in out. False where there is none or dir cannot be read. */
bool yk_dir_find_suffix(const char *dir, const char *suffix, char out[256]);

/* yk_dir_find_all - how many files begin with prefix and end with suffix; the first and the last of them by name. */
int yk_dir_find_all(const char *dir, const char *prefix, const char *suffix, char first[256], char last[256]);

#endif
