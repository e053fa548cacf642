#include "loader/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mapped_file.h"

struct yk_safetensors {
  yk_mapped_file *map; /* NULL if the caller owns the bytes */
  yk_json_doc *header; /* owns the names */
  yk_tensor *tensors;
  size_t n_tensors;
};

static const struct {
  const char *name;
  uint8_t bits;
} dtypes[] = {
    [YK_TENSOR_BOOL] = {"BOOL", 8},       [YK_TENSOR_F4] = {"F4", 4},           [YK_TENSOR_F6_E2M3] = {"F6_E2M3", 6},
    [YK_TENSOR_F6_E3M2] = {"F6_E3M2", 6}, [YK_TENSOR_U8] = {"U8", 8},           [YK_TENSOR_I8] = {"I8", 8},
    [YK_TENSOR_F8_E5M2] = {"F8_E5M2", 8}, [YK_TENSOR_F8_E4M3] = {"F8_E4M3", 8}, [YK_TENSOR_F8_E8M0] = {"F8_E8M0", 8},
    [YK_TENSOR_I16] = {"I16", 16},        [YK_TENSOR_U16] = {"U16", 16},        [YK_TENSOR_F16] = {"F16", 16},
    [YK_TENSOR_BF16] = {"BF16", 16},      [YK_TENSOR_I32] = {"I32", 32},        [YK_TENSOR_U32] = {"U32", 32},
    [YK_TENSOR_F32] = {"F32", 32},        [YK_TENSOR_I64] = {"I64", 64},        [YK_TENSOR_U64] = {"U64", 64},
    [YK_TENSOR_F64] = {"F64", 64},        [YK_TENSOR_C64] = {"C64", 64},
};

const char *yk_tensor_dtype_name(yk_tensor_dtype dtype)
{
  return dtypes[dtype].name;
}

static yk_status refuse_cut_short(const char *file, uint64_t found, uint64_t needed, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT, "%s: cut short: is %" PRIu64 " bytes, needs %" PRIu64 ": download it again", file,
                    found, needed);
}

/* While the table is checked, begin and end are used instead of tensor.data. */
typedef struct entry {
  yk_tensor tensor;
  uint64_t begin, end;
} entry;

static yk_status read_dtype(const char *file, yk_json info, yk_tensor *tensor, yk_err *err)
{
  const char *text = yk_json_string(yk_json_get(info, "dtype"));
  if (!text) return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: dtype: expected a string", file, tensor->name);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcmp(text, dtypes[i].name) != 0) continue;
    tensor->dtype = (yk_tensor_dtype)i;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: dtype \"%s\" is unknown", file, tensor->name, text);
}

static bool read_size(yk_json value, int64_t *out)
{
  return yk_json_is_integer(value) && yk_json_to_i64(value, out) && *out >= 0;
}

static yk_status read_shape(const char *file, yk_json info, yk_tensor *tensor, yk_err *err)
{
  yk_json shape = yk_json_get(info, "shape");
  if (!yk_json_is(shape, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: shape: expected an array, found %s", file, tensor->name,
                      yk_json_type_name(shape));
  size_t n_dims = yk_json_size(shape);
  if (n_dims > YK_TENSOR_MAX_DIMS)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected at most %d dimensions, found %zu", file, tensor->name,
                      YK_TENSOR_MAX_DIMS, n_dims);
  tensor->n_dims = (int32_t)n_dims;
  for (size_t i = 0; i < n_dims; i++) {
    yk_json size = yk_json_at(shape, i);
    if (!read_size(size, &tensor->shape[i]))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: shape[%zu]: expected an integer of at least 0", file,
                        tensor->name, i);
  }
  return YK_OK;
}

static yk_status read_offsets(const char *file, yk_json info, entry *out, yk_err *err)
{
  yk_json offsets = yk_json_get(info, "data_offsets");
  int64_t begin, end;
  if (yk_json_size(offsets) != 2 || !read_size(yk_json_at(offsets, 0), &begin) ||
      !read_size(yk_json_at(offsets, 1), &end))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: data_offsets: expected two integers of at least 0", file,
                      out->tensor.name);
  out->begin = (uint64_t)begin;
  out->end = (uint64_t)end;
  return YK_OK;
}

