/* wna16_small_batch.cuh - host side of the WNA16 GEMM of up to 32 tokens on 9.0: its plans and their launch. It needs
 * no workspace. */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_SMALL_BATCH_CUH
#define YK_KERNELS_CUDA_GEMM_WNA16_SMALL_BATCH_CUH

#include <vector>

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/wna16_common.cuh"
#include "kernels/cuda/gemm/wna16_heuristics.h"

namespace yk_gemm {

/* Appends the plans that can run m tokens. There is always one. */
void small_batch_plans(const yk_wna16_gpu &gpu, const yk_wna16_desc &desc, int64_t m,
                       std::vector<yk_wna16_plan> &plans);
double small_batch_us(const small_batch_costs &costs, const yk_wna16_gpu &gpu, const yk_wna16_desc &desc,
                      yk_wna16_plan plan);

cudaError_t small_batch_init();
cudaError_t small_batch_forward(const yk_wna16_gpu &gpu, const yk_wna16_desc &desc, yk_wna16_plan plan,
                                const yk_wna16_call &call, cudaStream_t stream);

} // namespace yk_gemm

#endif
