/* mma_sm80.cuh - host side of the W8A8 GEMM for compute capability 8.0 and later. */
#ifndef YK_KERNELS_CUDA_W8A8_MMA_SM80_CUH
#define YK_KERNELS_CUDA_W8A8_MMA_SM80_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/w8a8/output.cuh"
#include "kernels/cuda/w8a8/types.h"

namespace yk_w8a8 {

cudaError_t mma_sm80_forward(const yk_w8a8_desc &desc, const yk_w8a8_call &call, const output_params &out,
                             cudaStream_t stream);

} // namespace yk_w8a8

#endif
