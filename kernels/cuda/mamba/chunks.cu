/* chunks.cu - Mamba2 with heads of 64 and states of 128 for sequences with many rows, by chunks: see mamba.h. */
#include "kernels/cuda/common/recurrent_launch.cuh"
#include "kernels/cuda/mamba/chunk_kernel.cuh"

namespace yk_mamba {

/* Two groups of warps share out a chunk's rows if every multiprocessor has at most one thread block. */
cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr size_t BYTES = sizeof(chunk_shared<T>);
    const dim3 grid(p.n_heads, n_seqs);
    bool fits;
    const cudaError_t error = yk_cuda::have_own_multiprocessors(static_cast<int64_t>(p.n_heads) * n_seqs, BYTES, &fits);
    if (error != cudaSuccess) return error;
    return fits ? yk_cuda::launch_shared(chunk_kernel<T, 2>, grid, 2 * CHUNK_THREADS, BYTES, stream, p)
                : yk_cuda::launch_shared(chunk_kernel<T, 1>, grid, CHUNK_THREADS, BYTES, stream, p);
  });
}

} // namespace yk_mamba
