/* quantize_plan.h - the decision, for each tensor of a checkpoint, whether it is quantised, copied or dropped. */
#ifndef YK_QUANTIZE_QUANTIZE_PLAN_H
#define YK_QUANTIZE_QUANTIZE_PLAN_H

#include "base/dtype.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "loader/safetensors/shards.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* A tensor, and the decision for it. */
typedef struct yk_planned_tensor {
  const yk_tensor *source;
  const char *file;           /* file that contains the tensor, and will contain its successors */
  char *module;               /* owned: the name without ".weight" or ".bias"; NULL for other endings */
  bool is_quantised, is_kept; /* a linear layer that becomes 4 bits, or stays unchanged */
} yk_planned_tensor;

typedef struct yk_quantize_plan {
  yk_json_doc *config; /* config.json */
  yk_shards *shards;
  yk_tensor *experts; /* [n_experts] layers of tensors that store all experts of a layer: see experts.h */
  size_t n_experts;
  yk_planned_tensor *tensors; /* [n_tensors] by file, and within a file in the file's order */
  size_t n_tensors;
  const char **quantised; /* [n_quantised] modules, in ascending order */
  const char **files;     /* [n_files] names, in ascending order */
  size_t n_files;
  yk_strbuf kept; /* the content of modules_to_not_convert, as JSON */
  int32_t group_size;
  int32_t n_quantised, n_kept; /* as in yk_quantize_report */
  int64_t total_bytes;
} yk_quantize_plan;

/* yk_quantize_plan_make - read configuration and headers and decide. Layers that stay unchanged because of their shapes
 *   or unknown names are logged. Free with yk_quantize_plan_free, also after an error.
 *   Errors: those of yk_quantize that occur before any weight is read. */
yk_status yk_quantize_plan_make(const yk_quantize_options *options, yk_quantize_plan *out, yk_err *err);
void yk_quantize_plan_free(yk_quantize_plan *plan);

/* yk_quantize_plan_has - whether a module is quantised. */
bool yk_quantize_plan_has(const yk_quantize_plan *plan, const char *module);

/* yk_quantize_dtype - the type of a tensor of 16- or 32-bit floats. */
static inline yk_dtype yk_quantize_dtype(const yk_tensor *tensor)
{
  return tensor->dtype == YK_TENSOR_F16 ? YK_F16 : tensor->dtype == YK_TENSOR_BF16 ? YK_BF16 : YK_F32;
}

/* yk_quantize_group - group size of a layer with k inputs. */
static inline int64_t yk_quantize_group(int32_t group_size, int64_t k)
{
  return group_size == -1 ? k : group_size;
}

#endif
