/* x_tensor_map.cuh - the tensor map of x for TMA tensor copies. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_X_TENSOR_MAP_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_X_TENSOR_MAP_CUH

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* x as [m, k], in boxes of 64 inputs by box_tokens tokens. */
inline cudaError_t encode_x(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_gemm_call &call, int box_tokens,
                            CUtensorMap *map)
{
  const auto encode = desc.dtype == YK_F16 ? yk_cuda::encode_matrix<__half> : yk_cuda::encode_matrix<__nv_bfloat16>;
  return encode(gpu.encode_tensor_map, call.x, desc.k, call.m, desc.k, box_tokens, map);
}

} // namespace yk_gemm

#endif
