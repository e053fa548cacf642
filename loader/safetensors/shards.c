#include "loader/safetensors/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/safetensors/dir.h"
#include "loader/safetensors/json_index.h"
#include "loader/safetensors/other_formats.h"

static const char single_default[] = YK_SAFETENSORS_SINGLE;
static const char index_default[] = YK_SAFETENSORS_INDEX;

/* msmodelslim's files: the prefix, any text such as w8a8, then the suffix. */
static const char prefix_msmodelslim[] = "quant_model_weight", single_suffix[] = ".safetensors",
                  index_suffix[] = ".safetensors.index.json";

enum { NAME_BYTES = 256 };

typedef struct located {
  const yk_tensor *tensor;
  const char *file;
} located;

struct yk_shards {
  char single_name[NAME_BYTES], index_name[NAME_BYTES]; /* the names in this directory */
  const char *source;                                   /* one of them */
  char **names;                                         /* [n_files], sorted */
  yk_safetensors **files;
  size_t n_files;
  located *table; /* sorted by tensor name */
  size_t n_tensors;
  yk_tensor *views;    /* that replace others; NULL: none */
  yk_tensor *prefixed; /* tensors with prefixed names, and the names; NULL: none */
};

static int by_string(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_tensor_name(const void *a, const void *b)
{
  return strcmp(((const located *)a)->tensor->name, ((const located *)b)->tensor->name);
}

static const located *find(const yk_shards *shards, const char *name)
{
  yk_tensor wanted = {.name = name};
  located key = {.tensor = &wanted};
  return bsearch(&key, shards->table, shards->n_tensors, sizeof key, by_tensor_name);
}

const yk_tensor *yk_shards_find(const yk_shards *shards, const char *name, const char **file)
{
  const located *found = find(shards, name);
  if (!found) return NULL;
  if (file) *file = found->file;
  return found->tensor;
}

size_t yk_shards_count(const yk_shards *shards)
{
  return shards->n_tensors;
}

const yk_tensor *yk_shards_at(const yk_shards *shards, size_t i)
{
  return shards->table[i].tensor;
}

size_t yk_shards_position(const yk_shards *shards, const char *name)
{
  const located *found = find(shards, name);
  return found ? (size_t)(found - shards->table) : shards->n_tensors;
}

const char *yk_shards_source(const yk_shards *shards)
{
  return shards->source;
}

void yk_shards_close(yk_shards *shards)
{
  if (!shards) return;
  for (size_t i = 0; i < shards->n_files; i++) {
    free(shards->names[i]);
    if (shards->files) yk_safetensors_close(shards->files[i]); /* names are listed before files are opened */
  }
  free(shards->names);
  free(shards->files);
  free(shards->table);
  free(shards->views);
  free(shards->prefixed);
  free(shards);
}

yk_status yk_shards_settle(const yk_shards *shards, yk_status status, yk_err *err)
{
  for (size_t i = 0; shards && i < shards->n_files; i++) status = yk_safetensors_settle(shards->files[i], status, err);
  return status;
}

/* Report why there is nothing to load, and the remedy. */
static yk_status explain_missing(const char *dir, yk_err *err)
{
  char found[256];
  YK_TRY(yk_other_formats_check_mistral(dir, err));
  if (yk_dir_find_suffix(dir, ".safetensors", found))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected %s or %s, found only %s", dir, single_default, index_default,
                      found);
  YK_TRY(yk_other_formats_check_dir(dir, err));
  return yk_err_set(err, YK_E_IO, "%s: expected %s or %s, found neither", dir, single_default, index_default);
}

/* The file named by an entry of the index, without the "./" that some tools write before it; NULL: not a string. */
static const char *file_of(yk_json value)
{
  const char *name = yk_json_string(value);
  while (name && strncmp(name, "./", 2) == 0) name += 2;
  return name;
}

/* A file name from the index must not lead outside the directory. */
static yk_status check_shard_name(const char *index_name, yk_json value, const char *tensor, yk_err *err)
{
  const char *name = file_of(value);
  if (!name)
    return yk_err_set(err, YK_E_FORMAT, "%s: weight_map of tensor %s: expected a file name, found %s", index_name,
                      tensor, yk_json_type_name(value));
  bool has_nul = strlen(yk_json_string(value)) != yk_json_length(value);
  if (!*name || has_nul || strchr(name, '/') || strstr(name, ".."))
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: weight_map of tensor %s: expected a file name without \"/\", \"..\" and NUL, found \"%s\"",
                      index_name, tensor, yk_json_string(value));
  return YK_OK;
}

