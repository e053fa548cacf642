#include "base/file_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"

yk_status yk_file_part_open(const char *path, yk_file_part *out, yk_err *err)
{
  yk_strbuf part_path = YK_STRBUF_INIT;
  *out = (yk_file_part){.fd = -1};
  yk_strbuf_append_fmt(&part_path, "%s.part", path);
  char *copy = strdup(path);
  if (part_path.failed || !copy) {
    yk_strbuf_free(&part_path);
    free(copy);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a name", path);
  }
  int fd = open(part_path.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    yk_err_set(err, YK_E_IO, "%s: %s", part_path.data, strerror(errno));
    yk_strbuf_free(&part_path);
    free(copy);
    return YK_E_IO;
  }
  *out = (yk_file_part){.path = copy, .part_path = part_path.data, .fd = fd};
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
  bool is_closed = close(part->fd) == 0;
  part->fd = -1;
  if (is_synced && is_closed) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: %s", part->path, strerror(is_synced ? errno : failed));
}

yk_status yk_file_part_rename(yk_file_part *part, yk_err *err)
{
  if (rename(part->part_path, part->path) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", part->path, strerror(errno));
  part->is_renamed = true;
  return YK_OK;
}

void yk_file_part_free(yk_file_part *part)
{
  if (!part->path) return;
  if (part->fd >= 0) close(part->fd);
  if (!part->is_renamed) unlink(part->part_path);
  free(part->path);
  free(part->part_path);
  *part = (yk_file_part){.fd = -1};
}
