/* common.cuh - small helpers of all kernels of the WNA16 GEMM and their host sides. */
#ifndef YK_KERNELS_CUDA_GEMM_COMMON_CUH
#define YK_KERNELS_CUDA_GEMM_COMMON_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/common/activation.cuh"
#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/gemm/encoding_fp4.cuh"
#include "kernels/cuda/gemm/encoding_fp8.cuh"
#include "kernels/cuda/gemm/encoding_int4.cuh"
#include "kernels/cuda/gemm/encoding_int8.cuh"
#include "kernels/cuda/gemm/packed_layout.cuh"
#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/gemm/types.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_gemm {

/* what: the step that the error message names. */
inline yk_status cuda_status(cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

using yk_cuda::ceil_div;

/* Element i of an array of DTYPE in global memory. */
template <yk_dtype DTYPE> __device__ __forceinline__ float load_float(const void *array, int64_t i)
{
  if constexpr (DTYPE == YK_F16) return __half2float(static_cast<const __half *>(array)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(array)[i]);
}

/* Whether the packed layout has a variant with this number of groups of scales in a K tile
 * (yk_gemm_groups_per_k_tile). */
__host__ __device__ constexpr bool has_groups(yk_gemm_encoding encoding, int groups)
{
  return yk_gemm_traits(encoding).layouts & groups;
}

/* Whether a kernel is compiled for a tile. SHAPE: small_batch_shape or wgmma_shape; groups: of scales in a K tile. */
template <typename SHAPE> constexpr bool is_compiled(const SHAPE &shape, yk_gemm_encoding encoding, int groups)
{
  scale_groups compiled = yk_gemm_traits(encoding).bits == 4 ? shape.int4_groups : shape.byte_groups;
  if (!has_groups(encoding, groups)) return false;
  const bool is_frequent = groups == 1 || encoding == YK_GEMM_FP4;
  return compiled == scale_groups::ANY || (compiled == scale_groups::FROM_128 && is_frequent);
}

/* The same for a given GEMM. */
template <typename SHAPE> inline bool can_run(const SHAPE &shape, const yk_gemm_desc &desc)
{
  return is_compiled(shape, desc.encoding, groups_per_k_tile(desc));
}

/* The row scales for rows lane/4 (x) and lane/4 + 8 (y) of a panel's accumulator fragment. */
__device__ __forceinline__ float2 load_row_scales(const float *row_scales, int panel, int lane)
{
  const float *at = row_scales + panel * PANEL_COLUMNS + lane / 4;
  return make_float2(__ldg(at), __ldg(at + 8));
}

/* Whether weights scaled in the fragment are exact. Else scales rather multiply a group's accumulators, where registers
 * allow it. */
__host__ __device__ constexpr bool scales_exactly(yk_gemm_encoding encoding)
{
  return encoding == YK_GEMM_FP4;
}

/* The scales of the group of a k16 step. words: the lane's of the block of scales. */
template <typename PANEL, yk_dtype DTYPE>
__device__ __forceinline__ void load_scales(dequant<PANEL::ENCODING, DTYPE> &scales, uint2 words, int step)
{
  if constexpr (PANEL::BLOCK_GROUPS == 1)
    scales.load(words);
  else
    scales.load(words, step / PANEL::GROUP_STEPS % PANEL::BLOCK_GROUPS);
}

/* The same from a panel in shared memory whose number of groups is a run-time value. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE>
__device__ __forceinline__ void load_scales(dequant<ENCODING, DTYPE> &scales, const uint8_t *panel, int step,
                                            int groups, int lane)
{
  constexpr int BLOCK_GROUPS = YK_GEMM_BLOCK_GROUPS(ENCODING), SCALES = YK_GEMM_PANEL_WEIGHT_BYTES(ENCODING);
  const int group = step * groups / K_STEPS;
  const uint8_t *from = panel + SCALES + group / BLOCK_GROUPS * SCALE_BLOCK_BYTES + lane / 4 * 8;
  const uint2 words = *reinterpret_cast<const uint2 *>(from);
  if constexpr (BLOCK_GROUPS == 1)
    scales.load(words);
  else
    scales.load(words, group % BLOCK_GROUPS);
}

/* Multiplies one panel's accumulators, of N8 groups of 8 tokens, with its row scales. */
template <int N8> __device__ __forceinline__ void scale_rows(float2 scales, float (&acc)[N8][4])
{
#pragma unroll
  for (int i = 0; i < N8 * 4; i++) acc[i / 4][i % 4] *= i % 4 < 2 ? scales.x : scales.y;
}

/* The compiled kernels of one tile, for 1, 2, 4 and 8 groups of scales in a K tile (entries 0 to 3); NULL if not
 * compiled. */
struct tile_kernels {
  const void *of_groups[4];

  const void *get(const yk_gemm_desc &desc) const
  {
    const int groups = groups_per_k_tile(desc);
    return of_groups[groups == 8 ? 3 : groups / 2];
  }
};

/* The types that kernels are compiled for: encoding of the weights, dtype of the activations, and whether y is float32
 * (dense GEMMs alone), else of that dtype. */
struct kernel_types {
  yk_gemm_encoding encoding;
  yk_dtype dtype;
  bool f32_output;
};
#define YK_BOTH_DTYPES(NAME, ...) {YK_GEMM_##NAME, YK_F16, false}, {YK_GEMM_##NAME, YK_BF16, false},
constexpr kernel_types ALL_KERNEL_TYPES[] = {YK_GEMM_ENCODINGS(YK_BOTH_DTYPES)};
constexpr kernel_types DENSE_KERNEL_TYPES[] = {YK_GEMM_ENCODINGS(YK_BOTH_DTYPES){YK_GEMM_INT8, YK_F16, true},
                                               {YK_GEMM_INT8, YK_BF16, true}};
#undef YK_BOTH_DTYPES

/* A kernel_types as a type, for template arguments. */
template <yk_gemm_encoding ENCODING_, yk_dtype DTYPE_, yk_dtype RESULT_ = DTYPE_> struct constant_types {
  static constexpr yk_gemm_encoding ENCODING = ENCODING_;
  static constexpr yk_dtype DTYPE = DTYPE_, RESULT = RESULT_; /* of the activations, of y */
};

/* Calls f with a value of the constant_types of a run-time encoding and dtype. */
template <typename F>
auto with_types(yk_gemm_encoding encoding, yk_dtype dtype, F f) -> decltype(f(constant_types<YK_GEMM_INT4, YK_F16>()))
{
  switch (encoding) {
#define YK_CASE(NAME, ...)                                                                                             \
  case YK_GEMM_##NAME:                                                                                                 \
    return dtype == YK_F16 ? f(constant_types<YK_GEMM_##NAME, YK_F16>()) : f(constant_types<YK_GEMM_##NAME, YK_BF16>());
    YK_GEMM_ENCODINGS(YK_CASE)
#undef YK_CASE
  case YK_GEMM_N_ENCODINGS: break;
  }
  return f(constant_types<YK_GEMM_INT4, YK_F16>()); /* unknown encoding: not reached */
}

/* The same for a dense GEMM. */
template <typename F>
auto with_types(const kernel_types &types, F f) -> decltype(f(constant_types<YK_GEMM_INT4, YK_F16>()))
{
  if (!types.f32_output) return with_types(types.encoding, types.dtype, f);
  return types.dtype == YK_F16 ? f(constant_types<YK_GEMM_INT8, YK_F16, YK_F32>())
                               : f(constant_types<YK_GEMM_INT8, YK_BF16, YK_F32>());
}

inline kernel_types types_of(const yk_gemm_desc &desc)
{
  return {desc.encoding, desc.dtype, desc.f32_output};
}

/* Launches `clusters` clusters of `cluster` thread blocks each (1: no clusters), as a dependent of the previous kernel
 * (programmatic dependent launch). threads, shared_bytes: of a thread block. */
inline cudaError_t launch_clusters(const void *kernel, int64_t clusters, int64_t cluster, int threads, int shared_bytes,
                                   void **args, cudaStream_t stream)
{
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(clusters * cluster)), threads,
                                      static_cast<size_t>(shared_bytes), static_cast<int>(cluster)};
  return yk_ptx::launch_dependent(kernel, shape, stream, args);
}

} // namespace yk_gemm

#endif
