#include "quantize/output.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_tree.h"
#include "base/model_identity.h"
#include "loader/side_files.h"
#include "quantize/output_files.h"

static const char part_name[] = "quantize.part";
static const char run_name[] = "run.json";

/* ---- What a run was begun with ----------------------------------------------------------------------------------- */

static yk_status identity_of(const yk_quantize_options *options, yk_device_kind device, json_t **out, yk_err *err)
{
  uint32_t source = YK_HASH_START;
  YK_TRY(yk_model_identity(options->model_dir, &source, err));
  json_t *keep = json_array(), *identity = json_object();
  int failed = !keep || !identity;
  for (size_t i = 0; i < options->n_keep; i++) failed |= json_array_append_new(keep, json_string(options->keep[i]));
  failed |= json_object_set_new(identity, "version of yoke", json_string(yk_version()));
  failed |= json_object_set_new(identity, "source", json_integer(source));
  failed |= json_object_set_new(identity, "method", json_integer(options->method));
  failed |= json_object_set_new(identity, "group size", json_integer(options->group_size));
  failed |= json_object_set_new(identity, "modules to keep", keep);
  if (options->method == YK_QUANTIZE_AWQ) {
    uint32_t text = yk_hash(YK_HASH_START, options->calibration, options->calibration_bytes);
    const char *name = device == YK_DEVICE_CUDA ? "cuda" : "cpu"; /* they find other scales */
    failed |= json_object_set_new(identity, "device", json_string(name));
    failed |= json_object_set_new(identity, "calibration text", json_integer(text));
    failed |= json_object_set_new(identity, "calibration tokens", json_integer(options->calibration_tokens));
  }
  *out = identity;
  if (!failed) return YK_OK;
  json_decref(identity);
  return yk_err_set(err, YK_E_NOMEM, "no memory for what a run is begun with");
}

static yk_status compare(const char *dir, const json_t *now, const json_t *before, yk_err *err)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)now, key, value)
  {
    if (!json_equal(value, json_object_get(before, key)))
      return yk_err_set(err, YK_E_IO, "%s: begun with another %s: quantise into another directory, or remove this one",
                        dir, key);
  }
  return YK_OK;
}

/* Begun before: what it was begun with must be what is wanted now. */
static yk_status resume(const yk_quantize_output *output, const json_t *identity, yk_err *err)
{
  char path[YK_PATH_BYTES];
  json_t *before = NULL;
  YK_TRY(yk_dir_path(output->part_dir, run_name, path, err));
  YK_TRY(yk_tree_parse_file(path, &before, err));
  yk_status status = compare(output->dir, identity, before, err);
  json_decref(before);
  return status;
}

static yk_status begin_new(const yk_quantize_output *output, const json_t *identity, yk_err *err)
{
  char path[YK_PATH_BYTES];
  YK_TRY(yk_dir_path(output->part_dir, run_name, path, err));
  if (mkdir(output->part_dir, 0777) != 0 && errno != EEXIST)
    return yk_err_set(err, YK_E_IO, "%s: %s", output->part_dir, strerror(errno));
  char *text = yk_tree_text(identity, JSON_INDENT(2));
  if (!text) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  yk_status status = yk_file_replace(path, text, strlen(text), err);
  free(text);
  return status;
}

/* ---- The directory ----------------------------------------------------------------------------------------------- */

/* Made where it is missing. What is in it: nothing but maybe the folder of a run, before that has written anything. */
static yk_status make_dir(const char *dir, bool *is_begun, yk_err *err)
{
  char run[YK_PATH_BYTES];
  struct dirent *entry;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  snprintf(run, sizeof run, "%s/%s", part_name, run_name);
  *is_begun = yk_dir_has(dir, run);
  if (*is_begun) return YK_OK;
  DIR *stream = opendir(dir);
  if (!stream) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  yk_status status = YK_OK;
  while (status == YK_OK && (entry = readdir(stream))) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, part_name) == 0) continue;
    status = yk_err_set(err, YK_E_IO, "%s: expected an empty directory or an unfinished run, found %s", dir, name);
  }
  closedir(stream);
  return status;
}

