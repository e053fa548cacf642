/* wgmma_kernel.cuh - W4A8 GEMM on 9.0: 4-bit weights in the packed form of the WNA16 GEMM, x in 8-bit codes with one
 * scale for each token; one persistent kernel. CODE: the type of codes, int8_t or __nv_fp8_e4m3.
 *
 *   grid       as in the WNA16 wgmma kernel, whose tile scheduler assigns output tiles and K ranges: at most one thread
 *              block per multiprocessor; clusters of two with neighbouring columns may share their tokens by multicast
 *   producers  the last warpgroup. Warp 0: weights, one bulk copy per K tile; warp 1: x, by tensor map with the
 *              128-byte swizzle and zeros past the edges. Weights and x have separate rings of stages
 *   consumers  two warpgroups of 64 columns each: weights become codes in registers (A operand of wgmma), x is read
 *              from shared memory (B operand). The tensor cores add the products of one group of scales, of int8_t
 *              exactly, in int32; these sums are multiplied with the scales and added in float32 registers
 *
 * The tokens of a tile are multiplied in chunks of N. A chunk's sums are scaled while the tensor cores work on the next
 * chunk, in a second set of sums, and for the other warpgroup. With one set, both warpgroups would wait for the tensor
 * cores and scale at the same times, since the tensor cores divide their time between them.
 *
 * Programmatic dependent launch: copies of the first stages' weights are issued before griddepcontrol.wait, so that
 * they arrive while the preceding kernel quantises x; x and partial sums are read after the wait. Then the next kernel
 * may start. */
#ifndef YK_KERNELS_CUDA_W4A8_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_W4A8_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/gemm/stage_producers.cuh"
#include "kernels/cuda/gemm/wgmma_epilogue.cuh"
#include "kernels/cuda/gemm/wgmma_mainloop.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/w4a8/code_weights.cuh"
#include "kernels/cuda/w4a8/tiles.h"

