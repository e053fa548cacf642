/* w4a16_wgmma.cuh - products of more than 16 tokens on Hopper: one persistent kernel for any number.
 *
 * The problem is transposed: columns of W are the rows of wgmma's A operand, expanded in registers; tokens are the
 * columns of B, which wgmma reads from shared memory. Producer warps fill two rings of stages, each 128 inputs: of 64 R
 * columns of packed weights (a bulk copy), and of N tokens of x (tensor map, 128-byte swizzle, zeros past the edges); two or
 * three warpgroups consume them. Weights of the first stages are fetched before griddepcontrol.wait: they do not depend on
 * the kernel before.
 *
 * Work: tiles of 64 R columns by N tokens. Tiles that do not fill whole waves are cut along K into ranges, one a block.
 * Where each is a part of one tile, the blocks of a tile exchange partial sums and each finishes a share of its tokens.
 * Else the block that holds a tile's first inputs finishes it; the others' sums are ready by then, since a block works on
 * the tile that it does not finish first. All may wait for all, since all run at once: there are never more blocks than
 * multiprocessors, and the GPU places all blocks of a grid before any of the next, of other streams too.               */
#ifndef YK_KERNELS_CUDA_W4A16_WGMMA_CUH
#define YK_KERNELS_CUDA_W4A16_WGMMA_CUH

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/w4a16_multiply.cuh"
#include "kernels/cuda/w4a16_partial.cuh"

