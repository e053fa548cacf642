/* wgmma.cuh - host side of the WNA16 GEMM of more than 16 tokens on 9.0: its plans and their launch. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_CUH

#include <vector>

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/dense/costs.h"

namespace yk_gemm {

/* Appends the plans that can run m tokens, 1 or more. Host arithmetic, as wgmma_us. */
void wgmma_plans(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, std::vector<yk_gemm_plan> &plans);

/* Estimated microseconds of a plan of wgmma_plans. */
double wgmma_us(const wgmma_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m,
                yk_gemm_plan plan);

/* Bytes of the partial sums of split-K and stream-K, enough for any GEMM and number of tokens. */
size_t wgmma_workspace_bytes(const yk_gemm_gpu &gpu);

/* The kernels of tile number `tile` of WGMMA_SHAPES. Defined in wgmma_instances.cuh. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT> const tile_kernels &wgmma_kernels(int tile);

/* Loads all kernels, allows them their dynamic shared memory, and fills in gpu->clusters, for the current device. */
cudaError_t wgmma_init(yk_gemm_gpu *gpu);

/* yk_gemm_forward with a plan of wgmma_plans; arguments have been checked. */
cudaError_t wgmma_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan, const yk_gemm_call &call,
                          cudaStream_t stream);

} // namespace yk_gemm

#endif
