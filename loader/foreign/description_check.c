#include "loader/foreign/description_check.h"

#include <stdlib.h>
#include <string.h>

#include "loader/safetensors/dir.h"
#include "loader/safetensors/json_index.h"

static yk_status check_named(yk_json description, const char *file, const yk_shards *shards, const yk_log *log,
                             yk_err *err)
{
  const char *first = NULL;
  size_t n_missing = 0;
  YK_JSON_EACH_KEY(at, description)
  {
    const char *name = yk_json_string(at);
    const char *kind = yk_json_string(yk_json_member(at));
    if (!kind || !strchr(name, '.') || yk_shards_find(shards, name, NULL)) continue;
    if (strcmp(kind, "FLOAT") != 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %.160s: expected in %s, not found there", file, name,
                        yk_shards_source(shards));
    if (n_missing++ == 0) first = name;
  }
  if (n_missing > 0)
    yk_log_write(log, YK_LOG_WARN, "%s: %zu tensor%s not in %s; the first is %s", file, n_missing,
                 n_missing == 1 ? " is" : "s are", yk_shards_source(shards), first);
  return YK_OK;
}

static void warn_unnamed(const yk_json_index *description, const char *file, const yk_shards *shards, const yk_log *log)
{
  size_t n_unnamed = 0;
  const char *first = NULL;
  for (size_t i = 0; i < yk_shards_count(shards); i++) {
    const char *name = yk_shards_at(shards, i)->name;
    if (!yk_json_index_get(description, name).doc && n_unnamed++ == 0) first = name;
  }
  if (n_unnamed > 0)
    yk_log_write(log, YK_LOG_WARN, "%s: %zu tensor%s of %s not named; the first is %s", file, n_unnamed,
                 n_unnamed == 1 ? " is" : "s are", yk_shards_source(shards), first);
}

yk_status yk_description_check(const char *dir, const yk_shards *shards, const yk_log *log, yk_err *err)
{
  char file[256], last[256], *text;
  size_t n_bytes;
  yk_json_doc *description;
  yk_json_index index;
  if (yk_dir_find_all(dir, YK_DESCRIPTION_PREFIX, YK_DESCRIPTION_SUFFIX, file, last) == 0) return YK_OK;
  YK_TRY(yk_dir_read(dir, file, true, &text, &n_bytes, err));
  yk_status status = yk_json_parse(file, text, n_bytes, NULL, &description, err);
  free(text);
  YK_TRY(status);
  status = yk_json_index_make(yk_json_root(description), file, &index, err);
  if (status == YK_OK) status = check_named(yk_json_root(description), file, shards, log, err);
  if (status == YK_OK) warn_unnamed(&index, file, shards, log);
  yk_json_index_free(&index);
  yk_json_free(description);
  return status;
}
