/* w8a8_mma_sm80.cu - W8A8 GEMM for compute capability 8.0 and later, by mma.sync m16n8k32.
 *
 *   block   64 rows (columns of W) by 64 tokens; each of its four warps has a panel of 16 rows
 *   loads   every thread, by cp.async into a ring of three stages of one K tile each: packed weights as they lie, and x
 *           in the same swizzle */
#include "kernels/cuda/w8a8/w8a8_mma_sm80.cuh"

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_w8a8 {
namespace {

constexpr int THREADS = 128, STAGES = 3, ROWS = 64, TOKENS = 64;
constexpr int STAGE_BYTES = (ROWS + TOKENS) * TILE_K;

struct mma_params {
  const int8_t *packed, *x;
  int k_tiles;
  output_params out;
};

__device__ __forceinline__ uint32_t piece_at(int row, int piece)
{
  return row * TILE_K + ((piece ^ (row % 8)) * 16);
}

__device__ __forceinline__ void load_stage(const mma_params &p, uint32_t stage, int row0, int token0, int k_tile)
{
  const int64_t row_bytes = static_cast<int64_t>(p.k_tiles) * TILE_K;
  const int8_t *weights = p.packed + (static_cast<int64_t>(k_tile) * p.out.n_rows + row0) * TILE_K;
  for (int i = threadIdx.x; i < ROWS * 8; i += THREADS) {
    const bool valid = row0 + i / 8 < p.out.n_rows;
    yk_ptx::cp_async_16(stage + i * 16, valid ? weights + i * 16 : p.packed, valid);
  }
  for (int i = threadIdx.x; i < TOKENS * 8; i += THREADS) {
    const int token = token0 + i / 8;
    const bool valid = token < p.out.m;
    const int8_t *from = valid ? p.x + token * row_bytes + k_tile * TILE_K + i % 8 * 16 : p.x;
    yk_ptx::cp_async_16(stage + ROWS * TILE_K + piece_at(i / 8, i % 8), from, valid);
  }
}

__device__ __forceinline__ void multiply_stage(uint32_t stage, int (&acc)[TOKENS / 8][4])
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < TILE_K / 32; step++) {
    uint32_t a[4];
    yk_ptx::ldmatrix_x4(a, stage + piece_at(warp * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
    for (int pair = 0; pair < TOKENS / 16; pair++) {
      uint32_t b[4];
      const int token = pair * 16 + lane / 16 * 8 + lane % 8;
      yk_ptx::ldmatrix_x4(b, stage + ROWS * TILE_K + piece_at(token, step * 2 + lane / 8 % 2));
      yk_ptx::mma_m16n8k32_s8(acc[pair * 2], a, b[0], b[1]);
      yk_ptx::mma_m16n8k32_s8(acc[pair * 2 + 1], a, b[2], b[3]);
    }
  }
}

__global__ void __launch_bounds__(THREADS) mma_kernel(const mma_params p)
{
  extern __shared__ __align__(128) uint8_t shared[];
  const uint32_t stages = yk_ptx::shared_address(shared);
  const int row0 = blockIdx.x * ROWS, token0 = blockIdx.y * TOKENS, lane = threadIdx.x % 32;
  int acc[TOKENS / 8][4] = {};
  yk_ptx::wait_for_previous_kernel();
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < p.k_tiles) load_stage(p, stages + i * STAGE_BYTES, row0, token0, i);
    yk_ptx::cp_async_commit();
  }
  for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
    const int ahead = k_tile + STAGES - 1;
    yk_ptx::cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (ahead < p.k_tiles) load_stage(p, stages + ahead % STAGES * STAGE_BYTES, row0, token0, ahead);
    yk_ptx::cp_async_commit();
    multiply_stage(stages + k_tile % STAGES * STAGE_BYTES, acc);
  }
  const int64_t row = row0 + threadIdx.x / 32 * 16;
  if (row >= p.out.n_rows) return;
  const row_terms rows[2] = {row_terms(p.out, row + lane / 4), row_terms(p.out, row + lane / 4 + 8)};
#pragma unroll
  for (int i = 0; i < TOKENS / 8; i++) write_fragment(p.out, row, token0 + i * 8, lane, rows, acc[i]);
}

} // namespace

cudaError_t mma_sm80_forward(const yk_w8a8_desc &desc, const yk_w8a8_call &call, const output_params &out,
                             cudaStream_t stream)
{
  const mma_params p = {static_cast<const int8_t *>(call.packed), call.x, static_cast<int>(yk_w8a8_n_k_tiles(desc.k)),
                        out};
  const dim3 grid(static_cast<unsigned>(yk_gemm::ceil_div(out.n_rows, ROWS)),
                  static_cast<unsigned>(yk_gemm::ceil_div(call.m, TOKENS)));
  return yk_ptx::launch_dependent(mma_kernel, {grid, THREADS, STAGES * STAGE_BYTES, 1}, stream, p);
}

} // namespace yk_w8a8
