#include "cli/batch_identity.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static yk_status hash_contents(const char *path, uint32_t *hash, yk_err *err)
{
  char chunk[65536];
  FILE *file = fopen(path, "rb");
  if (!file) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
  for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) *hash = yk_hash(*hash, chunk, got);
  bool failed = ferror(file) != 0;
  fclose(file);
  return failed ? yk_err_set(err, YK_E_IO, "%s: cannot be read", path) : YK_OK;
}

/* Name and size; of a JSON file, which is small, the contents. What is no file does not count. */
static yk_status hash_file(const char *dir, const char *name, uint32_t *hash, yk_err *err)
{
  char path[4096];
  struct stat info;
  bool is_json = ends_with(name, ".json");
  if (!is_json && !ends_with(name, ".safetensors")) return YK_OK;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return YK_OK; /* the loader says what it misses */
  int64_t n_bytes = info.st_size;
  *hash = yk_hash(*hash, name, strlen(name) + 1);
  *hash = yk_hash(*hash, &n_bytes, sizeof n_bytes);
  return is_json ? hash_contents(path, hash, err) : YK_OK;
}

static yk_status hash_model(const char *dir, uint32_t *hash, yk_err *err)
{
  struct dirent **entries;
  int n = scandir(dir, &entries, NULL, alphasort);
  if (n < 0 && errno == ENOTDIR) return YK_OK; /* the loader says what it is */
  if (n < 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  yk_status status = YK_OK;
  for (int i = 0; i < n; i++) {
    if (status == YK_OK) status = hash_file(dir, entries[i]->d_name, hash, err);
    free(entries[i]);
  }
  free(entries);
  return status;
}

yk_status yk_batch_identity(const char *model_dir, const yk_sampling_options *sampling, int dtype, uint64_t seed,
                            uint32_t *out, yk_err *err)
{
  uint32_t hash = yk_sampling_options_hash(sampling, YK_HASH_START);
  hash = yk_hash(hash, &dtype, sizeof dtype);
  hash = yk_hash(hash, &seed, sizeof seed);
  YK_TRY(hash_model(model_dir, &hash, err));
  *out = hash;
  return YK_OK;
}
