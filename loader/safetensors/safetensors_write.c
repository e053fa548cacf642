#include "loader/safetensors/safetensors_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/file_part.h"
#include "base/json_write.h"
#include "loader/safetensors/dir.h"

enum { HEADER_ALIGNMENT = 8 };

typedef struct shard {
  size_t first, n_tensors;
  yk_file_part file; /* all zeros until the shard begins */
} shard;

struct yk_safetensors_writer {
  char *dir;
  const yk_tensor *tensors; /* owned by the caller */
  size_t n_tensors;
  const yk_tensor **by_name; /* the same, sorted */
  shard *shards;
  size_t n_shards;
  uint64_t total_bytes;
  size_t shard, tensor; /* of the next data */
  uint64_t position;    /* in the tensor's data */
  bool is_finished;
};

/* ---- The list ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
  return strcmp((*(const yk_tensor *const *)a)->name, (*(const yk_tensor *const *)b)->name);
}

static uint64_t bytes_of(const yk_tensor *tensor)
{
  uint64_t n_bytes = 0;
  yk_tensor_bytes(tensor, &n_bytes); /* cannot fail: the list was checked */
  return n_bytes;
}

static yk_status check_list(yk_safetensors_writer *writer, yk_err *err)
{
  for (size_t i = 0; i < writer->n_tensors; i++) {
    const yk_tensor *tensor = &writer->tensors[i];
    uint64_t n_bytes;
    bool is_whole = tensor->n_dims >= 0 && tensor->n_dims <= YK_TENSOR_MAX_DIMS;
    for (int32_t d = 0; is_whole && d < tensor->n_dims; d++) is_whole = tensor->shape[d] >= 0;
    if (!is_whole || !yk_tensor_bytes(tensor, &n_bytes) ||
        !yk_checked_add_u64(writer->total_bytes, n_bytes, &writer->total_bytes))
      return yk_err_set(err, YK_E_INVAL, "tensor %s: expected a shape of a whole number of bytes below 2^61",
                        tensor->name);
    if (strcmp(tensor->name, "__metadata__") == 0)
      return yk_err_set(err, YK_E_INVAL, "tensor %s: expected another name: safetensors reserves this one",
                        tensor->name);
    writer->by_name[i] = tensor;
  }
  qsort(writer->by_name, writer->n_tensors, sizeof *writer->by_name, by_name);
  for (size_t i = 1; i < writer->n_tensors; i++)
    if (by_name(&writer->by_name[i - 1], &writer->by_name[i]) == 0)
      return yk_err_set(err, YK_E_INVAL, "tensor %s: expected once, found twice", writer->by_name[i]->name);
  return YK_OK;
}

/* A shard ends before the tensor that would make it larger than shard_bytes. There is always at least one shard. */
static void cut(yk_safetensors_writer *writer, uint64_t shard_bytes)
{
  uint64_t n_bytes = 0;
  writer->n_shards = 1;
  for (size_t i = 0; i < writer->n_tensors; i++) {
    uint64_t more = bytes_of(&writer->tensors[i]);
    shard *last = &writer->shards[writer->n_shards - 1];
    if (last->n_tensors > 0 && (more > shard_bytes || n_bytes > shard_bytes - more)) {
      last = &writer->shards[writer->n_shards++];
      last->first = i;
      n_bytes = 0;
    }
    last->n_tensors++;
    n_bytes += more;
  }
}

/* ---- The directory ----------------------------------------------------------------------------------------------- */

/* No existing file is overwritten, and no write begins without enough disk space. */
static yk_status check_dir(const char *dir, uint64_t n_bytes, yk_err *err)
{
  char found[256];
  struct statvfs disk;
  if (statvfs(dir, &disk) != 0) return yk_err_set(err, YK_E_IO, "%s: %s", dir, strerror(errno));
  if (yk_dir_find_suffix(dir, ".safetensors", found) || yk_dir_find_suffix(dir, YK_SAFETENSORS_INDEX, found))
    return yk_err_set(err, YK_E_IO,
                      "%s: expected no safetensors files, found %s, which is not overwritten: name another directory",
                      dir, found);
  uint64_t available;
  if (disk.f_blocks > 0 && yk_checked_mul_u64(disk.f_bavail, disk.f_frsize, &available) && available < n_bytes)
    return yk_err_set(err, YK_E_IO, "%s: expected room for %" PRIu64 " bytes, found %" PRIu64 " free", dir, n_bytes,
                      available);
  return YK_OK;
}

