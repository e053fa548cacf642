#include "base/file_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/write_lock.h"

/* Open the file, locked and empty. Tries again if another run renames the file meanwhile. */
static yk_status open_locked(const char *part_path, int *out, yk_err *err)
{
  struct stat info;
  for (;;) {
    int fd = open(part_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return yk_err_set(err, YK_E_IO, "%s: %s", part_path, strerror(errno));
    if (!yk_write_lock_try(fd)) {
      close(fd);
      return yk_err_set(err, YK_E_IO, "%s: another run is writing it", part_path);
    }
    if (!yk_write_lock_is_at(part_path, fd)) {
      close(fd);
      continue;
    }
    bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (!is_file || ftruncate(fd, 0) == 0) {
      *out = fd;
      return YK_OK;
    }
    yk_err_set(err, YK_E_IO, "%s: %s", part_path, strerror(errno));
    close(fd);
    return YK_E_IO;
  }
}

yk_status yk_file_part_check(const char *path, yk_err *err)
{
  struct stat info;
  if (lstat(path, &info) != 0 || S_ISREG(info.st_mode)) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: expected a new name or a regular file, which is replaced, found a %s", path,
                    S_ISDIR(info.st_mode)   ? "directory"
                    : S_ISLNK(info.st_mode) ? "link: name its target"
                                            : "device or pipe");
}

yk_status yk_file_part_open(const char *path, yk_file_part *out, yk_err *err)
{
  yk_strbuf part_path = YK_STRBUF_INIT;
  *out = (yk_file_part){.fd = -1, .lock_fd = -1};
  YK_TRY(yk_file_part_check(path, err));
  yk_strbuf_append_fmt(&part_path, "%s.part", path);
  char *copy = strdup(path);
  if (part_path.failed || !copy) {
    yk_strbuf_free(&part_path);
    free(copy);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a name", path);
  }
  int fd;
  if (open_locked(part_path.data, &fd, err) != YK_OK) {
    yk_strbuf_free(&part_path);
    free(copy);
    return YK_E_IO;
  }
  *out = (yk_file_part){.path = copy, .part_path = part_path.data, .fd = fd, .lock_fd = -1};
  return YK_OK;
}

yk_status yk_file_part_write(yk_file_part *part, const void *bytes, size_t n_bytes, yk_err *err)
{
  for (const char *from = bytes; n_bytes > 0;) {
    ssize_t n = write(part->fd, from, n_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return yk_err_set(err, YK_E_IO, "%s: %s", part->path, strerror(errno));
    from += n;
    n_bytes -= (size_t)n;
  }
  return YK_OK;
}

yk_status yk_file_part_sync(yk_file_part *part, yk_err *err)
{
  bool is_synced = fsync(part->fd) == 0;
  int failed = errno;
  part->lock_fd = fcntl(part->fd, F_DUPFD_CLOEXEC, 0);
  bool is_closed = close(part->fd) == 0;
  part->fd = -1;
  if (is_synced && is_closed) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: %s", part->path, strerror(is_synced ? errno : failed));
}

yk_status yk_file_part_rename(yk_file_part *part, yk_err *err)
{
  if (rename(part->part_path, part->path) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", part->path, strerror(errno));
  part->is_renamed = true;
  if (part->lock_fd >= 0) close(part->lock_fd);
  part->lock_fd = -1;
  return YK_OK;
}

void yk_file_part_free(yk_file_part *part)
{
  if (!part->path) return;
  if (!part->is_renamed) unlink(part->part_path); /* while locked, so that no other run has opened the file */
  if (part->fd >= 0) close(part->fd);
  if (part->lock_fd >= 0) close(part->lock_fd);
  free(part->path);
  free(part->part_path);
  *part = (yk_file_part){.fd = -1, .lock_fd = -1};
}