namespace yk_w4a8 {

using yk_gemm::work_tile;
using tile_ring = yk_gemm::tile_ring;

constexpr int WARPGROUPS = 2, TILE_PANELS = WARPGROUPS * yk_gemm::WARPGROUP_PANELS, THREADS = (WARPGROUPS + 1) * 128;
constexpr int K32_STEPS = yk_gemm::TILE_K / 32; /* matrix instructions of a K tile: 32 inputs each */
constexpr int START_REGISTERS = 168, PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

struct kernel_params {
  yk_gemm::wgmma_params tiles;
  const float *x_scales; /* [m], readable up to a multiple of 2 */
};

/* Bytes of a stage of x: 128 inputs of `tokens` tokens. */
__host__ __device__ constexpr int x_stage_bytes(int tokens)
{
  return tokens * yk_gemm::TILE_K;
}

/* The type in which the tensor cores add products of codes. */
template <typename CODE> using sum_type = std::conditional_t<std::is_same_v<CODE, int8_t>, int, float>;

/* The weights of a K tile in a warp's panel: fragments, and the scales of a lane's two rows by group. */
template <yk_dtype DTYPE, typename CODE, typename PANEL> struct k_tile_weights {
  static constexpr int GROUP_STEPS = K32_STEPS / PANEL::GROUPS; /* matrix instructions that share a scale */
  uint32_t a[K32_STEPS][4];
  float scales[PANEL::GROUPS][2];

  __device__ __forceinline__ void load(uint32_t panel, int lane)
  {
    code_weights<DTYPE, CODE> of_group;
#pragma unroll
    for (int step = 0; step < K32_STEPS; step++) {
      const uint4 words = yk_ptx::load_shared16(yk_gemm::words_at<PANEL>(panel, step * 2, lane));
      if (step % GROUP_STEPS == 0) {
        of_group.load(yk_ptx::load_shared8(yk_gemm::scales_at<PANEL>(panel, step * 2, lane)));
        scales[step / GROUP_STEPS][0] = of_group.scales[0];
        scales[step / GROUP_STEPS][1] = of_group.scales[1];
      }
      of_group.expand(yk_gemm::word_at(words, step % 2 * 2), yk_gemm::word_at(words, step % 2 * 2 + 1), a[step]);
    }
  }
};

/* acc += sums times the scales of a lane's two rows. Sums of int8_t are exact as float32: a group has at most 128
 * products of at most 15 * 127. */
template <int N, typename SUM>
__device__ __forceinline__ void add_scaled(const float (&scales)[2], const SUM (&sums)[N / 8][4],
                                           float (&acc)[N / 8][4])
{
#pragma unroll
  for (int i = 0; i < N / 2; i++)
    acc[i / 4][i % 4] = fmaf(scales[i % 4 / 2], static_cast<float>(sums[i / 4][i % 4]), acc[i / 4][i % 4]);
}

/* Accumulates one work tile: 64 columns by TOKENS tokens per warpgroup. If registers suffice (AHEAD), the next K tile's
 * weights are expanded while the tensor cores work, into a second set of fragments. */
template <yk_dtype DTYPE, typename CODE, typename PANEL, int TOKENS, int N, int CLUSTER, bool AHEAD>
__device__ __forceinline__ void mainloop(tile_ring &x, tile_ring &weights, const work_tile &w, int warpgroup, int warp,
                                         int lane, float (&acc)[TOKENS / 8][4])
{
  using tile_weights = k_tile_weights<DTYPE, CODE, PANEL>;
  tile_weights sets[AHEAD ? 2 : 1];
  sum_type<CODE> sums[2][N / 8][4];
  uint32_t own_panel = (warpgroup * yk_gemm::WARPGROUP_PANELS + warp) * PANEL::BYTES;
  yk_ptx::keep_in_registers(own_panel, lane);
#pragma unroll
  for (int i = 0; i < TOKENS / 2; i++) acc[i / 4][i % 4] = 0.0f;
  const auto fetch = [&](tile_weights &to) {
    yk_ptx::mbarrier_wait_asm_loop(weights.full(), weights.at.phase);
    to.load(weights.data() + own_panel, lane);
    yk_gemm::release_stage<1>(weights.empty(), lane);
    weights.advance();
  };
  const auto multiply = [&](const tile_weights &current, tile_weights &next, bool has_next) {
    yk_ptx::mbarrier_wait_asm_loop(x.full(), x.at.phase);
    const uint64_t b = yk_ptx::tile_descriptor(x.data(), 1024, 16);
    constexpr int TOKEN_CHUNKS = TOKENS / N, CHUNKS = PANEL::GROUPS * TOKEN_CHUNKS;
    const auto scale = [&](int chunk) {
      yk_ptx::pin(sums[chunk % 2]);
      add_scaled<N>(current.scales[chunk / TOKEN_CHUNKS], sums[chunk % 2],
                    reinterpret_cast<float(&)[N / 8][4]>(acc[chunk % TOKEN_CHUNKS * (N / 8)]));
    };
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
      yk_ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < tile_weights::GROUP_STEPS; i++) {
        const int step = chunk / TOKEN_CHUNKS * tile_weights::GROUP_STEPS + i;
        yk_ptx::wgmma<CODE, N>::run_rs(sums[chunk % 2], current.a[step],
                                       b + yk_ptx::descriptor_step(chunk % TOKEN_CHUNKS * N * 128 + step * 32), i > 0);
      }
      yk_ptx::wgmma_commit();
      if constexpr (AHEAD) {
        if (chunk == CHUNKS - 1 && has_next) fetch(next);
      }
      if (chunk == 0) continue;
      yk_ptx::wgmma_wait<1>();
      scale(chunk - 1);
    }
    yk_ptx::wgmma_wait<0>();
    scale(CHUNKS - 1);
    yk_gemm::release_stage<CLUSTER>(x.empty(), lane);
    x.advance();
  };
  if constexpr (AHEAD) {
    fetch(sets[0]);
#pragma unroll 1
    for (int left = w.last - w.first; left > 0; left -= 2) {
      multiply(sets[0], sets[1], left > 1);
      if (left > 1) multiply(sets[1], sets[0], left > 2);
    }
  } else {
#pragma unroll 1
    for (int left = w.last - w.first; left > 0; left--) {
      fetch(sets[0]);
      multiply(sets[0], sets[0], false);
    }
  }
}

/* Multiplies the sums of a tile's tokens with the tokens' scales. */
template <int TOKENS>
__device__ __forceinline__ void scale_tokens(const kernel_params &p, int token0, int lane, float (&acc)[TOKENS / 8][4])
{
#pragma unroll
  for (int i = 0; i < TOKENS / 8; i++) {
    const int token = token0 + i * 8 + lane % 4 * 2;
    const float2 scales =
        token < p.tiles.m ? __ldcg(reinterpret_cast<const float2 *>(p.x_scales + token)) : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int j = 0; j < 4; j++) acc[i][j] *= j % 2 ? scales.y : scales.x;
  }
}

