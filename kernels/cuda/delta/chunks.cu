/* chunks.cu - gated delta nets with heads of 128 for sequences with many rows, by chunks: see delta.h. */
#include <algorithm>

#include "kernels/cuda/delta/prepare_kernel.cuh"
#include "kernels/cuda/delta/walk_kernel.cuh"

namespace yk_delta {

namespace {

cudaError_t launch(void (*kernel)(params), dim3 grid, size_t shared_bytes, cudaStream_t stream, const params &p)
{
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error == cudaSuccess) error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, CHUNK_THREADS, shared_bytes, 1}, stream, p);
}

/* Two chunks in shared memory if every multiprocessor has at most one thread block; else two thread blocks of a
 * multiprocessor have one chunk each. */
cudaError_t has_two_stages(size_t bytes, int64_t n_blocks, bool *yes)
{
  int device = 0, n_multiprocessors = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  *yes = n_blocks <= n_multiprocessors && bytes <= static_cast<size_t>(most);
  return error;
}

template <typename T> cudaError_t launch_both(const params &p, int32_t n_seqs, cudaStream_t stream)
{
  const int n_heads = std::min<int>(p.layout.values_per_key, HEADS_AT_ONCE);
  const unsigned n_groups = static_cast<unsigned>((p.n_tokens + CHUNK - 1) / CHUNK);
  bool two;
  cudaError_t error = has_two_stages(sizeof(walk_shared<T, 2>), static_cast<int64_t>(p.n_values) * n_seqs, &two);
  if (error == cudaSuccess)
    error = launch(prepare_kernel<T>, dim3(p.layout.n_key_heads, n_groups), prepare_bytes<T>(n_heads), stream, p);
  if (error != cudaSuccess) return error;
  const dim3 grid(p.n_values, n_seqs);
  return two ? launch(walk_kernel<T, 2>, grid, sizeof(walk_shared<T, 2>), stream, p)
             : launch(walk_kernel<T, 1>, grid, sizeof(walk_shared<T, 1>), stream, p);
}

} // namespace

cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) { return launch_both<decltype(type)>(p, n_seqs, stream); });
}

} // namespace yk_delta
