/* chunks.cu - gated delta nets with heads of 128 for sequences with many rows, by chunks: see delta.h. */
#include <algorithm>

#include "kernels/cuda/common/recurrent_launch.cuh"
#include "kernels/cuda/delta/prepare_kernel.cuh"
#include "kernels/cuda/delta/walk_kernel.cuh"

namespace yk_delta {

namespace {

/* The walk has two chunks in shared memory if every multiprocessor has at most one thread block; else two thread blocks
 * of a multiprocessor have one chunk each. */
template <typename T> cudaError_t launch_both(const params &p, int32_t n_seqs, cudaStream_t stream)
{
  const int n_heads = std::min<int>(p.layout.values_per_key, HEADS_AT_ONCE);
  const dim3 groups(p.layout.n_key_heads, (p.n_tokens + CHUNK - 1) / CHUNK), grid(p.n_values, n_seqs);
  constexpr size_t ONE = sizeof(walk_shared<T, 1>), TWO = sizeof(walk_shared<T, 2>);
  bool has_two;
  cudaError_t error = yk_cuda::have_own_multiprocessors(static_cast<int64_t>(p.n_values) * n_seqs, TWO, &has_two);
  if (error == cudaSuccess)
    error = yk_cuda::launch_shared(prepare_kernel<T>, groups, CHUNK_THREADS, prepare_bytes<T>(n_heads), stream, p);
  if (error != cudaSuccess) return error;
  return has_two ? yk_cuda::launch_shared(walk_kernel<T, 2>, grid, CHUNK_THREADS, TWO, stream, p)
                 : yk_cuda::launch_shared(walk_kernel<T, 1>, grid, CHUNK_THREADS, ONE, stream, p);
}

} // namespace

cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) { return launch_both<decltype(type)>(p, n_seqs, stream); });
}

} // namespace yk_delta
