/* grouped_mma_sm80.cu - grouped W8A8 GEMM for compute capability 8.0 and later. There are as many thread blocks as the
 * maximum number of tiles; those past the last tile end at once. */
#include "kernels/cuda/w8a8/grouped_params.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/grouped/types.h"
#include "kernels/cuda/w8a8/mma_sm80_tile.cuh"

namespace yk_w8a8 {
namespace {

constexpr int RING_BYTES = MMA_STAGES * MMA_STAGE_BYTES;

/* Matrix, first slot and end of the slots of a row tile. */
struct row_tile {
  int matrix, slot, end;
};

__global__ void __launch_bounds__(MMA_THREADS) grouped_mma_kernel(const __grid_constant__ grouped_params p)
{
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ row_tile own;
  const yk_gemm::grouped_table table = yk_gemm::grouped_table_at(shared + RING_BYTES, p.call.n_matrices);
  yk_ptx::wait_for_previous_kernel();
  if (threadIdx.x < 32) yk_gemm::build_grouped_table<MMA_TOKENS>(table, p.call.starts, p.call.n_matrices);
  __syncthreads();
  const int wanted = blockIdx.y;
  if (wanted >= table.size->y) return;
  for (int i = threadIdx.x; i < table.size->x; i += MMA_THREADS) {
    const yk_gemm::grouped_entry e = table.entries[i];
    if (wanted >= e.first_tile && wanted < table.entries[i + 1].first_tile)
      own = {e.matrix, e.first_slot + (wanted - e.first_tile) * MMA_TOKENS, e.end_slot};
  }
  __syncthreads();
  const mma_params of_matrix = {reinterpret_cast<const int8_t *>(p.weights_of(own.matrix)), p.call.x, p.k_tiles,
                                p.out_of(own.matrix, own.end)};
  mma_tile(of_matrix, yk_ptx::shared_address(shared), blockIdx.x * MMA_ROWS, own.slot);
}

} // namespace

cudaError_t grouped_mma_sm80_init()
{
  return cudaFuncSetAttribute(grouped_mma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              RING_BYTES + yk_gemm::grouped_table_bytes(YK_GROUPED_MAX_MATRICES));
}

cudaError_t grouped_mma_sm80_forward(const yk_w8a8_desc &desc, const grouped_params &params, cudaStream_t stream)
{
  const int64_t tiles = std::min(params.call.max_slots, params.call.n_matrices + params.call.max_slots / MMA_TOKENS);
  const dim3 grid(static_cast<unsigned>(yk_gemm::ceil_div(yk_w8a8_n_rows(&desc), MMA_ROWS)),
                  static_cast<unsigned>(tiles));
  const size_t bytes = RING_BYTES + yk_gemm::grouped_table_bytes(params.call.n_matrices);
  return yk_ptx::launch_dependent(grouped_mma_kernel, {grid, MMA_THREADS, bytes, 1}, stream, params);
}

} // namespace yk_w8a8
