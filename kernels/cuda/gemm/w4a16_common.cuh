/* w4a16_common.cuh - small things that all kernels of the W4A16 GEMM and their host sides share. */
#ifndef YK_KERNELS_CUDA_GEMM_W4A16_COMMON_CUH
#define YK_KERNELS_CUDA_GEMM_W4A16_COMMON_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/w4a16_dequant.cuh"
#include "kernels/cuda/gemm/w4a16_heuristics.h"
#include "kernels/cuda/gemm/w4a16_layout.cuh"
#include "kernels/cuda/gemm/w4a16_types.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_gemm {

inline yk_status cuda_status(cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* __fdividef, since an exact division branches, in the middle of an epilogue. */
__device__ __forceinline__ float silu(float gate)
{
  return __fdividef(gate, 1.0f + __expf(-gate));
}

template <yk_dtype DTYPE> __device__ __forceinline__ float load_float(const void *array, int64_t i)
{
  if constexpr (DTYPE == YK_F16) return __half2float(static_cast<const __half *>(array)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(array)[i]);
}

/* Whether a tile that is compiled for such groups can run a GEMM. */
inline bool has_groups(scale_groups compiled, const yk_w4a16_desc &desc)
{
  return compiled == scale_groups::ANY || groups_per_k_tile(desc) == 1;
}

/* The compiled kernels of one tile, for 1, 2 and 4 groups of scales in a K tile; NULL where there is none. */
struct tile_kernels {
  const void *of_groups[3];

  const void *get(const yk_w4a16_desc &desc) const
  {
    return of_groups[groups_per_k_tile(desc) / 2];
  }
};

/* Launch clusters of so many thread blocks each, as a dependent of the kernel before. */
inline cudaError_t launch_clusters(const void *kernel, int64_t clusters, int64_t cluster, int threads, int shared_bytes,
                                   void **args, cudaStream_t stream)
{
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(clusters * cluster)), threads,
                                      static_cast<size_t>(shared_bytes), static_cast<int>(cluster)};
  return yk_ptx::launch_dependent(kernel, shape, stream, args);
}

} // namespace yk_gemm

#endif
