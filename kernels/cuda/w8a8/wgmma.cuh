/* wgmma.cuh - host side of the W8A8 GEMM on 9.0: plans and their launch. */
#ifndef YK_KERNELS_CUDA_W8A8_WGMMA_CUH
#define YK_KERNELS_CUDA_W8A8_WGMMA_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/w8a8/output.cuh"
#include "kernels/cuda/w8a8/tiles.h"
#include "kernels/cuda/w8a8/types.h"

namespace yk_w8a8 {

/* Fills in gpu.clusters_at_once. */
cudaError_t wgmma_init(yk_w8a8_gpu &gpu);

/* The plan with the least estimated time. */
gemm_plan wgmma_plan(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, int64_t m);

cudaError_t wgmma_forward(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, gemm_plan plan, const yk_w8a8_call &call,
                          const output_params &out, cudaStream_t stream);

} // namespace yk_w8a8

#endif
