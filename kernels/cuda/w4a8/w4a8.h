/* w4a8.h - GEMM of 4-bit weights with x in 8-bit floats or integers (W4A8) on one GPU of compute capability 9.0:
 * y = x W (+ bias), or a gated activation of the result, for many rows.
 *
 *   x act --(yk_w4a8_quantise)--> x_q codes [m, k], s_x f32 [m] --+--> GEMM --> y act
 *   w --(yk_gemm_pack, at load)--> packed: 4 bits ----------------+
 *
 * The packed weights are those of the WNA16 GEMM (gemm/dense/dense.h), which multiplies few rows: one copy serves both.
 *
 *   code_weights.cuh  from packed words to codes
 *   quantise.cu       x to codes
 *   wgmma_kernel.cuh  the kernel
 *   wgmma.cu          tiles, plans and launch
 *
 * Numerics: x is rounded to scale * code, by the definitions of yk_linear_rounds_inputs: e4m3 has 4 significant bits,
 * integers have steps of 1/127 of the row's largest |x|. q - zero is exact. The tensor cores add the products of one
 * group of scales: integers exactly, e4m3 32 products at a time with about 14 bits of the largest. Groups are scaled
 * and added in float32, the sum is multiplied with the row's scale, and the result is rounded once. A row's scale is
 * that of the inputs on the rank. Results of equal calls are equal bit for bit. */
#ifndef YK_KERNELS_CUDA_W4A8_W4A8_H
#define YK_KERNELS_CUDA_W4A8_W4A8_H

#include "base/status.h"
#include "kernels/cuda/gemm/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

enum { YK_W4A8_SCALE_MULTIPLE = 64 /* scales of rows are readable up to a multiple of this number */ };

/* m * n from which on quantising x and this GEMM together are faster than the WNA16 GEMM, on an H200, about a tile of
 * 128 x 128 for each multiprocessor: 128 rows of gate and up of Qwen3-8B, 342 of q, k and v, 512 of o and of down. */
#define YK_W4A8_LEAST_RESULTS ((int64_t)1 << 21)

/* The type of the codes of x. */
typedef enum yk_w4a8_codes { YK_W4A8_FP8, YK_W4A8_INT8 } yk_w4a8_codes;

/* One call of a GEMM. All pointers are to device memory. */
typedef struct yk_w4a8_call {
  const void *packed; /* from yk_gemm_pack, 128-byte aligned */
  const void *bias;   /* [n] in desc.dtype, or NULL */
  yk_w4a8_codes codes;
  const uint8_t *x;      /* [m, k] from yk_w4a8_quantise, 16-byte aligned */
  const float *x_scales; /* [m, rounded up to YK_W4A8_SCALE_MULTIPLE] */
  void *y;               /* [m, n], or [m, n/2] with gates, in desc.dtype, 16-byte aligned */
  int64_t m;             /* rows, 0 or more */
  void *workspace;       /* yk_gemm_workspace_bytes, 256-byte aligned; shared with the WNA16 GEMM */
} yk_w4a8_call;

/* yk_w4a8_init - loads the kernels on the current GPU. gpu: from yk_gemm_gpu_init. No effect on a GPU without wgmma.
 *   Errors: YK_E_DEVICE. */
yk_status yk_w4a8_init(const yk_gemm_gpu *gpu, yk_err *err);

/* yk_w4a8_quantise - x_q and scales of m rows of x act [m, k], k a multiple of 32, 16-byte aligned. Inputs of x_q are
 *   in the order of code_position within each 16. A row with a NaN or an infinity has the scale NaN. Asynchronous, a
 *   dependent of the preceding kernel. Errors: YK_E_DEVICE. */
yk_status yk_w4a8_quantise(yk_dtype dtype, yk_w4a8_codes codes, const void *x, uint8_t *x_q, float *scales, int64_t m,
                           int64_t k, struct CUstream_st *stream, yk_err *err);

/* yk_w4a8_forward - desc: of YK_GEMM_INT4; gpu has wgmma. Asynchronous on the stream, a dependent of the preceding
 *   kernel; may be recorded in a graph. Errors: YK_E_DEVICE. */
yk_status yk_w4a8_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_w4a8_call *call,
                          struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