static void shard_name(const yk_safetensors_writer *writer, size_t i, char out[64])
{
  if (writer->n_shards == 1)
    snprintf(out, 64, "%s", YK_SAFETENSORS_SINGLE);
  else
    snprintf(out, 64, "model-%05zu-of-%05zu.safetensors", i + 1, writer->n_shards);
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

static void append_header(const yk_safetensors_writer *writer, const shard *s, yk_strbuf *out)
{
  uint64_t begin = 0;
  yk_strbuf_append_str(out, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (size_t i = s->first; i < s->first + s->n_tensors; i++) {
    const yk_tensor *tensor = &writer->tensors[i];
    uint64_t end = begin + bytes_of(tensor);
    yk_strbuf_append_str(out, ",");
    yk_json_append_string(out, tensor->name, strlen(tensor->name));
    yk_strbuf_append_fmt(out, ":{\"dtype\":\"%s\",\"shape\":[", yk_tensor_dtype_name(tensor->dtype));
    for (int32_t d = 0; d < tensor->n_dims; d++)
      yk_strbuf_append_fmt(out, "%s%" PRId64, d ? "," : "", tensor->shape[d]);
    yk_strbuf_append_fmt(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
    begin = end;
  }
  yk_strbuf_append_str(out, "}");
  while (out->length % HEADER_ALIGNMENT != 0 && !out->failed) yk_strbuf_append_str(out, " ");
}

static yk_status write_header(const yk_safetensors_writer *writer, shard *s, const yk_strbuf *text, yk_err *err)
{
  uint8_t length[YK_SAFETENSORS_LENGTH_BYTES];
  if (text->failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a header", writer->dir);
  if (text->length > YK_SAFETENSORS_HEADER_MAX_BYTES)
    return yk_err_set(err, YK_E_CAPACITY, "%s: header of %zu bytes, expected at most %d", s->file.path, text->length,
                      YK_SAFETENSORS_HEADER_MAX_BYTES);
  for (int i = 0; i < YK_SAFETENSORS_LENGTH_BYTES; i++) length[i] = (uint8_t)((uint64_t)text->length >> 8 * i);
  YK_TRY(yk_file_part_write(&s->file, length, sizeof length, err));
  return yk_file_part_write(&s->file, text->data, text->length, err);
}

static yk_status begin_shard(yk_safetensors_writer *writer, yk_err *err)
{
  shard *s = &writer->shards[writer->shard];
  char name[64], path[YK_PATH_BYTES];
  shard_name(writer, writer->shard, name);
  YK_TRY(yk_dir_path(writer->dir, name, path, err));
  YK_TRY(yk_file_part_open(path, &s->file, err));
  yk_strbuf text = YK_STRBUF_INIT;
  append_header(writer, s, &text);
  yk_status status = write_header(writer, s, &text, err);
  yk_strbuf_free(&text);
  return status;
}

/* ---- Data -------------------------------------------------------------------------------------------------------- */

/* Move to the next tensor with data, and to its file. */
static yk_status advance(yk_safetensors_writer *writer, yk_err *err)
{
  while (writer->tensor < writer->n_tensors && writer->position == bytes_of(&writer->tensors[writer->tensor])) {
    writer->tensor++;
    writer->position = 0;
    const shard *s = &writer->shards[writer->shard];
    if (writer->tensor < s->first + s->n_tensors || writer->tensor == writer->n_tensors) continue;
    YK_TRY(yk_file_part_sync(&writer->shards[writer->shard].file, err));
    writer->shard++;
    YK_TRY(begin_shard(writer, err));
  }
  return YK_OK;
}

yk_status yk_safetensors_writer_put(yk_safetensors_writer *writer, const void *bytes, size_t n_bytes, yk_err *err)
{
  if (n_bytes == 0) return YK_OK;
  if (writer->tensor == writer->n_tensors)
    return yk_err_set(err, YK_E_INVAL, "%s: expected no more data, found %zu bytes", writer->dir, n_bytes);
  const yk_tensor *tensor = &writer->tensors[writer->tensor];
  uint64_t rest = bytes_of(tensor) - writer->position;
  if (n_bytes > rest)
    return yk_err_set(err, YK_E_INVAL, "tensor %s: expected at most %" PRIu64 " more bytes, found %zu", tensor->name,
                      rest, n_bytes);
  YK_TRY(yk_file_part_write(&writer->shards[writer->shard].file, bytes, n_bytes, err));
  writer->position += n_bytes;
  return advance(writer, err);
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static yk_status begin(yk_safetensors_writer *writer, int64_t shard_bytes, yk_err *err)
{
  YK_TRY(check_list(writer, err));
  YK_TRY(check_dir(writer->dir, writer->total_bytes, err));
  cut(writer, (uint64_t)shard_bytes);
  YK_TRY(begin_shard(writer, err));
  return advance(writer, err);
}

yk_status yk_safetensors_writer_open(const char *dir, const yk_tensor *tensors, size_t n_tensors, int64_t shard_bytes,
                                     yk_safetensors_writer **out, yk_err *err)
{
  if (shard_bytes < 1)
    return yk_err_set(err, YK_E_INVAL, "shard size: expected at least 1 byte, found %" PRId64, shard_bytes);
  yk_safetensors_writer *writer = calloc(1, sizeof *writer);
  if (!writer) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", dir);
  writer->tensors = tensors;
  writer->n_tensors = n_tensors;
  writer->dir = strdup(dir);
  writer->by_name = calloc(n_tensors + 1, sizeof *writer->by_name);
  writer->shards = calloc(n_tensors + 1, sizeof *writer->shards);
  yk_status status = YK_OK;
  if (writer->dir && writer->by_name && writer->shards)
    status = begin(writer, shard_bytes, err);
  else
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a table of %zu tensors", dir, n_tensors);
  if (status == YK_OK)
    *out = writer;
  else
    yk_safetensors_writer_close(writer);
  return status;
}

static const shard *shard_of(const yk_safetensors_writer *writer, const yk_tensor *tensor)
{
  const shard *s = writer->shards;
  while ((size_t)(tensor - writer->tensors) >= s->first + s->n_tensors) s++;
  return s;
}

/* As transformers writes the index: sorted keys, indented by two spaces. */
static yk_status write_index(const yk_safetensors_writer *writer, yk_err *err)
{
  char path[YK_PATH_BYTES], name[64];
  YK_TRY(yk_dir_path(writer->dir, YK_SAFETENSORS_INDEX, path, err));
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                       writer->total_bytes);
  for (size_t i = 0; i < writer->n_tensors; i++) {
    const yk_tensor *tensor = writer->by_name[i];
    shard_name(writer, (size_t)(shard_of(writer, tensor) - writer->shards), name);
    yk_strbuf_append_str(&text, i ? ",\n    " : "\n    ");
    yk_json_append_string(&text, tensor->name, strlen(tensor->name));
    yk_strbuf_append_fmt(&text, ": \"%s\"", name);
  }
  yk_strbuf_append_str(&text, "\n  }\n}\n");
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", path)
                                 : yk_file_replace(path, text.data, text.length, err);
  yk_strbuf_free(&text);
  return status;
}

yk_status yk_safetensors_writer_finish(yk_safetensors_writer *writer, yk_err *err)
{
  if (writer->tensor < writer->n_tensors) {
    const yk_tensor *tensor = &writer->tensors[writer->tensor];
    return yk_err_set(err, YK_E_INVAL, "tensor %s: expected %" PRIu64 " bytes, found %" PRIu64, tensor->name,
                      bytes_of(tensor), writer->position);
  }
  YK_TRY(yk_file_part_sync(&writer->shards[writer->shard].file, err));
  for (size_t i = 0; i < writer->n_shards; i++) YK_TRY(yk_file_part_rename(&writer->shards[i].file, err));
  if (writer->n_shards > 1) YK_TRY(write_index(writer, err));
  writer->is_finished = true; /* all files are complete; only a power loss could still undo the renames */
  return yk_dir_sync(writer->dir, err);
}

void yk_safetensors_writer_close(yk_safetensors_writer *writer)
{
  if (!writer) return;
  for (size_t i = 0; i < writer->n_shards; i++) {
    yk_file_part *file = &writer->shards[i].file;
    if (file->is_renamed && !writer->is_finished) unlink(file->path);
    yk_file_part_free(file);
  }
  free(writer->dir);
  free(writer->by_name);
  free(writer->shards);
  free(writer);
}
