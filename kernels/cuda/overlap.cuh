/* overlap.cuh - kernels that start before the one before them in the stream has ended (programmatic dependent launch,
 * compute capability 9.0). ARCHITECTURE.md has the rules. */
#ifndef YK_KERNELS_CUDA_OVERLAP_CUH
#define YK_KERNELS_CUDA_OVERLAP_CUH

#include <cuda_runtime.h>

namespace yk_cuda {

/* Wait for the kernel before: ahead of reading or writing anything that a kernel of the same step reads or writes. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Let the kernel after this one start where there is room; it waits for our end before it uses what we write. */
__device__ __forceinline__ void let_next_kernel_start()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct launch_shape {
  dim3 grid; /* blocks, of all clusters */
  int threads;
  size_t shared_bytes; /* dynamic */
  int cluster;         /* blocks of a cluster, along x */
};

/* Whether what the current GPU runs of a kernel is code for 9.0 or later: a newer GPU may run what was compiled for an older one. */
inline cudaError_t has_code_for_90(const void *kernel, bool *yes)
{
  cudaFuncAttributes code;
  const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
  *yes = error == cudaSuccess && code.ptxVersion >= 90;
  return error;
}

/* Launch a kernel that waits for the one before by itself, which only code for 9.0 and later does: elsewhere it starts when that
 * one has ended. */
inline cudaError_t launch_overlapped(const void *kernel, const launch_shape &shape, cudaStream_t stream, void **args)
{
  bool overlaps;
  const cudaError_t error = has_code_for_90(kernel, &overlaps);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2] = {};
  unsigned n = 0;
  if (shape.cluster > 1) {
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[n].val.clusterDim.y = attributes[n].val.clusterDim.z = 1;
    n++;
  }
  if (overlaps) {
    attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[n].val.programmaticStreamSerializationAllowed = 1;
    n++;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = n;
  return cudaLaunchKernelExC(&config, kernel, args);
}

template <typename T> struct same_type {
  using type = T;
};

template <typename... Args>
cudaError_t launch_overlapped(void (*kernel)(Args...), const launch_shape &shape, cudaStream_t stream,
                              const typename same_type<Args>::type &...args)
{
  void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
  return launch_overlapped(reinterpret_cast<const void *>(kernel), shape, stream, pointers);
}

} // namespace yk_cuda

#endif
