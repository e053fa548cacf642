/* dense.h - GEMM of 16-bit activations with weights of fewer bits on one GPU: y = x W (+ bias), or a gated activation
 * of the result. Weights are AWQ's 4-bit integers, 8-bit integers, or floats of 8 or 4 bits (yk_gemm_encoding): one
 * family of kernels, whose panels and dequantisation (encoding_*.cuh) are template parameters.
 *
 * All kernels compute the transpose: columns of W are the rows (tile M) of a matrix instruction's A operand, tokens are
 * the columns (tile N) of its B operand, and K is processed in tiles of 128 inputs (tile K). W is repacked once, at
 * load, into panels of 16 columns by 128 inputs in the order of the A operand's registers (packed_layout.cuh); one copy
 * serves every number of tokens.
 *
 *   tokens        GPU      kernel                   K is split over              partial sums are added in
 *   1 to 32       9.0      small_batch_kernel.cuh   warps (sliced-K), cluster    shared memory
 *   17 and more   9.0      wgmma_kernel.cuh         thread blocks (split-K,      global memory, as their own flags;
 *                                                   stream-K)                    in a cluster, shared memory
 *   any           8.0 on   mma_sm80.cu              thread blocks (split-K)      global memory, a second kernel
 *
 *   with desc.k_slices, slices of fixed size (sliced.cuh):
 *   1 to 8        9.0      sliced_mma_kernel.cuh    warps, cluster               shared memory, as a tree
 *   9 and more    9.0      sliced_kernel.cuh        thread blocks                global memory, as a tree
 *   9 and more    9.0      wgmma_kernel.cuh         not: for a single slice      -
 *
 * A thread block of the two kernels for 9.0:
 *
 *   weights in global memory                      x in global memory
 *     | bulk copies by producer warp 0,             | TMA tensor copies with 128-byte swizzle by
 *     | before and after griddepcontrol.wait        | producer warps 1 and 2, after the wait
 *     v                                             v
 *   +-- ring of stages in shared memory -----------------------------+
 *   |  a stage: panels of one K tile, and x of the same 128 inputs   | <-- the stage's "empty" mbarrier --+
 *   +----------------------------------------------------------------+                                    |
 *     | panels to registers                         | x by ldmatrix or descriptor                         |
 *     v                                             v                                                     |
 *   consumer warps: mma.sync or wgmma, accumulators in registers -----------------------------------------+
 *     |
 *     v
 *   partial sums of other warps and thread blocks, in fixed order
 *     |
 *     v
 *   epilogue: bias, activation, one rounding --> y
 *
 * Producers wait for a stage to be empty, consumers for it to be full; consumers of different warps or thread blocks
 * wait for each other only at the end of a tile, for partial sums. For few tokens the kernel of up to 32 can also
 * normalise x, or add to y (small_batch_fusions.cuh). The kernel, the tile and the split of K form a plan
 * (plan.h), chosen when a layer is created for each bucket of row counts. occupancy.cuh defines how much of a
 * multiprocessor a thread block takes; costs.h has all fitted constants.
 *
 * Numerics: w = scale * (q - zero) is rounded once to the activation type, or not at all (few tokens on 9.0, where the
 * scale is applied to a group's accumulators); accumulators are float32, the result is rounded once. Scales of 8-bit
 * weights are float32 and may be tiny: the accumulators of a row (column of W) are multiplied with the row's largest
 * scale, and the scales applied before are ratios to it. If a row has one scale, the ratio is 1 and weights are exact.
 * Scales of 4-bit floats have a factor for each row too, and few bits: weights are exact (encoding_fp4.cuh).
 * Float32 results (lm_head, 8-bit integers alone) are the accumulators times the row scales: no rounding, no bias, no
 * activation, rows of y at any distance.
 * With desc.k_slices a token's results have the same bits for any number of tokens, in the tree of sliced.cuh.
 * The same call gives the same bits every time on one GPU: a plan depends only on the shape, the number of
 * multiprocessors and the number of clusters that run at once, and partial sums are added in a fixed order.
 *
 * All functions are asynchronous on the given stream and may be captured in a graph: they neither allocate nor wait.
 * Any thread may call; calls that share a workspace must be ordered by one stream. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_DENSE_H
#define YK_KERNELS_CUDA_GEMM_DENSE_DENSE_H

#include <stddef.h>

#include "kernels/cuda/gemm/packed_sizes.h"
#include "kernels/cuda/gemm/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_gemm_gpu_init - reads the current device's properties and loads every kernel that forward may launch.
 *   path    YK_GEMM_AUTO, or a required path.
 *   Errors  YK_E_UNSUPPORTED below compute capability 8.0 or if the path does not exist; YK_E_DEVICE. */
