/* mma_sm80_tile.cuh - one tile of W8A8 GEMMs by mma.sync m16n8k32, for compute capability 8.0 and later.
 *
 *   block   64 rows (columns of W) by 64 tokens; each of its four warps has a panel of 16 rows
 *   loads   every thread, by cp.async into a ring of three stages of one K tile each: packed weights unchanged, and x
 *           in the same swizzle */
#ifndef YK_KERNELS_CUDA_W8A8_MMA_SM80_TILE_CUH
#define YK_KERNELS_CUDA_W8A8_MMA_SM80_TILE_CUH

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/w8a8/output.cuh"

namespace yk_w8a8 {

constexpr int MMA_THREADS = 128, MMA_STAGES = 3, MMA_ROWS = 64, MMA_TOKENS = 64;
constexpr int MMA_STAGE_BYTES = (MMA_ROWS + MMA_TOKENS) * TILE_K;

struct mma_params {
  const int8_t *packed, *x; /* packed: one matrix; x: all tokens */
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
  for (int i = threadIdx.x; i < MMA_ROWS * 8; i += MMA_THREADS) {
    const bool valid = row0 + i / 8 < p.out.n_rows;
    yk_ptx::cp_async_16(stage + i * 16, valid ? weights + i * 16 : p.packed, valid);
  }
  for (int i = threadIdx.x; i < MMA_TOKENS * 8; i += MMA_THREADS) {
    const int token = token0 + i / 8;
    const bool valid = token < p.out.m;
    const int8_t *from = valid ? p.x + token * row_bytes + k_tile * TILE_K + i % 8 * 16 : p.x;
    yk_ptx::cp_async_16(stage + MMA_ROWS * TILE_K + piece_at(i / 8, i % 8), from, valid);
  }
}

__device__ __forceinline__ void multiply_stage(uint32_t stage, int (&acc)[MMA_TOKENS / 8][4])
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < TILE_K / 32; step++) {
    uint32_t a[4];
    yk_ptx::ldmatrix_x4(a, stage + piece_at(warp * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
    for (int pair = 0; pair < MMA_TOKENS / 16; pair++) {
      uint32_t b[4];
      const int token = pair * 16 + lane / 16 * 8 + lane % 8;
      yk_ptx::ldmatrix_x4(b, stage + MMA_ROWS * TILE_K + piece_at(token, step * 2 + lane / 8 % 2));
      yk_ptx::mma_m16n8k32_s8(acc[pair * 2], a, b[0], b[1]);
      yk_ptx::mma_m16n8k32_s8(acc[pair * 2 + 1], a, b[2], b[3]);
    }
  }
}

/* The tile of rows row0 .. and tokens token0 .., within those of p.out. stages: shared memory of MMA_STAGES *
 * MMA_STAGE_BYTES. */
__device__ __forceinline__ void mma_tile(const mma_params &p, uint32_t stages, int row0, int token0)
{
  const int lane = threadIdx.x % 32;
  int acc[MMA_TOKENS / 8][4] = {};
  for (int i = 0; i < MMA_STAGES - 1; i++) {
    if (i < p.k_tiles) load_stage(p, stages + i * MMA_STAGE_BYTES, row0, token0, i);
    yk_ptx::cp_async_commit();
  }
  for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
    const int ahead = k_tile + MMA_STAGES - 1;
    yk_ptx::cp_async_wait<MMA_STAGES - 2>();
    __syncthreads();
    if (ahead < p.k_tiles) load_stage(p, stages + ahead % MMA_STAGES * MMA_STAGE_BYTES, row0, token0, ahead);
    yk_ptx::cp_async_commit();
    multiply_stage(stages + k_tile % MMA_STAGES * MMA_STAGE_BYTES, acc);
  }
  const int64_t row = row0 + threadIdx.x / 32 * 16;
  if (row >= p.out.n_rows) return;
  const row_terms rows[2] = {row_terms(p.out, row + lane / 4), row_terms(p.out, row + lane / 4 + 8)};
#pragma unroll
  for (int i = 0; i < MMA_TOKENS / 8; i++) write_fragment(p.out, row, token0 + i * 8, lane, rows, acc[i]);
}

} // namespace yk_w8a8

#endif
