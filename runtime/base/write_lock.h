/* write_lock.h - a file or directory that one run at a time writes: the lock goes with the process that holds it,
 * however that ends, so that what a killed run left is nobody's. */
#ifndef YK_BASE_WRITE_LOCK_H
#define YK_BASE_WRITE_LOCK_H

#include <stdbool.h>

#include "base/status.h"

/* yk_write_lock_try - take the lock of an open file or directory, until all descriptors of this opening are closed.
 *   False where another opening has it. On a file system without locks it is true. Thread: any. */
bool yk_write_lock_try(int fd);

/* yk_write_lock_dir - open a directory and take its lock; *fd is the caller's to close.
 *   Errors: YK_E_IO naming it: it cannot be opened, another run has the lock, or the name is another directory's now.
 *   Thread: any. */
yk_status yk_write_lock_dir(const char *dir, int *fd, yk_err *err);

/* yk_write_lock_is_at - whether path still names the open file or directory fd. */
bool yk_write_lock_is_at(const char *path, int fd);

#endif
