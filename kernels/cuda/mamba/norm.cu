/* norm.cu - gate and norm of sequences with many rows: a thread block has a group of one row. */
#include "kernels/cuda/mamba/norm_rows.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_mamba {

namespace {

constexpr int NORM_THREADS = 128;

template <typename T, bool GATED>
__global__ void __launch_bounds__(NORM_THREADS) norm_kernel(const __grid_constant__ params p)
{
  __shared__ float squares[NORM_THREADS / yk_cuda::WARP];
  const int64_t row = blockIdx.x;
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  const sequence rows = sequence::of(p, p.seq_of_row[row]);
  if (rows.is_long(p) && row < rows.end) store_group<T, NORM_THREADS, GATED>(p, row, blockIdx.y, squares);
}

} // namespace

cudaError_t launch_norm(const params &p, yk_dtype dtype, bool gates, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const yk_ptx::launch_shape shape = {dim3(p.n_tokens, p.layout.n_groups), NORM_THREADS, 0, 1};
    return gates ? yk_ptx::launch_dependent(norm_kernel<T, false>, shape, stream, p)
                 : yk_ptx::launch_dependent(norm_kernel<T, true>, shape, stream, p);
  });
}

} // namespace yk_mamba
