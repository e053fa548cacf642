/* side_files.h - the files of a model other than weights and configuration: tokenizer, templates, generation settings,
 * the model's code, licence. */
#ifndef YK_LOADER_SIDE_FILES_H
#define YK_LOADER_SIDE_FILES_H

#include "base/status.h"

/* yk_side_files_copy - copy such files unchanged from a model's directory to another, existing directory. Only known
 *   names are copied, since a directory may contain other files.
 *   Errors: YK_E_IO naming the file, YK_E_FORMAT (larger than any such file), YK_E_NOMEM. */
yk_status yk_side_files_copy(const char *from, const char *to, yk_err *err);

#endif
