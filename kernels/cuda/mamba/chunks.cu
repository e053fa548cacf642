/* chunks.cu - Mamba2 with heads of 64 and states of 128 for sequences with many rows, by chunks: see mamba.h. */
#include "kernels/cuda/mamba/chunk_kernel.cuh"

namespace yk_mamba {

cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const auto kernel = chunk_kernel<T>;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(sizeof(chunk_shared<T>)));
    if (error == cudaSuccess) error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
    if (error != cudaSuccess) return error;
    const yk_ptx::launch_shape shape = {dim3(p.n_heads, n_seqs), CHUNK_THREADS, sizeof(chunk_shared<T>), 1};
    return yk_ptx::launch_dependent(kernel, shape, stream, p);
  });
}

} // namespace yk_mamba
