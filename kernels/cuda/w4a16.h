/* w4a16.h - products of 16-bit activations with AWQ 4-bit weights on one GPU: y = x W (+ bias), optionally
 * SiLU(gate) * up.
 *
 * Weights are repacked once into the order in which the matrix instructions take them; that one copy serves every
 * number of tokens. w = scale * (q - zero) is rounded once to the activation type, or not at all (few tokens on Hopper,
 * where the scale is applied to a group's sum); sums are float32, the result is rounded once. The same call
 * gives the same bits every time: how K is split depends on the shapes and the number of multiprocessors alone, and
 * partial sums are added in a fixed order.
 *
 * Everything is asynchronous on the given stream and may be captured in a graph: nothing is allocated, nothing waits.
 * Any thread may call; calls that share a workspace must be ordered by one stream.                                   */
#ifndef YK_KERNELS_CUDA_W4A16_H
#define YK_KERNELS_CUDA_W4A16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* Which kernels a product may use. AUTO takes the best that the GPU has. */
typedef enum yk_w4a16_path {
  YK_W4A16_AUTO,
  YK_W4A16_MMA,  /* mma.sync: compute capability 8.0 and later */
  YK_W4A16_WGMMA /* wgmma and bulk copies: compute capability 9.0 only */
} yk_w4a16_path;

/* What the products need to know of the current GPU; filled once by yk_w4a16_gpu_init. */
typedef struct yk_w4a16_gpu {
  int n_multiprocessors;
  yk_w4a16_path path;
  void *encode_tensor_map; /* driver entry point, NULL on the MMA path */
} yk_w4a16_gpu;

/* One product as a rank sees it. */
typedef struct yk_w4a16_desc {
  int64_t k;      /* inputs, a multiple of 32 */
  int64_t n;      /* columns of weights, a multiple of 8; with gate_up gate and up together, a multiple of 16 */
  int64_t group;  /* inputs that share a scale: a multiple of 32, or k and more for one group */
  yk_dtype dtype; /* activations, bias and result: YK_F16 or YK_BF16 */
  bool gate_up;   /* columns [0, n/2) are gates, [n/2, n) ups; y = SiLU(gate) * up has n/2 columns */
} yk_w4a16_desc;

/* A column range of AWQ "gemm" tensors in device memory. Local input i, local column j are row i of qweight and column
 * first_column + j counted from the pointers; its group is row (k_phase + i) / group of qzeros and scales.            */
typedef struct yk_w4a16_source {
  const int32_t *qweight; /* [k, words_per_row], at the first input of the range */
  const int32_t *qzeros;  /* [groups, words_per_row], at the group that holds the first input */
  const void *scales;     /* [groups, 8 * words_per_row] */
  yk_dtype scales_dtype;  /* YK_F16 or YK_BF16 */
  int64_t words_per_row;  /* columns of the whole tensor / 8 */
  int64_t first_column;   /* need not be a multiple of 8 */
  int64_t group;          /* of these tensors; desc.group divides it and k_phase, unless it covers all of k */
  int64_t k_phase;        /* inputs of the first group that lie before the range */
} yk_w4a16_source;

/* One call of a product. */
typedef struct yk_w4a16_call {
  const void *packed; /* from yk_w4a16_pack, 128-byte aligned */
  const void *bias;   /* [n] in desc.dtype, or NULL */
  const void *x;      /* [m, k], 16-byte aligned */
  void *y;            /* [m, n], or [m, n/2] with gate_up, 16-byte aligned; must not alias x */
  int64_t m;          /* tokens, 0 or more */
  void *workspace;    /* yk_w4a16_workspace_bytes, 256-byte aligned */
  /* false and true by turns, for products that follow each other on a stream: only those of different turns share a
   * multiprocessor, so that the next begins early. Results do not depend on it. */
  bool turn;
} yk_w4a16_call;

/* yk_w4a16_gpu_init - read the current device's properties and load every kernel that forward may launch.
 *   path    YK_W4A16_AUTO, or a path to insist on.
 *   Errors  YK_E_UNSUPPORTED below compute capability 8.0 or where the path does not exist; YK_E_DEVICE.              */
yk_status yk_w4a16_gpu_init(yk_w4a16_gpu *gpu, yk_w4a16_path path, yk_err *err);

/* yk_w4a16_desc_check - YK_OK, or YK_E_INVAL naming the field that is outside its range. */
yk_status yk_w4a16_desc_check(const yk_w4a16_desc *desc, yk_err *err);

/* yk_w4a16_packed_bytes - device memory of the repacked weights of a valid desc. */
size_t yk_w4a16_packed_bytes(const yk_w4a16_desc *desc);

/* yk_w4a16_workspace_bytes - device memory that forward needs for 1 to m_max tokens. One workspace of the largest size
 *   serves all products of a stream. It must be zeroed once before its first use; forward leaves it ready for the next. */
size_t yk_w4a16_workspace_bytes(const yk_w4a16_gpu *gpu, const yk_w4a16_desc *desc, int64_t m_max);

/* yk_w4a16_pack - repack columns [first_column, first_column + n_columns) of desc from source, asynchronously.
 *   Both multiples of 8. Every column must be packed before the first forward; parts (q, k, v; gate, up) are packed by
 *   one call each, on one stream. The stream must be synchronised once before forward reads the result, since forward
 *   may start to load weights while the kernel before it still runs.
 *   Errors  YK_E_INVAL on shapes, YK_E_DEVICE when the launch failed.                                                 */
yk_status yk_w4a16_pack(const yk_w4a16_desc *desc, void *packed, const yk_w4a16_source *source, int64_t first_column,
                        int64_t n_columns, struct CUstream_st *stream, yk_err *err);

/* yk_w4a16_forward - y = x W (+ bias), or SiLU(gate) * up of it.
 *   Errors  YK_E_INVAL on shapes or alignment (y untouched), YK_E_DEVICE when the launch failed.                      */
yk_status yk_w4a16_forward(const yk_w4a16_gpu *gpu, const yk_w4a16_desc *desc, const yk_w4a16_call *call,
                           struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
