/* dependent_launch.cuh - programmatic dependent launch (PDL): a kernel may start before the previous kernel of the
 * stream has ended (compute capability 9.0).
 *
 * A kernel may read before griddepcontrol.wait only data that no earlier kernel of the step writes:
 *
 *   - its parameters, tensor maps among them;
 *   - weights, scales, zeros, biases, norm weights, matrices of adapters and the table of cosines and sines. They are
 *     written when the model or an adapter is loaded, and the stream is synchronised before the next step;
 *   - the step's description: token ids, positions, KV slots, row starts, KV lengths, block tables, sequences' slots,
 *     state loads and state saves, adapters of rows. They are copied to the device before the step's first kernel,
 *     which is not a dependent launch: it starts after the copies;
 *   - sampling parameters of rows: the host writes them to pinned memory before it launches the kernel;
 *   - results of a routing (starts of a grouped GEMM, slots and weights of choices), if a grouped GEMM has been
 *     launched since: it lets its successor start only after its own wait, so the data that it has read was complete by
 *     then. A GEMM that routes writes starts, then fences, and only then lets its successor start;
 *   - the inputs x of a GEMM whose call has next_reads_x (gemm/types.h), in the kernels after the GEMM: the GEMM lets
 *     its successor start only after its own wait (adapters/one_launch.cu; range_sums.cuh there writes memory, too);
 *   - recurrent states and snapshots: only the kernel itself writes them in a step, and the step before has ended
 *     (delta/delta.h); copies for forked sequences end before the step's first kernel starts;
 *   - cached tokens of earlier steps: their kernels, and copies of their blocks, ended before the step's first kernel
 *     started. A kernel must distinguish these tokens from those of the current step, since a sequence may read blocks
 *     that other sequences write in the same step. Decode of latent attention does so.
 *
 * A prefetch into the L2 cache is not a read: later writes of a kernel go through the same cache. A kernel may
 * therefore prefetch any data before the wait, such as pages of the KV cache.
 *
 * All other data, above all activations, the rest of the KV cache, workspaces and counters in global memory, may be
 * read or written only after the wait. Not only the previous kernel may still run: a kernel can let its successor start
 * before its own wait, so an early read may race with any earlier kernel of the step.
 *
 * One wait is sufficient: in every thread block of every dependent kernel at least one warp waits, so no kernel ends
 * before its predecessor has ended. Kernels end in order, and the end of the previous kernel means the end of all. A
 * warp that neither reads nor writes data written by the step's kernels need not wait itself. */
#ifndef YK_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_CUH
#define YK_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_CUH

#include <cuda_runtime.h>

namespace yk_ptx {

/* griddepcontrol.wait: returns when the previous kernel has ended and all its writes are visible. Returns at once if
 * the kernel was not launched as a dependent, and on every later call. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* griddepcontrol.launch_dependents: thread blocks of the next kernel may start, if resources are free, once every
 * thread block of this kernel has called this function or has ended. It does not order memory: the next kernel sees
 * this kernel's writes only after its own wait. */
__device__ __forceinline__ void let_next_kernel_start()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct launch_shape {
  dim3 grid;           /* thread blocks of all clusters together */
  int threads;         /* threads per thread block */
  size_t shared_bytes; /* dynamic shared memory of a thread block */
  int cluster;         /* thread blocks of a cluster, along x; 1: no clusters */
};

/* Whether the current GPU runs code of the kernel that was compiled for 9.0 or later. The GPU's compute capability is
 * not sufficient: a newer GPU may run PTX that was compiled for an older one. */
inline cudaError_t has_code_for_90(const void *kernel, bool *yes)
{
  cudaFuncAttributes code;
  const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
  *yes = error == cudaSuccess && code.ptxVersion >= 90;
  return error;
}

/* Give the kernel the largest shared memory carveout, and so the smallest L1 cache, as GEMMs have. A multiprocessor
 * changes its carveout only when it is empty, so a kernel with a different carveout could not start before the previous
 * kernel has left the multiprocessor, and would delay the next kernel in the same way. */
inline cudaError_t prefer_shared_memory(const void *kernel)
{
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
}

/* Launch a kernel that calls wait_for_previous_kernel, as a dependent of the previous kernel in the stream. In code for
 * less than 9.0 that call does nothing, so there the kernel is launched to start after the previous one has ended.
 * args: the addresses of the kernel's parameters. */
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

/* Keeps a function parameter from taking part in template argument deduction. */
template <typename T> struct same_type {
  using type = T;
};

/* The same for a kernel whose type is known; args are converted to the types of its parameters. */
template <typename... Args>
cudaError_t launch_dependent(void (*kernel)(Args...), const launch_shape &shape, cudaStream_t stream,
                             const typename same_type<Args>::type &...args)
{
  void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
  return launch_dependent(reinterpret_cast<const void *>(kernel), shape, stream, pointers);
}

} // namespace yk_ptx

#endif