bool yk_tensor_bytes(const yk_tensor *tensor, uint64_t *n_bytes)
{
  uint64_t bits = dtypes[tensor->dtype].bits;
  for (int32_t i = 0; i < tensor->n_dims; i++)
    if (!yk_checked_mul_u64(bits, (uint64_t)tensor->shape[i], &bits)) return false;
  *n_bytes = bits / 8;
  return bits % 8 == 0;
}

static yk_status read_entry(const char *file, yk_json key, yk_json info, entry *out, yk_err *err)
{
  yk_tensor *tensor = &out->tensor;
  const char *name = tensor->name = yk_json_string(key);
  if (strlen(name) != yk_json_length(key))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected a name without NUL characters", file, name);
  if (!yk_json_is(info, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected an object, found %s", file, name,
                      yk_json_type_name(info));
  YK_TRY(read_dtype(file, info, tensor, err));
  YK_TRY(read_shape(file, info, tensor, err));
  return read_offsets(file, info, out, err);
}

static yk_status check_metadata(const char *file, yk_json metadata, yk_err *err)
{
  if (!yk_json_is(metadata, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: __metadata__: expected an object, found %s", file,
                      yk_json_type_name(metadata));
  YK_JSON_EACH_KEY(key, metadata)
  {
    yk_json value = yk_json_member(key);
    if (!yk_json_is(value, YK_JSON_STRING))
      return yk_err_set(err, YK_E_FORMAT, "%s: __metadata__ key \"%s\": expected a string, found %s", file,
                        yk_json_string(key), yk_json_type_name(value));
  }
  return YK_OK;
}

static int by_offset(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const yk_tensor *)a)->name, ((const yk_tensor *)b)->name);
}

/* Tensors in order of offset must cover [0, data_bytes) without hole or overlap, each with the size its shape needs. */
static yk_status check_layout(const char *file, entry *entries, size_t n, uint64_t data_begin, uint64_t data_bytes,
                              yk_err *err)
{
  qsort(entries, n, sizeof *entries, by_offset);
  uint64_t position = 0;
  for (size_t i = 0; i < n; i++) {
    const entry *e = &entries[i];
    const char *name = e->tensor.name;
    if (e->begin != position)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: tensor %s: expected to begin at offset %" PRIu64 ", found %" PRIu64 " (%s)", file, name,
                        position, e->begin, e->begin < position ? "overlap" : "hole");
    if (e->end < e->begin)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: tensor %s: expected to end at offset %" PRIu64 " or above, found %" PRIu64, file, name,
                        e->begin, e->end);
    uint64_t n_bytes;
    if (!yk_tensor_bytes(&e->tensor, &n_bytes))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected a shape of a whole number of bytes below 2^61", file,
                        name);
    if (n_bytes != e->end - e->begin)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: tensor %s: expected %" PRIu64 " bytes for its dtype and shape, found %" PRIu64, file, name,
                        n_bytes, e->end - e->begin);
    position = e->end;
  }
  if (position > data_bytes) return refuse_cut_short(file, data_begin + data_bytes, data_begin + position, err);
  if (position < data_bytes)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected %" PRIu64 " bytes of tensor data, found %" PRIu64, file, position,
                      data_bytes);
  return YK_OK;
}

static yk_status read_table(const char *file, yk_json header, const uint8_t *bytes, uint64_t data_begin,
                            uint64_t data_bytes, entry *entries, yk_safetensors *out, yk_err *err)
{
  size_t n = 0;
  YK_JSON_EACH_KEY(key, header)
  {
    if (yk_json_equals(key, "__metadata__"))
      YK_TRY(check_metadata(file, yk_json_member(key), err));
    else
      YK_TRY(read_entry(file, key, yk_json_member(key), &entries[n++], err));
  }
  YK_TRY(check_layout(file, entries, n, data_begin, data_bytes, err));
  for (size_t i = 0; i < n; i++) {
    out->tensors[i] = entries[i].tensor;
    out->tensors[i].data = bytes + data_begin + entries[i].begin;
    out->tensors[i].n_bytes = entries[i].end - entries[i].begin;
  }
  out->n_tensors = n;
  qsort(out->tensors, n, sizeof *out->tensors, by_name);
  return YK_OK;
}

