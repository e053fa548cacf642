/* single_row.cuh - host side of the grouped GEMM of one row with its combination (single_row_kernel.cuh).
 */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_SINGLE_ROW_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_SINGLE_ROW_CUH

#include "kernels/cuda/gemm/grouped/params.cuh"

namespace yk_gemm {

cudaError_t grouped_row_init();

/* grouped_row_takes - whether this kernel can run the call on 9.0: a combination of one row whose slots' x fits. */
bool grouped_row_takes(const yk_gemm_desc &desc, const yk_grouped_call &call);

/* grouped_row_forward - runs a call that grouped_row_takes accepts. params: of the call. */
cudaError_t grouped_row_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const grouped_params &params,
                                cudaStream_t stream);

} // namespace yk_gemm

#endif
