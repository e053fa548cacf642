/* types.h - descriptions of a WNA16 GEMM: see dense/dense.h. */
#ifndef YK_KERNELS_CUDA_GEMM_TYPES_H
#define YK_KERNELS_CUDA_GEMM_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/cuda/gemm/encodings.h"

/* The family of kernels of a GEMM. AUTO: WGMMA on compute capability 9.0, MMA on any other from 8.0 on. */
typedef enum yk_gemm_path {
  YK_GEMM_AUTO,
  YK_GEMM_MMA,  /* mma.sync and cp.async: compute capability 8.0 and later */
  YK_GEMM_WGMMA /* the two kernels with bulk and tensor copies: compute capability 9.0 only */
} yk_gemm_path;

/* Thread blocks of the largest cluster that every GPU of 9.0 can run (CUDA's portable cluster size). */
enum { YK_GEMM_MOST_PEERS = 8 };

enum { YK_GEMM_MOST_SLICES = 8 };

/* Properties of the current GPU; filled once by yk_gemm_gpu_init. */
typedef struct yk_gemm_gpu {
  char name[64]; /* as the driver reports it: costs are fitted by GPU type */
  int n_multiprocessors;
  yk_gemm_path path;
  void *encode_tensor_map; /* driver entry point, NULL on the MMA path */
  /* clusters[s]: the number of clusters of s thread blocks that can run at once, for s from 2 on, each block on a
   * separate multiprocessor; 0 on the MMA path. A cluster lies within a group of multiprocessors (GPC), whose sizes
   * differ among GPUs of one kind. */
  int clusters[YK_GEMM_MOST_PEERS + 1];
} yk_gemm_gpu;

/* One GEMM on a rank. */
typedef struct yk_gemm_desc {
  int64_t k;                /* inputs, a multiple of 32 */
  int64_t n;                /* columns of W, a multiple of 8; with gates gate and up together, a multiple of 16 */
  int64_t group;            /* inputs that share a scale: a multiple of 32 (FP4: 16), or k and more for one group */
  yk_dtype dtype;           /* activations, bias and result: YK_F16 or YK_BF16 */
  yk_activation activation; /* gated or none; gated, columns [0, n/2) are gates, [n/2, n) ups, and y has n/2 */
  yk_gemm_encoding encoding;
  /* y is float32, with any stride, and there are neither bias nor activation: for INT8 with one group, or groups that
   * are multiples of 128 */
  bool f32_output;
  /* 0: a plan may divide K in any way. Else results do not depend on the number of tokens (dense/sliced.cuh): K is that
   * number of equal slices, a power of two up to YK_GEMM_MOST_SLICES, of whole K tiles. For INT4 on the WGMMA path;
   * y is float32 only without activation. */
  int k_slices;
} yk_gemm_desc;

/* A range of columns of AWQ "gemm" tensors in device memory. Local input i and local column j are row i of qweight and
 * column first_column + j, counted from the pointers; their group is row (k_phase + i) / group of qzeros and scales. */
typedef struct yk_gemm_source {
  const int32_t *qweight; /* [k, words_per_row], at the first input of the range */
  const int32_t *qzeros;  /* [groups, words_per_row], at the group of the first input */
  const void *scales;     /* [groups, 8 * words_per_row] */
  yk_dtype scales_dtype;  /* YK_F16 or YK_BF16 */
  int64_t words_per_row;  /* columns of the whole tensor / 8 */
  int64_t first_column;   /* need not be a multiple of 8 */
  int64_t group;          /* group of these tensors; desc.group divides it and k_phase, unless it covers all of k */
  int64_t k_phase;        /* inputs of the first group that precede the range */
} yk_gemm_source;

/* Rows of bytes in device memory, INT8, FP8, or a code of FP4 in each. Local input i and local column j are byte i of
 * row j; their group is (k_phase + i) / group, counted from the pointers. */
typedef struct yk_gemm_rows {
  const uint8_t *bytes; /* [n, row_bytes], at the first input of the range */
  const float *scales;  /* [n, n_groups], at the group of the first input */
  const float *zeros;   /* the same shape, or NULL: all 0 */
  int64_t row_bytes, n_groups;
  int64_t group, k_phase; /* as in yk_gemm_source */
} yk_gemm_rows;

/* A choice of kernel, tile and split of K. Meaning of the fields: plan_kernel of tiles.h; choice: dense/plan.h. */
typedef struct yk_gemm_plan {
  uint8_t kernel, tile, slice_warps, splits;
} yk_gemm_plan;

enum { YK_GEMM_ROW_BUCKETS = 59 }; /* buckets of dense/plan.cu's series, which is checked against this number */

/* The plans of one GEMM, for each bucket of row counts. */
typedef struct yk_gemm_plans {
  yk_gemm_plan of_bucket[YK_GEMM_ROW_BUCKETS];
} yk_gemm_plans;

/* One call of a GEMM. All pointers are to device memory. */
typedef struct yk_gemm_call {
  const void *packed; /* from yk_gemm_pack or yk_gemm_pack_rows, 128-byte aligned */
  const void *bias;   /* [n] in desc.dtype, or NULL */
  const void *x;      /* [m, k] in desc.dtype, 16-byte aligned */
  void *y;            /* [m, n], or [m, n/2] with gates, in desc.dtype, 16-byte aligned; must not alias x. With
                       * desc.f32_output: float32 [m, y_stride], of which n columns are written; 4-byte aligned */
  int64_t m;          /* tokens, 0 or more */
  void *workspace;    /* yk_gemm_workspace_bytes, 256-byte aligned */
  /* The half of each multiprocessor that the call takes, if its plan leaves the other half free: alternately false and
   * true for consecutive GEMMs on a stream. Results do not depend on it. */
  bool second_half;
  int64_t y_stride; /* with desc.f32_output: elements between rows of y */
  /* The next kernel reads x before its own griddepcontrol.wait: it may start only when x is complete. */
  bool next_reads_x;
  /* The next two only where yk_gemm_takes_norm and yk_gemm_takes_sum allow them, not both.
   * norm_w [k] in desc.dtype, 16-byte aligned, or NULL: rms_norm(x, norm_w) with norm_eps takes the place of x.
   * adds: y += alpha * (x W + bias), where x W + bias is rounded first. */
  const void *norm_w;
  float norm_eps;
  bool adds;
  float alpha;
} yk_gemm_call;

#endif