/* The distinct file names of a weight map, sorted, in shards->names. */
static yk_status collect_names(yk_json weight_map, yk_shards *shards, yk_err *err)
{
  size_t n = 0, n_entries = yk_json_size(weight_map);
  const char **all = calloc(n_entries + 1, sizeof *all);
  shards->names = calloc(n_entries + 1, sizeof *shards->names);
  yk_status status = all && shards->names ? YK_OK : yk_err_set(err, YK_E_NOMEM, "%s: no memory", shards->index_name);
  for (yk_json key = yk_json_first_key(weight_map); status == YK_OK && key.doc;
       key = yk_json_key_after(weight_map, key)) {
    status = check_shard_name(shards->index_name, yk_json_member(key), yk_json_string(key), err);
    all[n++] = file_of(yk_json_member(key));
  }
  if (status == YK_OK) qsort(all, n, sizeof *all, by_string);
  for (size_t i = 0; status == YK_OK && i < n; i++) {
    if (i > 0 && strcmp(all[i], all[i - 1]) == 0) continue;
    char *copy = strdup(all[i]);
    if (copy)
      shards->names[shards->n_files++] = copy;
    else
      status = yk_err_set(err, YK_E_NOMEM, "%s: no memory", shards->index_name);
  }
  free(all);
  return status;
}

static yk_status open_files(const char *dir, yk_shards *shards, yk_err *err)
{
  shards->files = calloc(shards->n_files + 1, sizeof *shards->files);
  if (!shards->files) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", shards->source);
  for (size_t i = 0; i < shards->n_files; i++) {
    char path[YK_PATH_BYTES];
    YK_TRY(yk_dir_path(dir, shards->names[i], path, err));
    if (!yk_dir_has(dir, shards->names[i]))
      return yk_err_set(err, YK_E_IO, "%s: shard %s is missing: download it", shards->source, shards->names[i]);
    YK_TRY(yk_safetensors_open(path, &shards->files[i], err));
  }
  return YK_OK;
}

static yk_status sort_table(yk_shards *shards, yk_err *err)
{
  qsort(shards->table, shards->n_tensors, sizeof *shards->table, by_tensor_name);
  for (size_t i = 1; i < shards->n_tensors; i++)
    if (by_tensor_name(&shards->table[i - 1], &shards->table[i]) == 0)
      return yk_err_set(err, YK_E_FORMAT, "tensor %s is both in %s and in %s", shards->table[i].tensor->name,
                        shards->table[i - 1].file, shards->table[i].file);
  return YK_OK;
}

yk_status yk_shards_replace(yk_shards *shards, yk_tensor *tensors, const size_t *origins, size_t n, yk_err *err)
{
  size_t n_kept = 0;
  shards->views = tensors;
  located *table = calloc(shards->n_tensors + n + 1, sizeof *table);
  bool *goes = calloc(shards->n_tensors + 1, sizeof *goes);
  if (!table || !goes) {
    free(table);
    free(goes);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu tensors", shards->source, n);
  }
  for (size_t i = 0; i < n; i++) goes[origins[i]] = true;
  for (size_t i = 0; i < shards->n_tensors; i++)
    if (!goes[i]) table[n_kept++] = shards->table[i];
  for (size_t i = 0; i < n; i++) table[n_kept + i] = (located){&tensors[i], shards->table[origins[i]].file};
  free(goes);
  free(shards->table);
  shards->table = table;
  shards->n_tensors = n_kept + n;
  return sort_table(shards, err);
}

yk_status yk_shards_prefix(yk_shards *shards, const char *prefix, const char *module, yk_err *err)
{
  size_t n = shards->n_tensors, n_prefix = strlen(prefix), n_module = strlen(module), n_bytes = n * sizeof(yk_tensor);
  for (size_t i = 0; i < n; i++) n_bytes += n_prefix + strlen(shards->table[i].tensor->name) + 1;
  shards->prefixed = malloc(n_bytes + 1);
  if (!shards->prefixed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu tensors", shards->source, n);
  char *at = (char *)(shards->prefixed + n);
  for (size_t i = 0; i < n; i++) {
    const char *name = shards->table[i].tensor->name;
    if (strncmp(name, module, n_module) == 0 && name[n_module] == '.') continue;
    shards->prefixed[i] = *shards->table[i].tensor;
    shards->prefixed[i].name = at;
    shards->table[i].tensor = &shards->prefixed[i];
    memcpy(at, prefix, n_prefix);
    memcpy(at + n_prefix, name, strlen(name) + 1);
    at += n_prefix + strlen(name) + 1;
  }
  return sort_table(shards, err);
}

/* Build one table over all files. If the index (NULL: none) assigns a tensor to another file, that file's tensor is
 * used. */
static yk_status build_table(const yk_json_index *weight_map, const yk_log *log, yk_shards *shards, yk_err *err)
{
  size_t n_total = 0, n_unlisted = 0;
  for (size_t i = 0; i < shards->n_files; i++) n_total += yk_safetensors_count(shards->files[i]);
  shards->table = calloc(n_total + 1, sizeof *shards->table);
  if (!shards->table) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu tensors", shards->source, n_total);
  for (size_t i = 0; i < shards->n_files; i++) {
    for (size_t j = 0; j < yk_safetensors_count(shards->files[i]); j++) {
      const yk_tensor *tensor = yk_safetensors_at(shards->files[i], j);
      const char *listed = weight_map ? file_of(yk_json_index_get(weight_map, tensor->name)) : NULL;
      if (listed && strcmp(listed, shards->names[i]) != 0) continue;
      if (weight_map && !listed && n_unlisted++ == 0)
        yk_log_write(log, YK_LOG_WARN, "%s: tensor %s of %s is not in the index", shards->index_name, tensor->name,
                     shards->names[i]);
      shards->table[shards->n_tensors++] = (located){tensor, shards->names[i]};
    }
  }
  return sort_table(shards, err);
}

static yk_status check_index(yk_json weight_map, const yk_shards *shards, yk_err *err)
{
  YK_JSON_EACH_KEY(key, weight_map)
  {
    const char *tensor = yk_json_string(key);
    if (!yk_shards_find(shards, tensor, NULL))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected in %s, not found there", shards->index_name, tensor,
                        file_of(yk_json_member(key)));
  }
  return YK_OK;
}

