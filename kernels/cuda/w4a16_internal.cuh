/* w4a16_internal.cuh - what the files of the W4A16 products share. */
#ifndef YK_KERNELS_CUDA_W4A16_INTERNAL_CUH
#define YK_KERNELS_CUDA_W4A16_INTERNAL_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/w4a16.h"
#include "kernels/cuda/w4a16_dequant.cuh"
#include "kernels/cuda/w4a16_layout.cuh"

namespace w4a16 {

inline yk_status cuda_status(cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Columns of the result. */
inline int64_t n_outputs(const yk_w4a16_desc &desc)
{
  return desc.gate_up ? desc.n / 2 : desc.n;
}

/* __fdividef: an exact division branches, which took longer than the rest of writing the results. */
__device__ __forceinline__ float silu(float gate)
{
  return __fdividef(gate, 1.0f + __expf(-gate));
}

template <yk_dtype DTYPE> __device__ __forceinline__ float load_float(const void *array, int64_t i)
{
  if constexpr (DTYPE == YK_F16) return __half2float(static_cast<const __half *>(array)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(array)[i]);
}

/* Two floats rounded to a register of DTYPE, the first in the low half. */
template <yk_dtype DTYPE> __device__ __forceinline__ uint32_t round_pair(float low, float high)
{
  if constexpr (DTYPE == YK_F16) return bits_of(__floats2half2_rn(low, high));
  return bits_of(__floats2bfloat162_rn(low, high));
}

/* The mma.sync path. */
size_t mma_workspace_bytes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t mma_init();
cudaError_t mma_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                        cudaStream_t stream);

/* Few tokens on Hopper: no workspace. */
constexpr int DECODE_TOKENS = 8;
cudaError_t decode_init();
bool decode_takes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t decode_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                           cudaStream_t stream);

/* The wgmma path. */
size_t wgmma_workspace_bytes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t wgmma_init(yk_w4a16_gpu *gpu);
cudaError_t wgmma_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                          cudaStream_t stream);

} // namespace w4a16

#endif
