/* sliced_plain_wgmma.cuh - the GEMM of sliced_plain.h for many rows on 9.0, with the same bits: wgmma and mma.sync of
 * 16 inputs give the same bits. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_WGMMA_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_WGMMA_CUH

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/dense/plain_gemm.h"
#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* Whether the kernel takes the GEMM and is faster than mma.sync. */
bool sliced_plain_wgmma_takes(const yk_gemm_gpu &gpu, const yk_plain_gemm &gemm);

/* yk_sliced_plain_launch for a GEMM that sliced_plain_wgmma_takes; arguments have been checked. */
cudaError_t sliced_plain_wgmma_launch(const yk_gemm_gpu &gpu, const yk_plain_gemm &gemm, int k_slices,
                                      cudaStream_t stream);

} // namespace yk_gemm

#endif
