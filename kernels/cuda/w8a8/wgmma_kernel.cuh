/* wgmma_kernel.cuh - W8A8 GEMM on 9.0: one persistent kernel for any number of tokens.
 *
 *   grid       as in the WNA16 wgmma kernel, whose tile scheduler assigns output tiles and K ranges: at most one thread
 *              block per multiprocessor. Clusters: two with neighbouring rows that share their tokens, or the K ranges
 *              of a tile, which are added through their shared memory
 *   producers  the last warpgroup. Warp 0: weights, one bulk copy per K tile; warp 1: x, by tensor map with the
 *              128-byte swizzle and zeros past the edges. Both fill one ring of stages
 *   consumers  one to three warpgroups of 64 rows (columns of W) each by N tokens: both operands from shared memory,
 *              sums in registers; then partial sums and results (wgmma_epilogue.cuh)
 *
 * Programmatic dependent launch: copies of the first stages' weights are issued before griddepcontrol.wait, so that
 * they arrive while the preceding kernel quantises x; x and partial sums are read after the wait. Then the next kernel
 * may start. */
#ifndef YK_KERNELS_CUDA_W8A8_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_W8A8_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/gemm/stage_producers.cuh"
#include "kernels/cuda/gemm/wgmma_mainloop.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"
#include "kernels/cuda/w8a8/wgmma_epilogue.cuh"

namespace yk_w8a8 {

constexpr int WARPGROUP_ROWS = 64, MOST_STAGES = 20;
using yk_gemm::work_tile;
using tile_ring = yk_cuda::stage_ring<MOST_STAGES>;

/* Registers per thread: at the start, then of producers and of consumers. The remaining registers of a multiprocessor
 * fit thread blocks of the kernel that quantises. */
struct thread_registers {
  int start, producer, consumer;
};

__host__ __device__ constexpr thread_registers registers_of(int tokens, int warpgroups = 2)
{
  if (warpgroups == 3) return tokens <= 64 ? thread_registers{80, 32, 96} : thread_registers{112, 40, 136};
  return tokens <= 64    ? thread_registers{72, 24, 96}
         : tokens <= 128 ? thread_registers{120, 40, 152}
                         : thread_registers{160, 40, 216};
}

struct kernel_params {
  yk_gemm::wgmma_params tiles;
  output_params out;
  int n_stages;
};

/* Bytes of the weights of a K tile. */
__host__ __device__ constexpr int weight_bytes(int warpgroups)
{
  return warpgroups * WARPGROUP_ROWS * TILE_K;
}

__host__ __device__ constexpr int stage_bytes(int warpgroups, int tokens)
{
  return weight_bytes(warpgroups) + tokens * TILE_K;
}

/* Sums of one work tile: 64 rows by N tokens per warpgroup. A stage is released once the wgmma that read it are known
 * to be complete, which is a K tile later. */
template <int WARPGROUPS, int N, int CLUSTER>
__device__ __forceinline__ void mainloop(tile_ring &r, const work_tile &w, int warpgroup, int lane,
                                         int (&acc)[N / 8][4])
{
  uint32_t read = 0; /* empty barrier of the previous K tile */
#pragma unroll 1
  for (int k_tile = w.first; k_tile < w.last; k_tile++) {
    yk_ptx::mbarrier_wait_asm_loop(r.full(), r.at.phase);
    const uint64_t a = yk_ptx::tile_descriptor(r.data() + warpgroup * weight_bytes(1), 1024, 16);
    const uint64_t b = yk_ptx::tile_descriptor(r.data() + weight_bytes(WARPGROUPS), 1024, 16);
    yk_ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < TILE_K / 32; step++) {
      const uint64_t at = yk_ptx::descriptor_step(step * 32);
      yk_ptx::wgmma<int8_t, N>::run_ss(acc, a + at, b + at, k_tile > w.first || step > 0);
    }
    yk_ptx::wgmma_commit();
    yk_ptx::wgmma_wait<1>();
    if (read) yk_gemm::release_stage<CLUSTER>(read, lane);
    read = r.empty();
    r.advance();
  }
  yk_ptx::wgmma_wait<0>();
  yk_ptx::pin(acc);
  yk_gemm::release_stage<CLUSTER>(read, lane);
}

