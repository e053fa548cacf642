/* grouped_types.h - arguments of a grouped W8A8 GEMM: see grouped.h. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_TYPES_H
#define YK_KERNELS_CUDA_W8A8_GROUPED_TYPES_H

#include "kernels/cuda/w8a8/types.h"

/* One call of a grouped GEMM. All pointers are device memory. */
typedef struct yk_w8a8_grouped_call {
  const void *packed;    /* weights of matrix 0, 256-byte aligned */
  const float *bias;     /* [n] of matrix 0; or NULL */
  int64_t matrix_bytes;  /* distance between matrices, a multiple of 256, of weights and of biases */
  int32_t n_matrices;    /* 1 .. YK_GROUPED_MAX_MATRICES */
  const int8_t *x;       /* [max_slots, yk_w8a8_k_padded], 16-byte aligned; zeros past k */
  const float *x_scales; /* [max_slots], readable YK_W8A8_ROW_MULTIPLE beyond */
  const int32_t *starts; /* [n_matrices + 1] */
  int64_t max_slots;     /* maximum of starts[n_matrices] */
  void *y;               /* y_dtype [max_slots, n], or [max_slots, n/2] with gates */
  yk_dtype y_dtype;
  bool starts_are_settled; /* as in yk_grouped_call */
} yk_w8a8_grouped_call;

#endif
