#include "loader/foreign/kuiper.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/model_path.h"

struct yk_kuiper {
  char *name;
  yk_mapped_file *map; /* NULL if the caller owns the bytes */
  yk_kuiper_header header;
  yk_kuiper_layout layout;
};

/* ---- Finding the file -------------------------------------------------------------------------------------------- */

static bool begins_like_one(const char *path)
{
  uint8_t begin[4];
  int fd;
  size_t n_bytes;
  if (yk_file_open(path, &fd, &n_bytes, NULL) != YK_OK) return false;
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  close(fd);
  return n == (ssize_t)sizeof begin && yk_kuiper_has_magic(begin, sizeof begin);
}

static bool is_named_bin(const char *name)
{
  size_t n = strlen(name);
  return n > 4 && strcmp(name + n - 4, ".bin") == 0;
}

/* Other weights in a directory may also end in .bin: the first bytes decide. */
static yk_status find_in_dir(const char *dir, DIR *stream, char out[YK_PATH_BYTES], yk_err *err)
{
  char first[256] = "", path[YK_PATH_BYTES];
  for (struct dirent *entry; (entry = readdir(stream));) {
    if (!is_named_bin(entry->d_name)) continue;
    YK_TRY(yk_dir_path(dir, entry->d_name, path, err));
    if (!begins_like_one(path)) continue;
    if (first[0])
      return yk_err_set(err, YK_E_INVAL, "%.80s: expected one KuiperLLama file, found %.60s and %.60s: name one", dir,
                        first, entry->d_name);
    snprintf(first, sizeof first, "%s", entry->d_name);
    snprintf(out, YK_PATH_BYTES, "%s", path);
  }
  return YK_OK;
}

yk_status yk_kuiper_find(const char *path, char out[YK_PATH_BYTES], yk_err *err)
{
  char found[256];
  out[0] = '\0';
  if (!yk_model_path_is_dir(path)) {
    if (begins_like_one(path)) snprintf(out, YK_PATH_BYTES, "%s", path);
    return YK_OK;
  }
  if (yk_dir_find_suffix(path, ".safetensors", found) || yk_dir_has(path, YK_SAFETENSORS_INDEX)) return YK_OK;
  DIR *stream = opendir(path);
  if (!stream) return YK_OK; /* the error is reported when the configuration is read */
  yk_status status = find_in_dir(path, stream, out, err);
  closedir(stream);
  return status;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static yk_status read_all(yk_kuiper *file, const uint8_t *bytes, uint64_t n_bytes, yk_err *err)
{
  YK_TRY(yk_kuiper_header_read(file->name, bytes, n_bytes, &file->header, err));
  YK_TRY(yk_kuiper_layout_make(&file->header, &file->layout, err));
  yk_kuiper_layout *layout = &file->layout;
  if (n_bytes != layout->file_bytes)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected %" PRIu64 " bytes for the sizes in its header, found %" PRIu64,
                      file->name, layout->file_bytes, n_bytes);
  uint64_t at = YK_KUIPER_HEADER_BYTES;
  for (size_t i = 0; i < layout->n_tensors; i++) {
    layout->tensors[i].data = bytes + at;
    at += layout->tensors[i].n_bytes;
  }
  return YK_OK;
}

yk_status yk_kuiper_parse(const char *name, const void *bytes, uint64_t n_bytes, yk_kuiper **out, yk_err *err)
{
  yk_kuiper *file = calloc(1, sizeof *file);
  char *copy = strdup(name);
  if (!file || !copy) {
    free(file);
    free(copy);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory", name);
  }
  file->name = copy;
  yk_status status = read_all(file, bytes, n_bytes, err);
  if (status == YK_OK)
    *out = file;
  else
    yk_kuiper_close(file);
  return status;
}

yk_status yk_kuiper_open(const char *path, yk_kuiper **out, yk_err *err)
{
  yk_mapped_file *map;
  yk_kuiper *file = NULL;
  const char *slash = strrchr(path, '/');
  YK_TRY(yk_mapped_file_open(path, &map, err));
  yk_status status =
      yk_kuiper_parse(slash ? slash + 1 : path, yk_mapped_file_bytes(map), yk_mapped_file_size(map), &file, err);
  status = yk_mapped_file_settle(map, status, err);
  if (file) file->map = map;
  if (status == YK_OK)
    *out = file;
  else if (file)
    yk_kuiper_close(file);
  else
    yk_mapped_file_close(map);
  return status;
}

yk_status yk_kuiper_settle(const yk_kuiper *file, yk_status status, yk_err *err)
{
  return yk_mapped_file_settle(file->map, status, err);
}

void yk_kuiper_close(yk_kuiper *file)
{
  if (!file) return;
  yk_mapped_file_close(file->map);
  yk_kuiper_layout_free(&file->layout);
  free(file->name);
  free(file);
}

const char *yk_kuiper_name(const yk_kuiper *file)
{
  return file->name;
}

const yk_kuiper_header *yk_kuiper_header_of(const yk_kuiper *file)
{
  return &file->header;
}

yk_status yk_kuiper_shards(const yk_kuiper *file, yk_shards **out, yk_err *err)
{
  return yk_shards_of(file->name, file->layout.tensors, file->layout.n_tensors, out, err);
}