/* A consumer warp: processes all work tiles of the block. */
template <yk_dtype DTYPE, typename CODE, typename PANEL, int TOKENS, int N, int CLUSTER, bool AHEAD>
__device__ __forceinline__ void consume(const kernel_params &p, tile_ring x, tile_ring weights, uint32_t staging,
                                        int cluster, int rank)
{
  const yk_gemm::wgmma_params &t = p.tiles;
  int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  staging += threadIdx.x / 32 * yk_gemm::staging_bytes(1, TOKENS);
  int range = yk_gemm::tile_scheduler::range_of(t, cluster);
  int of_cluster = rank * WARPGROUPS + warpgroup;
  work_tile w;
  for (yk_gemm::tile_scheduler scheduler(t, cluster); scheduler.next(t, w);) {
    float acc[1][TOKENS / 8][4];
    int tile_m, tile_n;
    yk_gemm::tile_coordinates(t, w.tile, tile_m, tile_n);
    yk_gemm::tile_peers peers = yk_gemm::peers_of(t, range, w, TOKENS / 8);
    yk_gemm::compute_now(tile_m, tile_n, peers);
    yk_gemm::prefetch_partials<WARPGROUPS * CLUSTER, 1, TOKENS>(t, peers, of_cluster);
    yk_ptx::wait_for_previous_kernel(); /* returns at once except for the first tile */
    mainloop<DTYPE, CODE, PANEL, TOKENS, N, CLUSTER, AHEAD>(x, weights, w, warpgroup, warp, lane, acc[0]);
    if (peers.count > 1) yk_gemm::exchange_partials<WARPGROUPS * CLUSTER, 1, TOKENS>(t, range, peers, of_cluster, acc);
    if (peers.own.first == peers.own.end) continue;
    scale_tokens<TOKENS>(p, tile_n * TOKENS, lane, acc[0]);
    int64_t panel =
        (static_cast<int64_t>(tile_m) * CLUSTER + rank) * TILE_PANELS + warpgroup * yk_gemm::WARPGROUP_PANELS + warp;
    int64_t row0 = panel * yk_gemm::PANEL_COLUMNS;
    if (t.activation.is_gated)
      yk_gemm::write_output<DTYPE, 1, TOKENS, true>(t, staging, row0, tile_n * TOKENS, peers.own, lane, acc);
    else
      yk_gemm::write_output<DTYPE, 1, TOKENS, false>(t, staging, row0, tile_n * TOKENS, peers.own, lane, acc);
  }
}

/* PANEL: a panel_layout; the others as in tile_shape. */
template <yk_dtype DTYPE, typename CODE, typename PANEL, int TOKENS, int N, int CLUSTER, bool AHEAD>
__global__ void __maxnreg__(START_REGISTERS)
    wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ kernel_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS];
  constexpr int WEIGHT_BYTES = TILE_PANELS * PANEL::BYTES;
  const uint32_t memory = yk_ptx::shared_address(shared);
  const uint32_t weights_at = memory + p.tiles.x_stages * x_stage_bytes(TOKENS);
  const tile_ring x(memory, yk_ptx::shared_address(barriers), p.tiles.x_stages, x_stage_bytes(TOKENS));
  const tile_ring weights(weights_at, x.barriers + tile_ring::BARRIERS * 8, p.tiles.weight_stages, WEIGHT_BYTES);
  const int cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  if (threadIdx.x == WARPGROUPS * 128) {
    yk_ptx::prefetch_tensor_map(&map);
    x.init(1, WARPGROUPS * 4 * CLUSTER);
    weights.init(1, WARPGROUPS * 4);
    yk_ptx::fence_mbarrier_init();
  }
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    yk_ptx::cluster_sync();
  if (threadIdx.x >= WARPGROUPS * 128) {
    yk_ptx::lower_registers<PRODUCER_REGISTERS>();
    const int warp = threadIdx.x / 32 - WARPGROUPS * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0) {
        yk_gemm::produce_weights<TILE_PANELS, PANEL::BYTES, CLUSTER>(p.tiles, p.tiles.panels, weights, cluster, rank);
      } else if (warp == 1) {
        yk_ptx::wait_for_previous_kernel();
        yk_ptx::let_next_kernel_start();
        yk_gemm::produce_x<TOKENS, CLUSTER>(&map, p.tiles, x, cluster, rank, 0, 0);
      }
    }
    __syncwarp();
  } else {
    yk_ptx::raise_registers<CONSUMER_REGISTERS>();
    consume<DTYPE, CODE, PANEL, TOKENS, N, CLUSTER, AHEAD>(
        p, x, weights, weights_at + p.tiles.weight_stages * WEIGHT_BYTES, cluster, rank);
  }
  if constexpr (CLUSTER > 1) yk_ptx::cluster_sync(); /* the other block may still copy to this one, or arrive here */
#endif
}

} // namespace yk_w4a8

#endif
