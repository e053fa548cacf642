/* sliced.cuh - host side of the WNA16 GEMM on 9.0 whose results do not depend on the number of tokens: its plans and
 * their launch.
 *
 * Numerics: K is desc.k_slices equal slices. A slice's sum is one chain of wgmma (16 inputs each, float32), in the
 * order of K; the sums of slices are added in float32 in a balanced binary tree:
 *
 *   ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
 *
 * A plan decides which thread block computes which slices, not the order of additions: a K range of a tile is an
 * aligned subtree. So are the inputs of one rank of 2, 4 or 8, if the slices are those of all ranks' inputs: such ranks
 * have float32 results, which the all-reduce adds as the upper levels of the tree. An element of the product of a wgmma
 * has the same bits for any tile N, and the same as by mma.sync, and so for every tile
 * (tests/op/test_op_cuda_linear.c, test_slices_of_inputs). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/common.cuh"

namespace yk_gemm {

/* The plan for m tokens, 1 or more, with the lowest estimated time: of PLAN_SLICED; or, for a single slice, of
 * PLAN_WGMMA without a split of K. Host arithmetic. A plan of PLAN_SLICED with slice_warps above 0 is of
 * sliced_mma_kernel.cuh, and its other fields are those of PLAN_SMALL_BATCH. */
yk_gemm_plan sliced_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m);

/* Bytes of the partial sums of any such GEMM. */
size_t sliced_workspace_bytes(const yk_gemm_gpu &gpu);

/* The kernels of tile number `tile` of SLICED_SHAPES. Defined in sliced_instances.cuh. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &sliced_kernels(int tile);

/* The same of SMALL_BATCH_SHAPES: kernels of tiles of 8 tokens. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &sliced_mma_kernels(int tile);

/* Loads all kernels and allows them their dynamic shared memory, for the current device. */
cudaError_t sliced_init();

/* yk_gemm_forward with a plan of sliced_plan; arguments have been checked. */
cudaError_t sliced_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                           const yk_gemm_call &call, cudaStream_t stream);

} // namespace yk_gemm

#endif