/* Check the length field and parse the JSON text. */
static yk_status read_header(const char *file, const uint8_t *bytes, uint64_t n_bytes, yk_json_doc **header,
                             uint64_t *data_begin, yk_err *err)
{
  if (n_bytes < YK_SAFETENSORS_LENGTH_BYTES) return refuse_cut_short(file, n_bytes, YK_SAFETENSORS_LENGTH_BYTES, err);
  static const yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .unique_keys = true};
  uint64_t length = 0;
  YK_TRY(yk_file_refuse_lfs(file, bytes, n_bytes, "weights", err));
  for (int i = YK_SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
  if (length > YK_SAFETENSORS_HEADER_MAX_BYTES)
    return yk_err_set(err, YK_E_FORMAT, "%s: header of %" PRIu64 " bytes, expected at most %d", file, length,
                      YK_SAFETENSORS_HEADER_MAX_BYTES);
  if (length > n_bytes - YK_SAFETENSORS_LENGTH_BYTES)
    return refuse_cut_short(file, n_bytes, YK_SAFETENSORS_LENGTH_BYTES + length, err);
  YK_TRY(yk_json_parse(file, (const char *)bytes + YK_SAFETENSORS_LENGTH_BYTES, (size_t)length, &rules, header, err));
  *data_begin = YK_SAFETENSORS_LENGTH_BYTES + length;
  yk_json root = yk_json_root(*header);
  if (yk_json_is(root, YK_JSON_OBJECT)) return YK_OK;
  yk_err_set(err, YK_E_FORMAT, "%s: header: expected an object, found %s", file, yk_json_type_name(root));
  yk_json_free(*header);
  return YK_E_FORMAT;
}

yk_status yk_safetensors_parse(const char *name, const void *bytes, uint64_t n_bytes, yk_safetensors **out, yk_err *err)
{
  yk_json_doc *header;
  uint64_t data_begin;
  YK_TRY(read_header(name, bytes, n_bytes, &header, &data_begin, err));
  size_t n_entries = yk_json_size(yk_json_root(header));
  yk_safetensors *file = calloc(1, sizeof *file);
  entry *entries = calloc(n_entries + 1, sizeof *entries);
  yk_tensor *tensors = calloc(n_entries + 1, sizeof *tensors);
  yk_status status;
  if (file && entries && tensors) {
    file->header = header;
    file->tensors = tensors;
    status = read_table(name, yk_json_root(header), bytes, data_begin, n_bytes - data_begin, entries, file, err);
  } else {
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a table of %zu tensors", name, n_entries);
  }
  free(entries);
  if (status == YK_OK) {
    *out = file;
  } else {
    free(tensors);
    free(file);
    yk_json_free(header);
  }
  return status;
}

yk_status yk_safetensors_open(const char *path, yk_safetensors **out, yk_err *err)
{
  yk_mapped_file *map;
  yk_safetensors *file = NULL;
  YK_TRY(yk_mapped_file_open(path, &map, err));
  const char *slash = strrchr(path, '/'); /* messages omit the directory, which the caller has */
  yk_status status =
      yk_safetensors_parse(slash ? slash + 1 : path, yk_mapped_file_bytes(map), yk_mapped_file_size(map), &file, err);
  status = yk_mapped_file_settle(map, status, err);
  if (file) file->map = map;
  if (status == YK_OK)
    *out = file;
  else if (file)
    yk_safetensors_close(file);
  else
    yk_mapped_file_close(map);
  return status;
}

yk_status yk_safetensors_settle(const yk_safetensors *file, yk_status status, yk_err *err)
{
  return yk_mapped_file_settle(file->map, status, err);
}

void yk_safetensors_close(yk_safetensors *file)
{
  if (!file) return;
  yk_mapped_file_close(file->map);
  yk_json_free(file->header);
  free(file->tensors);
  free(file);
}

size_t yk_safetensors_count(const yk_safetensors *file)
{
  return file->n_tensors;
}

const yk_tensor *yk_safetensors_at(const yk_safetensors *file, size_t i)
{
  return &file->tensors[i];
}
