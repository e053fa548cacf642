#include "base/model_identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/model_path.h"

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

enum { BLOCK_BYTES = 4096, MAX_BLOCKS = 4096, HEADER_MAX_BYTES = 100000008 };

/* Bytes of a safetensors file's header, including its length field of 8 bytes. */
static int64_t header_bytes(const char *block)
{
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)block[i];
  return length < HEADER_MAX_BYTES ? (int64_t)length + 8 : 0; /* not a header: the loader reports it */
}

/* Hash the content in blocks that begin stride bytes apart: the whole file if the stride is one block. A header is
 * hashed in full. */
static yk_status hash_blocks(const char *path, int64_t stride, uint32_t *hash, yk_err *err)
{
  char block[BLOCK_BYTES] = {0};
  int fd;
  size_t n_bytes;
  YK_TRY(yk_file_open(path, &fd, &n_bytes, err));
  ssize_t got;
  int64_t n_header = 0;
  for (int64_t at = 0; (got = pread(fd, block, sizeof block, at)) > 0; at += at < n_header ? BLOCK_BYTES : stride) {
    if (at == 0) n_header = header_bytes(block);
    *hash = yk_hash(*hash, block, (size_t)got);
  }
  int failed = got < 0 ? errno : 0;
  close(fd);
  return failed ? yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(failed)) : YK_OK;
}

yk_status yk_file_hash(const char *path, uint32_t *hash, yk_err *err)
{
  return hash_blocks(path, BLOCK_BYTES, hash, err);
}

/* Distance of the sampled blocks of a weight file. Files up to 16 MiB are hashed in full. For larger files, the header
 * and 4096 blocks of 4 KiB at equal distances are read, in a fraction of a second. The distance, some 1.2 MB in a file
 * of 5 GB, is less than the size of a quantised matrix, so weights that were trained or quantised again are detected,
 * although a single changed byte may not be. The modification time would detect that too, but would reject a copy of
 * the same model. */
static int64_t stride_of_weights(int64_t n_bytes)
{
  return yk_max_i64(BLOCK_BYTES, yk_ceil_div_i64(n_bytes, MAX_BLOCKS));
}

yk_status yk_model_file_identity(const char *dir, const char *name, uint32_t *hash, yk_err *err)
{
  char path[4096];
  struct stat info;
  bool is_weights = ends_with(name, ".safetensors") || ends_with(name, ".bin");
  if (!is_weights && !ends_with(name, ".json") && !ends_with(name, ".jinja")) return YK_OK;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return YK_OK; /* the loader reports missing files */
  int64_t n_bytes = info.st_size;
  *hash = yk_hash(*hash, name, strlen(name) + 1);
  *hash = yk_hash(*hash, &n_bytes, sizeof n_bytes);
  return hash_blocks(path, is_weights ? stride_of_weights(n_bytes) : BLOCK_BYTES, hash, err);
}

/* With a single file of weights, the other weight files in the directory do not belong to the model. */
static bool belongs(const char *name, const char *only)
{
  return !only || strcmp(name, only) == 0 || ends_with(name, ".json") || ends_with(name, ".jinja");
}

yk_status yk_model_identity(const char *path, uint32_t *hash, yk_err *err)
{
  struct dirent **entries;
  char dir[YK_MODEL_PATH_BYTES];
  const char *slash = strrchr(path, '/');
  const char *only = yk_model_path_is_dir(path) ? NULL : slash ? slash + 1 : path;
  if (access(path, F_OK) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
  YK_TRY(yk_model_path_dir(path, dir, err));
  int n = scandir(dir, &entries, NULL, alphasort);
  if (n < 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  yk_status status = YK_OK;
  for (int i = 0; i < n; i++) {
    if (status == YK_OK && belongs(entries[i]->d_name, only))
      status = yk_model_file_identity(dir, entries[i]->d_name, hash, err);
    free(entries[i]);
  }
  free(entries);
  return status;
}
