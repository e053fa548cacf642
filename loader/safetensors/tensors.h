/* tensors.h - the tensors of one module, with their required types and shapes. Not for use outside the loader.
 */
#ifndef YK_LOADER_TENSORS_H
#define YK_LOADER_TENSORS_H

#include <stdbool.h>

#include "base/dtype.h"
#include "loader/safetensors/shards.h"

typedef enum yk_tensor_kind {
  YK_TENSORS_FLOAT,
  YK_TENSORS_I8,
  YK_TENSORS_U8,
  YK_TENSORS_I16,
  YK_TENSORS_I32,
  YK_TENSORS_I64,
  YK_TENSORS_FP8
} yk_tensor_kind;

/* A required tensor, MODULE.SUFFIX. FLOAT: float16, bfloat16 or float32; FP8: float8 e4m3fn. U8: bytes of any meaning,
 * including float8 e8m0. */
typedef struct yk_tensor_wish {
  const char *suffix;
  yk_tensor_kind kind;
  int32_t n_dims; /* 0 to 4 */
  int64_t shape[4];
} yk_tensor_wish;

/* yk_tensors_find - MODULE.SUFFIX, or NULL. file may be NULL. */
const yk_tensor *yk_tensors_find(const yk_shards *shards, const char *module, const char *suffix, const char **file);

/* yk_tensors_require - find a tensor and check its type and shape. float_dtype: receives the float type; NULL for the
 *   other kinds.
 *   Errors: YK_E_FORMAT naming file and tensor, expected and found. */
yk_status yk_tensors_require(const yk_shards *shards, const char *module, const yk_tensor_wish *wish,
                             yk_dtype *float_dtype, const yk_tensor **out, yk_err *err);

/* yk_tensors_is_zero - whether every byte of a tensor is 0; true for a tensor without elements. */
bool yk_tensors_is_zero(const yk_tensor *tensor);

/* yk_tensors_require_symmetric - check zero points of a symmetric configuration: the tensor is missing, or all its
 *   bytes are 0.
 *   Errors: YK_E_FORMAT naming file and tensor. */
yk_status yk_tensors_require_symmetric(const yk_shards *shards, const char *module, const char *suffix, yk_err *err);

#endif
