/* recurrent.cu - Mamba2 token by token: see mamba.h. */
#include "kernels/cuda/mamba/recurrent_kernel.cuh"

namespace yk_mamba {

namespace {

template <typename T, typename STATE>
cudaError_t launch_recurrent_with(const params &p, int32_t n_seqs, cudaStream_t stream)
{
  const auto kernel = recurrent_kernel<T, STATE>;
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  const yk_ptx::launch_shape shape = {dim3(p.n_heads, n_seqs), RECURRENT_THREADS, 0, 1};
  return yk_ptx::launch_dependent(kernel, shape, stream, p);
}

} // namespace

cudaError_t launch_recurrent(const params &p, yk_dtype dtype, bool in_registers, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return in_registers ? launch_recurrent_with<T, state_in_registers>(p, n_seqs, stream)
                        : launch_recurrent_with<T, state_in_memory>(p, n_seqs, stream);
  });
}

} // namespace yk_mamba
