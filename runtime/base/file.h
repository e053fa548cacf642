/* file.h - reading regular files. Anything else in the place of one (a pipe, a device, a socket, a directory) is
 * refused by name and at once: opening a pipe would wait for its other end, and a device may have no end. */
#ifndef YK_BASE_FILE_H
#define YK_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* yk_file_open - a descriptor for reading, which the caller closes, and the file's size.
 *   Errors: YK_E_IO. Thread: any. */
yk_status yk_file_open(const char *path, int *fd, size_t *n_bytes, yk_err *err);

/* yk_file_read - a whole file of at most max_bytes into malloc'd, NUL-terminated memory that the caller frees. n_bytes
 *   may be NULL. Errors: YK_E_IO, YK_E_FORMAT (longer, a Git LFS pointer), YK_E_NOMEM. Thread: any. */
yk_status yk_file_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err);

/* yk_file_refuse_lfs - refuse bytes that are a Git LFS pointer, which stands in the place of a large file until it is
 *   fetched. what: "weights", "file", for the message. Errors: YK_E_FORMAT, saying how to fetch it. */
yk_status yk_file_refuse_lfs(const char *name, const void *bytes, size_t n_bytes, const char *what, yk_err *err);

/* yk_file_replace - write a file whole: into path.part beside its place, which then takes the name. Where that fails,
 *   whatever stood at path stays as it was. Errors: YK_E_IO, YK_E_NOMEM. Thread: any. */
yk_status yk_file_replace(const char *path, const void *bytes, size_t n_bytes, yk_err *err);

#endif
