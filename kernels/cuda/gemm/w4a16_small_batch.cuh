/* w4a16_small_batch.cuh - host side of the W4A16 GEMM of up to 32 tokens on 9.0: its plans and their launch. It needs
 * no workspace. */
#ifndef YK_KERNELS_CUDA_GEMM_W4A16_SMALL_BATCH_CUH
#define YK_KERNELS_CUDA_GEMM_W4A16_SMALL_BATCH_CUH

#include <vector>

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/w4a16_common.cuh"
#include "kernels/cuda/gemm/w4a16_heuristics.h"

namespace yk_gemm {

/* Appends the plans that can run m tokens. There is always one. */
void small_batch_plans(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m,
                       std::vector<yk_w4a16_plan> &plans);
double small_batch_us(const small_batch_costs &costs, const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc,
                      yk_w4a16_plan plan);

cudaError_t small_batch_init();
cudaError_t small_batch_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, yk_w4a16_plan plan,
                                const yk_w4a16_call &call, cudaStream_t stream);

} // namespace yk_gemm

#endif
