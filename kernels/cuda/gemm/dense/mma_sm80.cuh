/* mma_sm80.cuh - host side of the WNA16 GEMM for compute capability 8.0 and later. Without plans: n_splits chooses the
 * split. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_MMA_SM80_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_MMA_SM80_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* Bytes of the partial sums of split-K: the maximum for 1 to m_max tokens; 0 if K is never split. */
size_t mma_sm80_workspace_bytes(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m_max);

/* Loads all kernels and allows them their dynamic shared memory, on the current device. */
cudaError_t mma_sm80_init();

/* yk_gemm_forward for a call of 1 or more tokens, whose arguments are checked. */
cudaError_t mma_sm80_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_gemm_call &call,
                             cudaStream_t stream);

} // namespace yk_gemm

#endif
