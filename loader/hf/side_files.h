/* side_files.h - the files of a model beside its weights and its configuration: tokenizer, templates, settings of
 * generation, its own code, licence. */
#ifndef YK_LOADER_SIDE_FILES_H
#define YK_LOADER_SIDE_FILES_H

#include "base/status.h"

/* yk_side_files_copy - those that lie in a model's directory, as they are, into another, which exists. They are known
 *   by name: a directory may hold other things.
 *   Errors: YK_E_IO naming the file, YK_E_FORMAT (larger than any such file), YK_E_NOMEM. */
yk_status yk_side_files_copy(const char *from, const char *to, yk_err *err);

#endif
