/* recurrent.cu - gated delta nets with heads of 128, token by token, the state in shared memory: see delta.h. */
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/delta/recurrent_kernel.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

cudaError_t launch_recurrent(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    const auto kernel = recurrent_kernel<decltype(type)>;
    const void *const code = reinterpret_cast<const void *>(kernel);
    cudaError_t error = yk_ptx::prefer_shared_memory(code);
    if (error == cudaSuccess)
      error = cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(recurrent_shared));
    if (error != cudaSuccess) return error;
    const yk_ptx::launch_shape shape = {dim3(p.n_values, n_seqs), RECURRENT_THREADS, sizeof(recurrent_shared), 1};
    return yk_ptx::launch_dependent(kernel, shape, stream, p);
  });
}

} // namespace yk_delta
