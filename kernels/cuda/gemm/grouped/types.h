/* types.h - a call of a grouped GEMM: see grouped.h. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_TYPES_H
#define YK_KERNELS_CUDA_GEMM_GROUPED_TYPES_H

#include "kernels/cuda/gemm/types.h"
#include "kernels/experts.h"

enum {
  YK_GROUPED_MAX_MATRICES = 1024,
  YK_GROUPED_MAX_SLOTS = 1 << 20, /* a thread block lists the tiles of all slots in shared memory */
};

/* The product of some rows with one more weight, of the same encoding, type and groups: what a kernel does beside its
 * own. All pointers are device memory. */
typedef struct yk_grouped_shared_expert {
  const void *weights; /* packed, 128-byte aligned; NULL: there is none */
  const void *x;       /* [n_rows, k], 16-byte aligned */
  void *y;             /* [n_rows, n], or [n_rows, n/2] with gates; 16-byte aligned unless n_rows is 1 */
  int64_t k, n;
  int32_t n_rows;
} yk_grouped_shared_expert;

/* One call of a grouped GEMM. All pointers are device memory. */
typedef struct yk_grouped_call {
  const void *weights;        /* of matrix 0, 128-byte aligned: packed by yk_wna16_pack, or rows [n, k] of 16 bits */
  const void *bias;           /* [n] of matrix 0; or NULL */
  yk_dtype bias_dtype;        /* desc.dtype; of plain weights float32 too */
  int64_t matrix_bytes;       /* from a matrix to the next, a multiple of 128, of weights and of biases */
  int32_t n_matrices;         /* 1 .. YK_GROUPED_MAX_MATRICES */
  int32_t n_rows;             /* of x */
  const void *x;              /* [rows, k], 16-byte aligned */
  const int32_t *row_of_slot; /* NULL: the slot */
  const int32_t *starts;      /* [n_matrices + 1] */
  int64_t max_slots;          /* starts[n_matrices] at most; up to YK_GROUPED_MAX_SLOTS */
  void *y;                    /* [max_slots, n], or [max_slots, n/2] with gates, 16-byte aligned */
  bool second_half;           /* as in yk_wna16_call */
  /* starts may be read before the wait for the previous kernel of the stream: a grouped GEMM has been launched since
   * another kernel wrote them, or wrote them itself before it let its successor start (ptx/dependent_launch.cuh).
   * Weights are then asked for while the previous kernel still runs. */
  bool starts_are_settled;
  /* A counter that is zero, and that every call leaves so; calls that may run at once have one each. With it a thread
   * block takes an output tile when it is free, since multiprocessors get shares of the memory's rate that differ by a
   * fifth. NULL: tiles are dealt out in turn. */
  int32_t *next_tile;
  const yk_combine_args *combine;         /* of the slots y, for yk_wna16_grouped_combines; or NULL */
  yk_grouped_shared_expert shared_expert; /* for kernels that take it */
} yk_grouped_call;

#endif