static yk_status open_single(const char *dir, const yk_log *log, yk_shards *shards, yk_err *err)
{
  shards->source = shards->single_name;
  shards->names = calloc(1, sizeof *shards->names);
  char *name = strdup(shards->single_name);
  if (!shards->names || !name) {
    free(name);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory", shards->single_name);
  }
  shards->names[shards->n_files++] = name;
  YK_TRY(open_files(dir, shards, err));
  return build_table(NULL, log, shards, err);
}

static yk_status open_indexed(const char *dir, yk_json index, const yk_log *log, yk_shards *shards, yk_err *err)
{
  shards->source = shards->index_name;
  yk_json weight_map = yk_json_get(index, "weight_map");
  if (!yk_json_is(weight_map, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"weight_map\": expected an object, found %s", shards->index_name,
                      yk_json_type_name(weight_map));
  YK_TRY(collect_names(weight_map, shards, err));
  YK_TRY(open_files(dir, shards, err));
  yk_json_index by_tensor;
  yk_status status = yk_json_index_make(weight_map, shards->index_name, &by_tensor, err);
  if (status == YK_OK) status = build_table(&by_tensor, log, shards, err);
  yk_json_index_free(&by_tensor);
  return status == YK_OK ? check_index(weight_map, shards, err) : status;
}

yk_status yk_shards_of(const char *source, const yk_tensor *tensors, size_t n, yk_shards **out, yk_err *err)
{
  yk_shards *shards = calloc(1, sizeof *shards);
  located *table = calloc(n + 1, sizeof *table);
  if (!shards || !table) {
    free(shards);
    free(table);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu tensors", source, n);
  }
  for (size_t i = 0; i < n; i++) table[i] = (located){&tensors[i], source};
  qsort(table, n, sizeof *table, by_tensor_name);
  *shards = (yk_shards){.source = source, .table = table, .n_tensors = n};
  *out = shards;
  return YK_OK;
}

static yk_status read_index(const char *dir, const yk_shards *shards, yk_json_doc **index, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_dir_read(dir, shards->index_name, true, &text, &n_bytes, err));
  yk_status status = yk_json_parse(shards->index_name, text, n_bytes, NULL, index, err);
  free(text);
  return status;
}

/* Choose the files to read: those of msmodelslim, if there are any, have priority. *is_single: one file, without an
 * index. */
static yk_status find_names(const char *dir, yk_shards *shards, bool *is_single, yk_err *err)
{
  char last[NAME_BYTES];
  int n_indices = yk_dir_find_all(dir, prefix_msmodelslim, index_suffix, shards->index_name, last);
  if (n_indices > 1)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected one index %s*%s, found %s and %s", dir, prefix_msmodelslim,
                      index_suffix, shards->index_name, last);
  *is_single = false;
  if (n_indices == 1) return YK_OK;
  int n_singles = yk_dir_find_all(dir, prefix_msmodelslim, single_suffix, shards->single_name, last);
  if (n_singles > 1)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected one file %s*%s or an index, found %s and %s", dir,
                      prefix_msmodelslim, single_suffix, shards->single_name, last);
  *is_single = true;
  if (n_singles == 1) return YK_OK;
  snprintf(shards->single_name, sizeof shards->single_name, "%s", single_default);
  snprintf(shards->index_name, sizeof shards->index_name, "%s", index_default);
  *is_single = yk_dir_has(dir, single_default);
  return *is_single || yk_dir_has(dir, index_default) ? YK_OK : explain_missing(dir, err);
}

static yk_status open_found(const char *dir, const yk_log *log, yk_shards *shards, yk_err *err)
{
  bool is_single;
  yk_json_doc *index;
  YK_TRY(find_names(dir, shards, &is_single, err));
  if (is_single) return open_single(dir, log, shards, err);
  YK_TRY(read_index(dir, shards, &index, err));
  yk_status status = open_indexed(dir, yk_json_root(index), log, shards, err);
  yk_json_free(index);
  return status;
}

yk_status yk_shards_open(const char *dir, const yk_log *log, yk_shards **out, yk_err *err)
{
  yk_shards *shards = calloc(1, sizeof *shards);
  if (!shards) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", dir);
  yk_status status = open_found(dir, log, shards, err);
  if (status == YK_OK)
    *out = shards;
  else
    yk_shards_close(shards);
  return status;
}
