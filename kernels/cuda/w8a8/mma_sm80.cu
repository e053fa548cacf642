/* mma_sm80.cu - W8A8 GEMM for compute capability 8.0 and later: one thread block per tile. */
#include "kernels/cuda/w8a8/mma_sm80.cuh"

#include "kernels/cuda/w8a8/mma_sm80_tile.cuh"

namespace yk_w8a8 {
namespace {

__global__ void __launch_bounds__(MMA_THREADS) mma_kernel(const mma_params p)
{
  extern __shared__ __align__(128) uint8_t shared[];
  yk_ptx::wait_for_previous_kernel();
  mma_tile(p, yk_ptx::shared_address(shared), blockIdx.x * MMA_ROWS, blockIdx.y * MMA_TOKENS);
}

} // namespace

cudaError_t mma_sm80_forward(const yk_w8a8_desc &desc, const yk_w8a8_call &call, const output_params &out,
                             cudaStream_t stream)
{
  const mma_params p = {static_cast<const int8_t *>(call.packed), call.x, static_cast<int>(yk_w8a8_n_k_tiles(desc.k)),
                        out};
  const dim3 grid(static_cast<unsigned>(yk_gemm::ceil_div(out.n_rows, MMA_ROWS)),
                  static_cast<unsigned>(yk_gemm::ceil_div(call.m, MMA_TOKENS)));
  return yk_ptx::launch_dependent(mma_kernel, {grid, MMA_THREADS, MMA_STAGES * MMA_STAGE_BYTES, 1}, stream, p);
}

} // namespace yk_w8a8
