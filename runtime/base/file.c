#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_part.h"

static const char *kind_of(mode_t mode)
{
  switch (mode & S_IFMT) {
  case S_IFIFO: return "a named pipe";
  case S_IFSOCK: return "a socket";
  case S_IFCHR:
  case S_IFBLK: return "a device";
  case S_IFDIR: return "a directory";
  default: return "something else";
  }
}

static yk_status check_regular(const char *path, const struct stat *info, yk_err *err)
{
  if (S_ISREG(info->st_mode)) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: expected a regular file, found %s", path, kind_of(info->st_mode));
}

yk_status yk_file_open(const char *path, int *fd, size_t *n_bytes, yk_err *err)
{
  struct stat info;
  /* Checked before opening, because opening a device can have an effect. O_NONBLOCK: if a pipe replaces the path in
   * between, open does not wait. */
  if (stat(path, &info) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
  YK_TRY(check_regular(path, &info, err));
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
  yk_status status = fstat(opened, &info) == 0 ? check_regular(path, &info, err)
                                               : yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
  if (status != YK_OK) {
    close(opened);
    return status;
  }
  *fd = opened;
  *n_bytes = (size_t)info.st_size;
  return YK_OK;
}

static yk_status read_all(const char *path, int fd, char *data, size_t n_bytes, yk_err *err)
{
  for (size_t got = 0; got < n_bytes;) {
    ssize_t n = read(fd, data + got, n_bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
    if (n == 0)
      return yk_err_set(err, YK_E_IO, "%s: read %zu of %zu bytes: the file became shorter", path, got, n_bytes);
    got += (size_t)n;
  }
  return YK_OK;
}

yk_status yk_file_refuse_lfs(const char *name, const void *bytes, size_t n_bytes, const char *what, yk_err *err)
{
  static const char begin[] = "version https://git-lfs.github.com/spec/";
  if (n_bytes < sizeof begin - 1 || memcmp(bytes, begin, sizeof begin - 1) != 0) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: a Git LFS pointer instead of the %s: run git lfs pull", name, what);
}

yk_status yk_file_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err)
{
  int fd;
  size_t size;
  YK_TRY(yk_file_open(path, &fd, &size, err));
  char *data = NULL;
  yk_status status = YK_OK;
  if (size > max_bytes)
    status = yk_err_set(err, YK_E_FORMAT, "%s: %zu bytes, at most %zu expected", path, size, max_bytes);
  else if (!(data = malloc(size + 1)))
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu bytes", path, size);
  else
    status = read_all(path, fd, data, size, err);
  close(fd);
  if (status == YK_OK) status = yk_file_refuse_lfs(path, data, size, "file", err);
  if (status != YK_OK) {
    free(data);
    return status;
  }
  data[size] = '\0';
  *out = data;
  if (n_bytes) *n_bytes = size;
  return YK_OK;
}

yk_status yk_file_replace(const char *path, const void *bytes, size_t n_bytes, yk_err *err)
{
  yk_file_part part;
  YK_TRY(yk_file_part_open(path, &part, err));
  yk_status status = yk_file_part_write(&part, bytes, n_bytes, err);
  if (status == YK_OK) status = yk_file_part_sync(&part, err);
  if (status == YK_OK) status = yk_file_part_rename(&part, err);
  yk_file_part_free(&part);
  return status;
}