namespace w4a16 {

/* The producers are single lanes of warps, since each copy costs the warp that asks for it about 300 cycles: warp 0 fetches
 * the weights, the two after it a half of x each. */
constexpr int X_WARPS = 2;

/* Weights do not depend on the kernel before: the first stages are filled before that kernel has finished. */
template <int GROUPS, int R, int CLUSTER>
__device__ __forceinline__ void produce_weights(const wgmma_params &p, tile_ring r, int cluster, int rank)
{
  work w;
  int row_tile, token_tile;
  r.start_producing();
  for (work_list list(p, cluster); list.next(p, w);) {
    place_of_tile(p, w.tile, row_tile, token_tile);
    row_tile = row_tile * CLUSTER + rank;
    int unit = row_tile * R * TILE_UNITS, bytes = max(0, min(R * TILE_UNITS, p.units - unit)) * unit_bytes_of(GROUPS);
    int64_t k_tile_bytes = static_cast<int64_t>(p.units) * unit_bytes_of(GROUPS);
    const uint8_t *from = p.packed + w.first * k_tile_bytes + static_cast<int64_t>(unit) * unit_bytes_of(GROUPS);
#pragma unroll 1
    for (int k_tile = w.first; k_tile < w.last; k_tile++, from += k_tile_bytes) {
      mbarrier_wait_asm(r.empty(), r.at.phase);
      mbarrier_arrive_expect(r.full(), bytes);
      if (bytes > 0) bulk_copy(r.data(), from, bytes, r.full());
      r.advance();
    }
  }
}

/* x, all of a half or this block's share of it for both blocks of a cluster. */
template <int N, int CLUSTER>
__device__ __forceinline__ void produce_x(const CUtensorMap *map, const wgmma_params &p, tile_ring r, int cluster,
                                          int rank, int half)
{
  work w;
  int row_tile, token_tile;
  r.start_producing();
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (work_list list(p, cluster); list.next(p, w);) {
    place_of_tile(p, w.tile, row_tile, token_tile);
    int token = token_tile * N + rank * (N / CLUSTER), k = w.first * TILE_K + half * 64;
#pragma unroll 1
    for (int k_tile = w.first; k_tile < w.last; k_tile++, k += TILE_K) {
      mbarrier_wait_asm(r.empty(), r.at.phase);
      mbarrier_arrive_expect(r.full(), x_stage_bytes(N) / X_WARPS);
      uint32_t to = r.data() + half * N * 128 + rank * (N / CLUSTER) * 128;
      if constexpr (CLUSTER == 1)
        tensor_copy(to, map, k, token, r.full());
      else
        tensor_copy_to_both(to, map, k, token, r.full());
      r.advance();
    }
  }
}

/* Tokens of a warp's results that are turned through shared memory at a time. */
__host__ __device__ constexpr int staged_tokens(int tokens)
{
  return tokens == 64 || tokens == 128 ? 32 : tokens < 16 ? tokens : 16;
}

/* Bytes from token to token: 16 more than a row, against bank conflicts. */
__host__ __device__ constexpr int staging_pitch(int column_tiles)
{
  return column_tiles * 32 + 16;
}

/* Staging of one warp. */
__host__ __device__ constexpr int staging_bytes(int column_tiles, int tokens)
{
  return staged_tokens(tokens) * staging_pitch(column_tiles);
}

/* Results of a warp, 8 columns by 8 tokens a matrix, turned through shared memory into 16-byte pieces of rows of y.
 *   PIECES   8-column pieces a token: 2 C, or C with gate_up
 *   row0     packed row of the warp's first column
 *   own      the blocks of 8 tokens that are complete                                                                 */
template <yk_dtype DTYPE, int C, int N, bool GATE_UP>
__device__ __forceinline__ void write_results(const wgmma_params &p, uint32_t staging, int64_t row0, int token0,
                                              token_blocks own, int lane, const float (&sum)[C][N / 8][4])
{
  constexpr int PIECES = GATE_UP ? C : 2 * C, PITCH = staging_pitch(C), STAGED = staged_tokens(N);
  constexpr int ROWS = 32 / PIECES < STAGED ? 32 / PIECES : STAGED; /* tokens that the warp stores at once */
  int64_t width = GATE_UP ? p.n / 2 : p.n, column = (GATE_UP ? row0 / 2 : row0) + lane % PIECES * 8;
  float bias[C][2];
#pragma unroll
  for (int c = 0; c < C; c++) {
#pragma unroll
    for (int upper = 0; upper < 2; upper++) {
      int64_t at = column_of_row(row0 + c * 16 + upper * 8 + lane / 4, p.n, GATE_UP);
      bias[c][upper] = p.bias && at < p.n ? load_float<DTYPE>(p.bias, at) : 0.0f;
    }
  }
  int token = lane / PIECES, last = min(own.end * 8, p.m - token0);
  uint16_t *to = static_cast<uint16_t *>(p.y) + (token0 + token) * width + column;
  if (column >= width || token >= ROWS) last = 0;
  uint32_t put = staging + lane % 8 * PITCH + lane / 8 % PIECES * 16;
  uint32_t take = staging + lane / PIECES * PITCH + lane % PIECES * 16;
#pragma unroll
  for (int first = 0; first < N; first += STAGED, to += STAGED * width) {
    if (first >= own.end * 8 || first + STAGED <= own.first * 8) continue;
#pragma unroll
    for (int i = 0; i < STAGED / 8; i++) {
      uint32_t matrices[PIECES];
#pragma unroll
      for (int c = 0; c < C; c++) {
        const float(&s)[4] = sum[c][first / 8 + i];
        float low0 = s[0] + bias[c][0], low1 = s[1] + bias[c][0], up0 = s[2] + bias[c][1], up1 = s[3] + bias[c][1];
        if constexpr (GATE_UP) {
          matrices[c] = round_pair<element<DTYPE>>(silu(low0) * up0, silu(low1) * up1);
        } else {
          matrices[c * 2] = round_pair<element<DTYPE>>(low0, low1);
          matrices[c * 2 + 1] = round_pair<element<DTYPE>>(up0, up1);
        }
      }
      stmatrix_trans<PIECES>(put + i * 8 * PITCH, matrices);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGED; i += ROWS) {
      int at = first + i + token;
      if (at >= own.first * 8 && at < last) store_global16(to + i * width, load_shared16(take + i * PITCH));
    }
    __syncwarp();
  }
}

/* There are cycles to spare before the products and none after them: but left to itself, the compiler works things out where
 * they are used. */
__device__ __forceinline__ void work_out_now(int &row_tile, int &token_tile, participant &me)
{
  asm volatile(""
               : "+r"(row_tile), "+r"(token_tile), "+r"(me.first), "+r"(me.count), "+r"(me.place), "+r"(me.own.first),
                 "+r"(me.own.end));
}

template <yk_dtype DTYPE, int GROUPS, int G, int C, int N, int CLUSTER>
__device__ __forceinline__ void consume(const wgmma_params &p, const block_memory<GROUPS, G * C, N> &memory,
                                        int cluster, int rank)
{
  int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, group = threadIdx.x / 128;
  uint32_t staging = memory.staging(p) + threadIdx.x / 32 * staging_bytes(C, N);
  tile_ring x = memory.x(p), weights = memory.weights(p);
  int range = work_list::split_range(p, cluster), place = rank * G + group; /* of this warpgroup in a range */
  work w;
  for (work_list list(p, cluster); list.next(p, w);) {
    float sum[C][N / 8][4];
    int row_tile, token_tile;
    place_of_tile(p, w.tile, row_tile, token_tile);
    participant me = participant_of(p, range, w, N / 8);
    work_out_now(row_tile, token_tile, me);
    prefetch_partials<G * CLUSTER, C, N>(p, me, place);
    wait_for_previous_kernel(); /* the first time; then it is over */
    multiply<DTYPE, GROUPS, C, N, CLUSTER>(x, weights, w, group, warp, lane, sum);
    if (me.count > 1) exchange_partials<G * CLUSTER, C, N>(p, range, me, place, sum);
    if (me.own.first == me.own.end) continue;
    int64_t unit = (static_cast<int64_t>(row_tile) * CLUSTER + rank) * G * C * TILE_UNITS + first_unit<C>(group, warp);
    int64_t row0 = unit * UNIT_COLUMNS;
    if (p.gate_up)
      write_results<DTYPE, C, N, true>(p, staging, row0, token_tile * N, me.own, lane, sum);
    else
      write_results<DTYPE, C, N, false>(p, staging, row0, token_tile * N, me.own, lane, sum);
  }
}

/* G warpgroups of 64 C columns each, N tokens, GROUPS of scales in 128 inputs; CLUSTER blocks share their tokens. */
template <yk_dtype DTYPE, int GROUPS, int G, int C, int N, place PLACE, int CLUSTER>
__global__ void __maxnreg__(start_registers(G, PLACE))
    wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ wgmma_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS];
  block_memory<GROUPS, G * C, N> memory = {shared_address(shared), shared_address(barriers)};
  int cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  if (threadIdx.x == G * 128) {
    prefetch_tensor_map(&map);
    memory.x(p).init(X_WARPS, G * 4 * CLUSTER);
    memory.weights(p).init(1, G * 4);
    fence_mbarrier_init();
  }
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    cluster_sync();
  if (threadIdx.x >= (G + 1) * 128) {
    hold_registers();
    return;
  }
  if (threadIdx.x >= G * 128) {
    lower_registers<producer_registers(PLACE)>();
    int warp = threadIdx.x / 32 - G * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0)
        produce_weights<GROUPS, G * C, CLUSTER>(p, memory.weights(p), cluster, rank);
      else if (warp <= X_WARPS)
        produce_x<N, CLUSTER>(&map, p, memory.x(p), cluster, rank, warp - 1);
    }
    __syncwarp();
  } else {
    raise_registers<consumer_registers(G, PLACE)>();
    consume<DTYPE, GROUPS, G, C, N, CLUSTER>(p, memory, cluster, rank);
    if constexpr (PLACE == place::SHARED) release_holders();
  }
  if constexpr (CLUSTER > 1) cluster_sync(); /* the other block may still write here or arrive at our barriers */
#endif
}

/* One compiled kernel and what the host needs to launch it. */
struct wgmma_variant {
  int tokens, warpgroups, column_tiles, cluster; /* column tiles: times 64 columns, of a warpgroup */
  place where;
  double unit_us;         /* of one K tile, fitted together with the other costs of a plan */
  const void *kernels[3]; /* for 1, 2 and 4 groups a tile */
};

/* By rising number of tokens. */
variant_list<wgmma_variant> wgmma_variants_f16();
variant_list<wgmma_variant> wgmma_variants_bf16();

} // namespace w4a16

#endif
