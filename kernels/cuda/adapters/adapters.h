/* adapters.h - products of low-rank adapters on a GPU: y += scale * B (A x), where each row has any adapter, or none.
 * Matrices lie in memory as kernels/cuda/layout/adapters.h defines.
 *
 * Two launches for a linear layer:
 *
 *   shrink   products = A x of all parts, with one sum per K range of x; launched before the layer's GEMM, which
 *            prefetches its first weights meanwhile
 *   expand   adds the ranges in order, multiplies by B, adds to the GEMM's result; after the GEMM
 *
 * or, for up to 64 rows on a GPU of 9.0, one launch for both after the GEMM:
 *
 *   adapt    computes B (A x) while the GEMM runs, and adds the result to the GEMM's; thread blocks exchange the sums
 *            of K ranges through global memory
 *
 * Rows with the same adapter form tiles (row_tiles.cuh), so that a thread block reads a matrix once for all rows of a
 * tile. The device computes the tiles, so a recorded step serves any assignment of adapters to rows. A row's result
 * depends on the number of rows in the step, which determines the number of K ranges, but not on other rows.
 *
 * Numerics: the products of A x are exact and summed in float32; the sum is rounded to 11 bits (TF32) as an operand of
 * B; the rest is float32. All sums are in a fixed order.
 *
 * Launches are asynchronous on the stream; pointers are to device memory; act is float16 or bfloat16. Errors: those of
 * the launch. */
#ifndef YK_KERNELS_CUDA_ADAPTERS_ADAPTERS_H
#define YK_KERNELS_CUDA_ADAPTERS_ADAPTERS_H

#include <stdbool.h>

#include <cuda_runtime_api.h>

#include "base/dtype.h"
#include "kernels/activation.h"
#include "kernels/cuda/layout/adapters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The adapters of a layer in device memory, and the rows of a step. */
typedef struct yk_cuda_adapted_rows {
  const yk_cuda_adapter_layout *layout; /* host */
  const void *memory;                   /* device, yk_cuda_adapters_bytes */
  yk_dtype dtype;
  const int32_t *adapters; /* [n_rows] as in yk_linear_args, written before the step's first kernel */
  int64_t n_rows;
  float *products; /* of yk_cuda_adapter_product_floats; not used by yk_cuda_launch_adapt */
  void *exchange;  /* of yk_cuda_adapter_exchange_bytes, zeroed once; only yk_cuda_launch_adapt uses it */
  int32_t n_multiprocessors;
} yk_cuda_adapted_rows;

/* yk_cuda_launch_shrink - products = A x for every row with an adapter. x: act [n_rows, k]. */
cudaError_t yk_cuda_launch_shrink(const yk_cuda_adapted_rows *rows, const void *x, cudaStream_t stream);

/* The result of a GEMM, to which products are added. */
typedef struct yk_cuda_expand_args {
  int64_t first_row, n_rows; /* rows of src and y, a range of the step's rows */
  const void *src;           /* act [n_rows, src_stride]; may be y if the activation has no gate */
  void *y;                   /* act [n_rows, y_stride] */
  int64_t src_stride, y_stride;
  /* false: the products of the rows with an adapter are added to src = y. true: y = f(src + bias + products) for every
   * row, for a layer with an activation. */
  bool finishes;
  bool is_interleaved; /* of a gated activation: src has 8 gates, then their 8 ups; else all gates, then all ups */
  const void *bias;    /* [outputs of all parts], f32 or act, or NULL */
  yk_dtype bias_dtype;
  yk_activation activation;
} yk_cuda_expand_args;

/* yk_cuda_launch_expand - launched after yk_cuda_launch_shrink of the same rows, with at least one other kernel between
 * the two launches. */
cudaError_t yk_cuda_launch_expand(const yk_cuda_adapted_rows *rows, const yk_cuda_expand_args *args,
                                  cudaStream_t stream);

/* yk_cuda_adapts_in_one_launch - whether yk_cuda_launch_adapt takes steps of n_rows on the current device: up to 64
 *   rows, and padded ranks of all parts of up to 192 together. */
bool yk_cuda_adapts_in_one_launch(const yk_cuda_adapter_layout *layout, int64_t n_rows);

/* yk_cuda_launch_adapt - both products, after the layer's GEMM. x: as of yk_cuda_launch_shrink, complete before the
 *   first thread block of this kernel starts; the GEMM's call must set next_reads_x. args: of all rows of the step
 *   (first_row 0). */
cudaError_t yk_cuda_launch_adapt(const yk_cuda_adapted_rows *rows, const void *x, const yk_cuda_expand_args *args,
                                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
