/* w8a8_wgmma.cuh - host side of the W8A8 GEMM on 9.0: plans and their launch. */
#ifndef YK_KERNELS_CUDA_W8A8_W8A8_WGMMA_CUH
#define YK_KERNELS_CUDA_W8A8_W8A8_WGMMA_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/w8a8/w8a8_output.cuh"
#include "kernels/cuda/w8a8/w8a8_tiles.h"
#include "kernels/cuda/w8a8/w8a8_types.h"

namespace yk_w8a8 {

cudaError_t wgmma_init();

/* Partial sums of any GEMM. */
size_t wgmma_workspace_bytes(const yk_wna16_gpu &gpu);

/* The plan with the least estimated time. */
gemm_plan wgmma_plan(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, int64_t m);

cudaError_t wgmma_forward(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, gemm_plan plan, const yk_w8a8_call &call,
                          const output_params &out, cudaStream_t stream);

} // namespace yk_w8a8

#endif
