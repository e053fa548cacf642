/* mapped_file.h - a file mapped for reading that may shrink, or fail to be read, while its bytes are in use.
 *
 * An access beyond the end of a shrunken file raises SIGBUS, which ends a process without a message. Here the lost
 * bytes read as zeros and the file is marked. A user of the bytes calls settle before using results computed from them.
 * Bytes are therefore read in place, at the speed of a plain map, and a damaged file is an error.
 *
 * The first opened file installs a handler of SIGBUS, unless the program has a handler of SIGBUS: then the program must
 * handle shrinking files. The handler stays installed; for addresses outside these files it acts like the default. The
 * handler finds a file through the process's table of maps, so that no state exists outside the files' own memory.
 *
 * Thread: any number of threads may read and settle a file. */
#ifndef YK_BASE_MAPPED_FILE_H
#define YK_BASE_MAPPED_FILE_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_mapped_file yk_mapped_file;

/* yk_mapped_file_open - map a regular file, which may be empty. Free with yk_mapped_file_close.
 *   Errors: YK_E_IO naming the file, YK_E_NOMEM. */
yk_status yk_mapped_file_open(const char *path, yk_mapped_file **out, yk_err *err);

/* yk_mapped_file_bytes - the whole file, page-aligned; never NULL. yk_mapped_file_size: bytes at the time of
 * opening. */
const void *yk_mapped_file_bytes(const yk_mapped_file *file);
size_t yk_mapped_file_size(const yk_mapped_file *file);

/* yk_mapped_file_settle - returns status; but YK_E_IO, with err naming the file, if bytes were lost since the file was
 *   opened, because that explains any other failure. NULL stands for a file that cannot be lost. */
yk_status yk_mapped_file_settle(const yk_mapped_file *file, yk_status status, yk_err *err);

void yk_mapped_file_close(yk_mapped_file *file); /* NULL is allowed */

#endif
