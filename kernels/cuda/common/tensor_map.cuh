/* tensor_map.cuh - tensor maps, with which TMA copies tiles of matrices: activations, weights, a cache. */
#ifndef YK_KERNELS_CUDA_COMMON_TENSOR_MAP_CUH
#define YK_KERNELS_CUDA_COMMON_TENSOR_MAP_CUH

#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <type_traits>

namespace yk_cuda {

/* A matrix of T (16-bit floats or int8) [rows, columns], rows `stride` elements apart, in boxes of 128 bytes of a row
 * by box_rows rows (1 to 256) with the 128-byte swizzle; zeros outside. base is 16-byte aligned, and stride a multiple
 * of 16 bytes. encode_tensor_map: cuTensorMapEncodeTiled.
 * Errors: cudaErrorInvalidValue if the driver refuses the map. Thread: any. */
template <typename T>
cudaError_t encode_matrix(void *encode_tensor_map, const void *base, int64_t columns, int64_t rows, int64_t stride,
                          int box_rows, CUtensorMap *map)
{
  constexpr CUtensorMapDataType TYPE = std::is_same<T, int8_t>::value   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                       : std::is_same<T, __half>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride) * sizeof(T)};
  const cuuint32_t box[2] = {128 / sizeof(T), static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode_tensor_map);
  const CUresult result =
      encode(map, TYPE, 2, const_cast<void *>(base), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace yk_cuda

#endif
