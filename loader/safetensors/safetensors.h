/* safetensors.h - one safetensors file as a table of typed views, without copies.
 *
 * Layout: u64 little-endian header length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, then the data.
 * The whole table is checked when the file is opened: lengths, UTF-8, duplicate names, dtypes, shapes against sizes,
 * and that the tensors cover the data without hole or overlap. An opened file can be read without further checks.
 *
 * Data is not aligned: read elements with memcpy. Lost bytes of a file that shrinks while in use read as zeros
 * (base/mapped_file.h): call settle before using or writing values of its data. */
#ifndef YK_LOADER_SAFETENSORS_H
#define YK_LOADER_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { YK_TENSOR_MAX_DIMS = 8, YK_SAFETENSORS_LENGTH_BYTES = 8, YK_SAFETENSORS_HEADER_MAX_BYTES = 100000000 };

/* Names of the files in a directory: a single file, or the index of several. */
#define YK_SAFETENSORS_SINGLE "model.safetensors"
#define YK_SAFETENSORS_INDEX  "model.safetensors.index.json"

typedef enum yk_tensor_dtype {
  YK_TENSOR_BOOL,
  YK_TENSOR_F4,
  YK_TENSOR_F6_E2M3,
  YK_TENSOR_F6_E3M2,
  YK_TENSOR_U8,
  YK_TENSOR_I8,
  YK_TENSOR_F8_E5M2,
  YK_TENSOR_F8_E4M3,
  YK_TENSOR_F8_E8M0,
  YK_TENSOR_I16,
  YK_TENSOR_U16,
  YK_TENSOR_F16,
  YK_TENSOR_BF16,
  YK_TENSOR_I32,
  YK_TENSOR_U32,
  YK_TENSOR_F32,
  YK_TENSOR_I64,
  YK_TENSOR_U64,
  YK_TENSOR_F64,
  YK_TENSOR_C64
} yk_tensor_dtype;

typedef struct yk_tensor {
  const char *name; /* UTF-8, without NUL; owned by the file's table */
  yk_tensor_dtype dtype;
  int32_t n_dims; /* 0: a scalar */
  int64_t shape[YK_TENSOR_MAX_DIMS];
  const void *data; /* row-major, little-endian, possibly unaligned */
  uint64_t n_bytes;
  /* 0, as for every tensor of a file. Else the tensor is a view of a part of a transposed matrix: element (i, j) of its
   * two dimensions is element j * column_stride + i of data. */
  int64_t column_stride;
} yk_tensor;

typedef struct yk_safetensors yk_safetensors;

/* yk_safetensors_open - map a file read-only and check its table. Free with yk_safetensors_close.
 *   Errors: YK_E_IO (cannot open, not a regular file), YK_E_FORMAT naming file, tensor, expected and found, YK_E_NOMEM.
 *   Thread: any; afterwards the object is constant and any thread may read it. */
yk_status yk_safetensors_open(const char *path, yk_safetensors **out, yk_err *err);

/* yk_safetensors_parse - yk_safetensors_open for a file image in memory, which must outlive the object. name appears in
 *   errors. */
yk_status yk_safetensors_parse(const char *name, const void *bytes, uint64_t n_bytes, yk_safetensors **out,
                               yk_err *err);

/* yk_safetensors_settle - returns status; but YK_E_IO, with err naming the file, if the file was truncated or could not
 *   be read since it was opened. */
yk_status yk_safetensors_settle(const yk_safetensors *file, yk_status status, yk_err *err);

/* yk_safetensors_close - unmap and free; views into the file become invalid. NULL is allowed. */
void yk_safetensors_close(yk_safetensors *file);

/* The table, sorted by name. */
size_t yk_safetensors_count(const yk_safetensors *file);
const yk_tensor *yk_safetensors_at(const yk_safetensors *file, size_t i);

/* yk_tensor_dtype_name - the format's name: "F16", "I32", ... */
const char *yk_tensor_dtype_name(yk_tensor_dtype dtype);

/* yk_tensor_bytes - bytes for dtype and shape. False if the number is not a whole number below 2^61. */
bool yk_tensor_bytes(const yk_tensor *tensor, uint64_t *n_bytes);

#endif
