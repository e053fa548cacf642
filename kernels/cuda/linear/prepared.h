/* prepared.h - a linear layer of the CUDA device, for the files that create, multiply and scale it. */
#ifndef YK_KERNELS_CUDA_LINEAR_PREPARED_H
#define YK_KERNELS_CUDA_LINEAR_PREPARED_H

#include "base/checked.h"
#include "kernels/cuda/layout/adapters.h"
#include "kernels/cuda/layout/layout.h"

enum {
  YK_CUDA_SCRATCH_ROWS = 512,   /* rows of a block whose results pass through the scratch: bounds its size */
  YK_CUDA_QUANTISED_ROWS = 4096 /* maximum rows of a block whose quantised inputs alone are in the scratch */
};

struct yk_linear {
  yk_cuda_linear_layout layout;
  void *plans[YK_MAX_LINEAR_PARTS]; /* plans of the GEMMs; NULL if the kind has none */
  int32_t n_matrices;
  bool f32_output, is_grouped;
  int32_t max_tokens;
  char *memory;       /* [n_matrices, matrix_bytes] */
  int32_t *next_tile; /* device: the counter of yk_cuda_grouped_call; NULL for a layer that is not grouped */
  yk_cuda_adapter_layout adapters;
  char *adapter_memory; /* yk_cuda_adapters_bytes; NULL without adapters */
  /* In a layer with adapters and an activation: the layer's one GEMM without bias and activation, whose result of act
   * is completed by the products of adapters (adapted.h), and the plan of this GEMM. kind NULL: none. */
  yk_cuda_gemm unfinished;
  void *unfinished_plan;
};

/* Rows of a block whose quantised inputs are in the scratch, for a kind with quantise. */
static inline int64_t yk_cuda_quantised_rows(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  int64_t fit = yk_max_i64(1, YK_CUDA_QUANTISED_BYTES / gemm->kind->quantised_bytes(gemm, 1));
  return yk_min_i64(linear->max_tokens, yk_min_i64(fit, YK_CUDA_QUANTISED_ROWS));
}

/* Rows of a block whose results may be in the scratch: for a kind with writes_in_place, and a layer's unfinished GEMM;
 * else as above. */
static inline int64_t yk_cuda_block_rows(const yk_linear *linear, const yk_cuda_gemm *gemm)
{
  if (gemm->kind->writes_in_place || gemm == &linear->unfinished)
    return yk_min_i64(linear->max_tokens, YK_CUDA_SCRATCH_ROWS);
  return yk_cuda_quantised_rows(linear, gemm);
}

#endif
