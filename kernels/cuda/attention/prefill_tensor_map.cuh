/* prefill_tensor_map.cuh - the tensor maps by which kernels on Hopper copy pages of K and V. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_TENSOR_MAP_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_TENSOR_MAP_CUH

#include <cuda.h>
#include <type_traits>

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

/* A tensor map of K or V: rows of head_dim elements, one for each (KV block, KV head, token), loaded in boxes of one
 * page (16 rows) and 64 columns; columns past head_dim arrive as zeros. */
template <typename T>
cudaError_t encode_page_map(const yk_cuda_attention &device, const params &p, const void *base, CUtensorMap *map)
{
  const CUtensorMapDataType type =
      std::is_same<T, __half>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  /* The number of the cache's blocks is not available here: rows are unbounded, and block tables keep copies inside. */
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(p.heads.head_dim), 0x7fffffffu};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(p.heads.head_dim) * sizeof(T)};
  const cuuint32_t box[2] = {64, PAGE_TOKENS}, steps[2] = {1, 1};
  using encode_function =
      CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                   const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  const encode_function encode = reinterpret_cast<encode_function>(device.encode_tensor_map);
  const CUresult result =
      encode(map, type, 2, const_cast<void *>(base), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace yk_attn

#endif
