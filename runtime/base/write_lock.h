/* write_lock.h - a lock on a file or directory for one writing run at a time. The kernel releases the lock when the
 * process ends, so a killed run leaves no lock. */
#ifndef YK_BASE_WRITE_LOCK_H
#define YK_BASE_WRITE_LOCK_H

#include <stdbool.h>

#include "base/status.h"

/* yk_write_lock_try - lock an open file or directory, until all descriptors of this opening are closed. False if
 *   another opening holds the lock. True on a file system without locks. Thread: any. */
bool yk_write_lock_try(int fd);

/* yk_write_lock_dir - open a directory and lock it; the caller closes *fd.
 *   Errors: YK_E_IO naming the directory: it cannot be opened, another run holds the lock, or the name now belongs to
 *   another directory.
 *   Thread: any. */
yk_status yk_write_lock_dir(const char *dir, int *fd, yk_err *err);

/* yk_write_lock_is_at - whether path still names the open file or directory fd. */
bool yk_write_lock_is_at(const char *path, int fd);

#endif
