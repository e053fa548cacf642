/* file.h - reading regular files. Other kinds of files (pipes, devices, sockets, directories) are refused at once and
 * named: opening a pipe would wait for its other end, and a device may have no end. */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* yk_file_open - a descriptor for reading, which the caller closes, and the size of the file.
 *   Errors: YK_E_IO. Thread: any. */
yk_status yk_file_open(const char *path, int *fd, size_t *n_bytes, yk_err *err);

/* yk_file_read - read a whole file of at most max_bytes into malloc'd, NUL-terminated memory that the caller frees.
 *   n_bytes may be NULL. Errors: YK_E_IO, YK_E_FORMAT (longer, or a Git LFS pointer), YK_E_NOMEM. Thread: any. */
yk_status yk_file_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err);

/* yk_file_refuse_lfs - refuse bytes that are a Git LFS pointer, which replaces a large file until the file is fetched.
 *   what: "weights", "file", for the message. Errors: YK_E_FORMAT, with the command to fetch the file. */
yk_status yk_file_refuse_lfs(const char *name, const void *bytes, size_t n_bytes, const char *what, yk_err *err);

/* yk_file_replace - write a whole file into path.part in the same folder, then rename it to path. On failure the file
 *   at path is unchanged. Errors: YK_E_IO, YK_E_NOMEM. Thread: any. */
yk_status yk_file_replace(const char *path, const void *bytes, size_t n_bytes, yk_err *err);

#endif
