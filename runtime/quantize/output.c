#include "quantize/output.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/model_identity.h"
#include "base/write_lock.h"
#include "loader/hf/json_edit.h"
#include "loader/hf/side_files.h"
#include "quantize/output_files.h"

static const char part_name[] = "quantize.part";
static const char run_name[] = "run.json";

/* ---- The options of a run ---------------------------------------------------------------------------------------- */

static void append_identity(yk_strbuf *text, const yk_quantize_options *options, yk_device_kind device, uint32_t source)
{
  yk_strbuf_append_str(text, "{\"version of yoke\": ");
  yk_json_append_string(text, yk_version(), strlen(yk_version()));
  yk_strbuf_append_fmt(text, ", \"source\": %" PRIu32 ", \"method\": %d, \"group size\": %d, \"modules to keep\": [",
                       source, (int)options->method, (int)options->group_size);
  for (size_t i = 0; i < options->n_keep; i++) {
    yk_strbuf_append_str(text, i ? ", " : "");
    yk_json_append_string(text, options->keep[i], strlen(options->keep[i]));
  }
  yk_strbuf_append_str(text, "]");
  if (options->method == YK_QUANTIZE_AWQ) {
    uint32_t words = yk_hash(YK_HASH_START, options->calibration, options->calibration_bytes);
    const char *name = device == YK_DEVICE_CUDA ? "cuda" : "cpu"; /* the two devices find different scales */
    yk_strbuf_append_fmt(text, ", \"device\": \"%s\", \"calibration text\": %" PRIu32 ", \"calibration tokens\": %lld",
                         name, words, (long long)options->calibration_tokens);
  }
  yk_strbuf_append_str(text, "}");
}

static yk_status identity_of(const yk_quantize_options *options, yk_device_kind device, yk_json_doc **out, yk_err *err)
{
  uint32_t source = YK_HASH_START;
  YK_TRY(yk_model_identity(options->model_dir, &source, err));
  yk_strbuf text = YK_STRBUF_INIT;
  append_identity(&text, options, device, source);
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the settings of a run")
                                 : yk_json_parse(run_name, text.data, text.length, NULL, out, err);
  yk_strbuf_free(&text);
  return status;
}

static yk_status compare(const char *dir, yk_json now, yk_json before, yk_err *err)
{
  YK_JSON_EACH_KEY(key, now)
  {
    if (!yk_json_same(yk_json_member(key), yk_json_get(before, yk_json_string(key))))
      return yk_err_set(err, YK_E_IO, "%s: begun with another %s: quantise into another directory, or remove this one",
                        dir, yk_json_string(key));
  }
  return YK_OK;
}

/* Continue a run: its options must equal the present ones. */
static yk_status resume(const yk_quantize_output *output, yk_json identity, yk_err *err)
{
  char path[YK_PATH_BYTES];
  yk_json_doc *before;
  YK_TRY(yk_dir_path(output->part_dir, run_name, path, err));
  YK_TRY(yk_json_parse_file(path, NULL, &before, err));
  yk_status status = compare(output->dir, identity, yk_json_root(before), err);
  yk_json_free(before);
  return status;
}

static yk_status begin_new(const yk_quantize_output *output, yk_json identity, yk_err *err)
{
  char path[YK_PATH_BYTES];
  YK_TRY(yk_dir_path(output->part_dir, run_name, path, err));
  char *text = yk_json_to_text(identity);
  if (!text) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  yk_status status = yk_file_replace(path, text, strlen(text), err);
  free(text);
  return status;
}

/* ---- The directory ----------------------------------------------------------------------------------------------- */

/* Create the directory if it is missing. It may contain only the folder of a run that has written nothing yet. */
static yk_status make_dir(const char *dir, bool *is_begun, yk_err *err)
{
  char run[YK_PATH_BYTES];
  struct dirent *entry;
  YK_TRY(yk_dir_make(dir, err));
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

static yk_status lock_part(yk_quantize_output *out, yk_err *err)
{
  YK_TRY(yk_dir_make(out->part_dir, err));
  return yk_write_lock_dir(out->part_dir, &out->lock_fd, err);
}

void yk_quantize_output_end(yk_quantize_output *output)
{
  if (output->lock_fd >= 0) close(output->lock_fd);
  output->lock_fd = -1;
}

yk_status yk_quantize_output_begin(const yk_quantize_options *options, yk_device_kind device, yk_quantize_output *out,
                                   yk_err *err)
{
  bool is_begun;
  char shard[256];
  yk_json_doc *identity;
  *out = (yk_quantize_output){.dir = options->out_dir, .lock_fd = -1};
  YK_TRY(yk_dir_path(options->out_dir, part_name, out->part_dir, err));
  YK_TRY(identity_of(options, device, &identity, err));
  yk_status status = make_dir(options->out_dir, &is_begun, err);
  if (status == YK_OK) status = lock_part(out, err);
  if (status == YK_OK && is_begun && yk_dir_find_suffix(options->out_dir, ".safetensors", shard))
    status = resume(out, yk_json_root(identity), err);
  else if (status == YK_OK) /* without a finished shard the earlier options do not matter */
    status = begin_new(out, yk_json_root(identity), err);
  yk_json_free(identity);
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

/* Remove the remains of an interrupted shard. */
static void clear(const char *folder)
{
  remove_part(folder, YK_SAFETENSORS_SINGLE);
  remove_part(folder, YK_SAFETENSORS_SINGLE ".part");
}

yk_status yk_quantize_output_folder(const yk_quantize_output *output, int rank, char folder[YK_PATH_BYTES], yk_err *err)
{
  YK_TRY(folder_of(output, rank, folder, err));
  YK_TRY(yk_dir_make(folder, err));
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

/* Remove the folders of all possible ranks, since the run may have begun with more ranks. */
static yk_status remove_parts(const yk_quantize_output *output, yk_err *err)
{
  char folder[YK_PATH_BYTES];
  for (int rank = 0; rank < YK_MAX_RANKS; rank++) {
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
