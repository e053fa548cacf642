/* mapped_file.h - a file mapped for reading that may shrink, or fail to be read, while its bytes are in use.
 *
 * Touching what is no longer there raises SIGBUS, which ends a process without a word. Here zeros take the place of
 * the lost bytes and the file is marked: whoever has used its bytes calls settle before anything counts that was made
 * of them. So bytes are read where they lie, at the speed of a plain map, and a damaged file is an error.
 *
 * The first file that is opened installs a handler of SIGBUS, unless the program has one of its own: then a shrinking
 * file is the program's matter. The handler stays: for whatever is not a file of ours it does what the default does. It
 * finds the file by the process's table of maps, so that nothing is kept outside of the files' own memory.
 *
 * Thread: a file's bytes may be read, and settled, by any number of threads. */
#ifndef YK_BASE_MAPPED_FILE_H
#define YK_BASE_MAPPED_FILE_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_mapped_file yk_mapped_file;

/* yk_mapped_file_open - a regular file, which may be empty. Free with yk_mapped_file_close.
 *   Errors: YK_E_IO naming the file, YK_E_NOMEM. */
yk_status yk_mapped_file_open(const char *path, yk_mapped_file **out, yk_err *err);

/* yk_mapped_file_bytes - all of it, aligned to a page; not NULL. yk_mapped_file_size: in bytes, as it was opened. */
const void *yk_mapped_file_bytes(const yk_mapped_file *file);
size_t yk_mapped_file_size(const yk_mapped_file *file);

/* yk_mapped_file_settle - status; but YK_E_IO, with err naming the file, where bytes were lost since it was opened:
 *   that explains whatever else went wrong. NULL is a file that nothing happens to. */
yk_status yk_mapped_file_settle(const yk_mapped_file *file, yk_status status, yk_err *err);

void yk_mapped_file_close(yk_mapped_file *file); /* NULL is allowed */

#endif