/* The terms of a row of W have memory latency, so they are loaded before the wait. */
template <int WARPGROUPS, int N, int CLUSTER>
__device__ __forceinline__ void consume(const kernel_params &p, tile_ring r, uint32_t results, int cluster, int rank)
{
  const int lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const int range = yk_gemm::tile_scheduler::range_of(p.tiles, cluster);
  const result_memory<N> memory(results + warpgroup * result_memory<N>::BYTES);
  work_tile w;
  for (yk_gemm::tile_scheduler scheduler(p.tiles, cluster); scheduler.next(p.tiles, w);) {
    int acc[N / 8][4];
    int tile_m, tile_n;
    yk_gemm::tile_coordinates(p.tiles, w.tile, tile_m, tile_n);
    yk_gemm::tile_peers peers = yk_gemm::peers_of(p.tiles, range, w, N / 8);
    yk_gemm::compute_now(tile_m, tile_n, peers);
    const int64_t row = ((static_cast<int64_t>(tile_m) * CLUSTER + rank) * WARPGROUPS + warpgroup) * WARPGROUP_ROWS;
    const int64_t own_row = row + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const row_terms rows[2] = {row_terms(p.out, own_row), row_terms(p.out, own_row + 8)};
    yk_ptx::wait_for_previous_kernel(); /* returns at once except for the first tile */
    memory.fetch_scales(p.out.x_scales, tile_n * N);
    mainloop<WARPGROUPS, N, CLUSTER>(r, w, warpgroup, lane, acc);
    if constexpr (CLUSTER == 1) {
      if (peers.count > 1) exchange_sums<WARPGROUPS, N>(r.memory, peers, warpgroup, acc);
    }
    if (peers.own.first == peers.own.end) continue;
    write_output<N>(p.out, memory, row, tile_n * N, peers.own, rows, acc);
  }
}

template <int WARPGROUPS, int N, int CLUSTER>
__global__ void __maxnreg__(registers_of(N, WARPGROUPS).start)
    wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ kernel_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[tile_ring::BARRIERS];
  const tile_ring ring(yk_ptx::shared_address(shared), yk_ptx::shared_address(barriers), p.n_stages,
                       stage_bytes(WARPGROUPS, N));
  const int cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  if (threadIdx.x == WARPGROUPS * 128) {
    yk_ptx::prefetch_tensor_map(&map);
    ring.init(2, WARPGROUPS * 4 * CLUSTER);
    yk_ptx::fence_mbarrier_init();
  }
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    yk_ptx::cluster_sync();
  if (threadIdx.x >= WARPGROUPS * 128) {
    yk_ptx::lower_registers<registers_of(N, WARPGROUPS).producer>();
    const int warp = threadIdx.x / 32 - WARPGROUPS * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0) {
        yk_gemm::produce_weights<WARPGROUPS * WARPGROUP_ROWS, TILE_K, CLUSTER>(p.tiles, p.out.n_rows, ring, cluster,
                                                                               rank);
      } else if (warp == 1) {
        yk_ptx::wait_for_previous_kernel();
        yk_ptx::let_next_kernel_start();
        yk_gemm::produce_x<N, CLUSTER>(&map, p.tiles, ring, cluster, rank, 0, weight_bytes(WARPGROUPS));
      }
    }
    __syncwarp();
    if (CLUSTER == 1 && p.tiles.k_splits > 1) yk_ptx::cluster_sync(); /* matches the one in exchange_sums */
  } else {
    yk_ptx::raise_registers<registers_of(N, WARPGROUPS).consumer>();
    consume<WARPGROUPS, N, CLUSTER>(p, ring, ring.memory + p.n_stages * ring.stage_bytes, cluster, rank);
  }
  /* Other blocks of the cluster may still read this block's memory, or copy to it and arrive at its barriers. */
  if (CLUSTER > 1 || p.tiles.k_splits > 1) yk_ptx::cluster_sync();
#endif
}

} // namespace yk_w8a8

#endif
