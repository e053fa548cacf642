/* wna16_tensor_map.cuh - the tensor map by which TMA tensor copies find x. */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_TENSOR_MAP_CUH
#define YK_KERNELS_CUDA_GEMM_WNA16_TENSOR_MAP_CUH

#include <cuda.h>

#include "kernels/cuda/gemm/wna16_types.h"

namespace yk_gemm {

/* x as [m, k], in boxes of 64 inputs by box_tokens tokens with the 128-byte swizzle; zeros outside. False where the
 * driver refuses. */
inline bool encode_x(const yk_wna16_gpu &gpu, const yk_wna16_desc &desc, const yk_wna16_call &call, int box_tokens,
                     CUtensorMap *map)
{
  auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(gpu.encode_tensor_map);
  cuuint64_t sizes[2] = {static_cast<cuuint64_t>(desc.k), static_cast<cuuint64_t>(call.m)};
  cuuint64_t strides[1] = {static_cast<cuuint64_t>(desc.k) * 2};
  cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_tokens)}, steps[2] = {1, 1};
  return encode(map, desc.dtype == YK_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                const_cast<void *>(call.x), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace yk_gemm

#endif
