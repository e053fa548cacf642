#include "loader/safetensors/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { TEXT_MAX_BYTES = 256 << 20 }; /* an index of a million tensors is about 100 MB */

yk_status yk_dir_path(const char *dir, const char *name, char out[YK_PATH_BYTES], yk_err *err)
{
  int n = snprintf(out, YK_PATH_BYTES, "%s/%s", dir, name);
  if (n < 0 || n >= YK_PATH_BYTES)
    return yk_err_set(err, YK_E_INVAL, "%s: the path is longer than %d bytes", name, YK_PATH_BYTES - 1);
  return YK_OK;
}

bool yk_dir_has(const char *dir, const char *name)
{
  char path[YK_PATH_BYTES];
  return yk_dir_path(dir, name, path, NULL) == YK_OK && access(path, F_OK) == 0;
}

yk_status yk_dir_read(const char *dir, const char *name, bool required, char **text, size_t *n_bytes, yk_err *err)
{
  *text = NULL;
  *n_bytes = 0;
  if (!required && !yk_dir_has(dir, name)) return YK_OK;
  char path[YK_PATH_BYTES];
  YK_TRY(yk_dir_path(dir, name, path, err));
  return yk_file_read(path, TEXT_MAX_BYTES, text, n_bytes, err);
}

yk_status yk_dir_make(const char *dir, yk_err *err)
{
  if (mkdir(dir, 0777) == 0 || errno == EEXIST) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
}

yk_status yk_dir_sync(const char *dir, yk_err *err)
{
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  int failed = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (failed == 0 || failed == EINVAL) return YK_OK; /* EINVAL: the file system cannot synchronise directories */
  return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(failed));
}

bool yk_dir_find_suffix(const char *dir, const char *suffix, char out[256])
{
  DIR *stream = opendir(dir);
  if (!stream) return false;
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(stream));) {
    size_t length = strlen(entry->d_name), n = strlen(suffix);
    found = length >= n && strcmp(entry->d_name + length - n, suffix) == 0;
    if (found) snprintf(out, 256, "%s", entry->d_name);
  }
  closedir(stream);
  return found;
}

int yk_dir_find_all(const char *dir, const char *prefix, const char *suffix, char first[256], char last[256])
{
  DIR *stream = opendir(dir);
  int n = 0;
  first[0] = last[0] = '\0';
  if (!stream) return 0;
  for (struct dirent *entry; (entry = readdir(stream));) {
    size_t length = strlen(entry->d_name), n_prefix = strlen(prefix), n_suffix = strlen(suffix);
    if (length < n_prefix + n_suffix || strncmp(entry->d_name, prefix, n_prefix) != 0 ||
        strcmp(entry->d_name + length - n_suffix, suffix) != 0)
      continue;
    if (n == 0 || strcmp(entry->d_name, first) < 0) snprintf(first, 256, "%s", entry->d_name);
    if (n == 0 || strcmp(entry->d_name, last) > 0) snprintf(last, 256, "%s", entry->d_name);
    n++;
  }
  closedir(stream);
  return n;
}