yk_status yk_quantize_output_begin(const yk_quantize_options *options, yk_device_kind device, yk_quantize_output *out,
                                   yk_err *err)
{
  bool is_begun;
  char shard[256];
  json_t *identity;
  *out = (yk_quantize_output){.dir = options->out_dir};
  YK_TRY(yk_dir_path(options->out_dir, part_name, out->part_dir, err));
  YK_TRY(identity_of(options, device, &identity, err));
  yk_status status = make_dir(options->out_dir, &is_begun, err);
  if (status == YK_OK && is_begun && yk_dir_find_suffix(options->out_dir, ".safetensors", shard))
    status = resume(out, identity, err);
  else if (status == YK_OK) /* what finished no shard binds nobody */
    status = begin_new(out, identity, err);
  json_decref(identity);
  return status;
}

bool yk_quantize_output_has(const yk_quantize_output *output, const char *file)
{
  return yk_dir_has(output->dir, file);
}

static void remove_part(const char *folder, const char *name)
{
  char path[YK_PATH_BYTES];
  if (yk_dir_path(folder, name, path, NULL) == YK_OK) unlink(path);
}

static yk_status folder_of(const yk_quantize_output *output, int rank, char folder[YK_PATH_BYTES], yk_err *err)
{
  char name[16];
  snprintf(name, sizeof name, "%d", rank);
  return yk_dir_path(output->part_dir, name, folder, err);
}

/* What an interrupted run left of a shard. */
static void clear(const char *folder)
{
  remove_part(folder, YK_SAFETENSORS_SINGLE);
  remove_part(folder, YK_SAFETENSORS_SINGLE ".part");
}

yk_status yk_quantize_output_folder(const yk_quantize_output *output, int rank, char folder[YK_PATH_BYTES], yk_err *err)
{
  YK_TRY(folder_of(output, rank, folder, err));
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) return yk_err_set(err, YK_E_IO, "%s: %s", folder, strerror(errno));
  clear(folder);
  return YK_OK;
}

yk_status yk_quantize_output_take(const yk_quantize_output *output, int rank, const char *file, yk_err *err)
{
  char folder[YK_PATH_BYTES], from[YK_PATH_BYTES], to[YK_PATH_BYTES];
  YK_TRY(folder_of(output, rank, folder, err));
  YK_TRY(yk_dir_path(folder, YK_SAFETENSORS_SINGLE, from, err));
  YK_TRY(yk_dir_path(output->dir, file, to, err));
  if (rename(from, to) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", to, strerror(errno));
  return YK_OK;
}

/* Of any number of ranks, since the run may have been begun with more. */
static yk_status remove_parts(const yk_quantize_output *output, yk_err *err)
{
  char folder[YK_PATH_BYTES];
  for (int rank = 0; rank < YOKE_MAX_RANKS; rank++) {
    YK_TRY(folder_of(output, rank, folder, err));
    clear(folder);
    rmdir(folder);
  }
  remove_part(output->part_dir, run_name);
  if (rmdir(output->part_dir) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", output->part_dir, strerror(errno));
  return YK_OK;
}

yk_status yk_quantize_output_finish(const yk_quantize_output *output, const yk_quantize_options *options,
                                    const yk_quantize_plan *plan, yk_err *err)
{
  if (plan->n_files > 1 || strcmp(plan->files[0], YK_SAFETENSORS_SINGLE) != 0)
    YK_TRY(yk_quantize_write_index(output->dir, plan, err));
  YK_TRY(yk_side_files_copy(options->model_dir, output->dir, err));
  YK_TRY(yk_quantize_write_config(output->dir, plan, err));
  return remove_parts(output, err);
}
