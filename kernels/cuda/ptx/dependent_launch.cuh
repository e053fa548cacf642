/* dependent_launch.cuh - programmatic dependent launch: a kernel starts before the one before it in the stream has
 * ended (compute capability 9.0). ARCHITECTURE.md has the rules: above all, what a kernel may read before
 * griddepcontrol.wait. */
#ifndef YK_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_CUH
#define YK_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_CUH

#include <cuda_runtime.h>

namespace yk_ptx {

/* griddepcontrol.wait: returns when the kernel before has ended and all that it wrote can be read. Ahead of reading
 * or writing anything that a kernel of the same step writes. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* griddepcontrol.launch_dependents: the kernel after this one may start where there is room, once every block has
 * said so or ended. It waits for the end of this kernel before it uses what this kernel writes. */
__device__ __forceinline__ void let_next_kernel_start()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct launch_shape {
  dim3 grid; /* thread blocks, of all clusters */
  int threads;
  size_t shared_bytes; /* dynamic */
  int cluster;         /* thread blocks of a cluster, along x */
};

/* Whether what the current GPU runs of a kernel is code for 9.0 or later: a newer GPU may run what was compiled for
 * an older one. */
inline cudaError_t has_code_for_90(const void *kernel, bool *yes)
{
  cudaFuncAttributes code;
  const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
  *yes = error == cudaSuccess && code.ptxVersion >= 90;
  return error;
}

/* Launch a kernel that begins with wait_for_previous_kernel. Only code for 9.0 and later waits: elsewhere the kernel
 * starts when the one before has ended. */
inline cudaError_t launch_dependent(const void *kernel, const launch_shape &shape, cudaStream_t stream, void **args)
{
  bool waits;
  const cudaError_t error = has_code_for_90(kernel, &waits);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2] = {};
  unsigned n = 0;
  if (shape.cluster > 1) {
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[n].val.clusterDim.y = attributes[n].val.clusterDim.z = 1;
    n++;
  }
  if (waits) {
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
cudaError_t launch_dependent(void (*kernel)(Args...), const launch_shape &shape, cudaStream_t stream,
                             const typename same_type<Args>::type &...args)
{
  void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
  return launch_dependent(reinterpret_cast<const void *>(kernel), shape, stream, pointers);
}

} // namespace yk_ptx

#endif