yk_status yk_gemm_gpu_init(yk_gemm_gpu *gpu, yk_gemm_path path, yk_err *err);

/* yk_gemm_desc_check - returns YK_OK, or YK_E_INVAL naming the field that is outside its range. */
yk_status yk_gemm_desc_check(const yk_gemm_desc *desc, yk_err *err);

/* yk_gemm_workspace_bytes - device memory of forward for 1 to m_max tokens. One workspace of the largest size serves
 *   all GEMMs of a stream. It must be zeroed once before its first use; forward leaves it ready for the next call. */
size_t yk_gemm_workspace_bytes(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, int64_t m_max);

/* yk_gemm_plans_choose - the plans of a valid desc, for any number of tokens. Called once per layer; takes some 100 us
 *   on the host.
 *   half_tokens  for up to half_tokens tokens, plans that leave half of each multiprocessor free are preferred: a next
 *                kernel can do most of its work while the GEMM runs; 0 otherwise */
void yk_gemm_plans_choose(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, int64_t half_tokens, yk_gemm_plans *plans);

/* yk_gemm_pack - repacks columns [first_column, first_column + n_columns) of desc from source, asynchronously, into
 *   packed (device memory of yk_gemm_packed_bytes, of packed_sizes.h). first_column and n_columns are multiples of 8.
 *   Every column must be packed before the first forward; parts (q, k, v; gate, up) are packed by one call each, on one
 *   stream. The stream must be synchronised once before forward reads the result, since forward may start to load
 *   weights while the kernel before it still runs.
 *   Errors  YK_E_INVAL on shapes, YK_E_DEVICE when the launch failed. */
yk_status yk_gemm_pack(const yk_gemm_desc *desc, void *packed, const yk_gemm_source *source, int64_t first_column,
                       int64_t n_columns, struct CUstream_st *stream, yk_err *err);

/* yk_gemm_pack_rows - repacks rows of bytes, for the encodings INT8, FP8 and FP4.
 *   INT8, FP8: a scale is stored as the product of two factors: a row scale, the largest magnitude of the row's
 *   scales, as float32; and the ratio of the group's scale to the row scale, as float16 (INT8) or float32 (FP8). Zeros
 *   are rounded to multiples of 1/256 and clamped to -128 to 128 - 1/256.
 *   FP4: the row scale is the factor of which all scales of the row are multiples by numbers of 4 significant bits:
 *   exact for MXFP4, and for NVFP4 but for the rounding of float32. Other scales are rounded to 4 significant
 *   bits. Scales of less than 2^-29 times the row's largest become 0. */
yk_status yk_gemm_pack_rows(const yk_gemm_desc *desc, void *packed, const yk_gemm_rows *source, int64_t first_column,
                            int64_t n_columns, struct CUstream_st *stream, yk_err *err);

/* yk_gemm_takes_norm, yk_gemm_takes_sum - whether a call of m tokens with these plans may have norm_w, or adds. */
bool yk_gemm_takes_norm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans, int64_t m);
bool yk_gemm_takes_sum(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans, int64_t m);

/* yk_gemm_forward - y = x W (+ bias), or a gated activation of it.
 *   plans   of the same gpu and desc, from yk_gemm_plans_choose.
 *   Errors  YK_E_INVAL on shapes or alignment (y untouched), YK_E_DEVICE when the launch failed. */
yk_status yk_gemm_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans,
                          const yk_gemm_call *call, struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
