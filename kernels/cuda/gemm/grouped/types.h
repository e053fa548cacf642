/* types.h - a call of a grouped GEMM: see grouped.h. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_TYPES_H
#define YK_KERNELS_CUDA_GEMM_GROUPED_TYPES_H

#include "kernels/cuda/gemm/types.h"
#include "kernels/experts.h"

enum {
  YK_GROUPED_MAX_MATRICES = 1024,
  YK_GROUPED_MAX_SLOTS = 1 << 20, /* limit: a thread block lists the tiles of all slots in shared memory */
};

/* The product of some rows with one more weight, of the same encoding, type and groups, in the same kernel. All
 * pointers are device memory. */
typedef struct yk_grouped_shared_expert {
  const void *weights; /* packed, 128-byte aligned; NULL without one */
  const void *x;       /* [n_rows, k], 16-byte aligned */
  void *y;             /* [n_rows, n], or [n_rows, n/2] with gates; 16-byte aligned unless n_rows is 1 */
  int64_t k, n;
  int32_t n_rows;
} yk_grouped_shared_expert;

/* One call of a grouped GEMM. All pointers are device memory. */
typedef struct yk_grouped_call {
  /* weights of matrix 0, 128-byte aligned: packed by yk_gemm_pack, or rows [n, k] of 16 bits */
  const void *weights;
  const void *bias;           /* [n] of matrix 0; or NULL */
  yk_dtype bias_dtype;        /* desc.dtype; for plain weights also float32 */
  int64_t matrix_bytes;       /* distance between matrices, a multiple of 128, of weights and of biases */
  int32_t n_matrices;         /* 1 .. YK_GROUPED_MAX_MATRICES */
  int32_t n_rows;             /* rows of x */
  const void *x;              /* [rows, k], 16-byte aligned */
  const int32_t *row_of_slot; /* NULL: the slot number */
  const int32_t *starts;      /* [n_matrices + 1] */
  int64_t max_slots;          /* maximum of starts[n_matrices]; up to YK_GROUPED_MAX_SLOTS */
  void *y;                    /* [max_slots, n], or [max_slots, n/2] with gates, 16-byte aligned */
  bool second_half;           /* as in yk_gemm_call */
  /* starts may be read before the wait for the previous kernel of the stream: after the kernel that wrote them, a
   * grouped GEMM has been launched; or a grouped GEMM itself wrote them before it let its successor start
   * (ptx/dependent_launch.cuh). Copies of weights are then issued while the previous kernel still runs. */
  bool starts_are_settled;
  /* A counter that is zero, and that every call leaves at zero; calls that may run at once have separate counters. With
   * it a thread block takes an output tile when it is free, since multiprocessors get shares of the memory bandwidth
   * that differ by a fifth. NULL: tiles are assigned statically, round-robin. */
  int32_t *next_tile;
  const yk_combine_args *combine;         /* combination of the slots y, for yk_gemm_grouped_combines; or NULL */
  yk_grouped_shared_expert shared_expert; /* for kernels that take it */
} yk_grouped_call;

#endif
