/* few_rows_run.cuh - the work of a thread block in grouped WNA16 GEMMs on 9.0 for matrices of few rows each, item by
 * item: up to stage_panels panels of one row tile, over all of K. The kernel defines its items: few_rows_kernel.cuh,
 * and moe/routed_gemm_kernel.cuh, which routes too.
 *
 *   producers  warp 0: weights, one bulk copy per K tile; warps 1 and 2: rows of x by cp.async, in the order of the
 *              128-byte swizzle; warp 3: remaining work of a kernel
 *   consumers  eight warps, in K slices of slice_warps warps, as in dense/small_batch_kernel.cuh, whose main loop they
 *              run
 *
 * Accumulators have separate memory, so that the ring continues to fill while an item ends. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_RUN_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_RUN_CUH

#include "kernels/cuda/gemm/dense/small_batch_kernel.cuh"
#include "kernels/cuda/gemm/grouped/params.cuh"
#include "kernels/cuda/ptx/registers.cuh"

namespace yk_gemm {

constexpr int FEW_X_WARPS = 2; /* producer warps of x */

/* panel: number of the first panel within the matrix. */
struct few_item {
  int matrix, first_slot, rows, panel, n_panels;
};

/* Addresses in shared memory. */
struct few_memory {
  uint32_t x, weights, acc, barriers;
};

/* Two sets of accumulators, used by items alternately: one is written while the other may still be read. */
__host__ __device__ constexpr int few_acc_bytes(int n, int warp_panels)
{
  return 2 * panel_acc_bytes(n, CONSUMER_WARPS * warp_panels);
}

template <int N>
__device__ __forceinline__ few_memory few_memory_of(const grouped_params &p, uint32_t memory, uint32_t barriers)
{
  return {memory, memory + p.stages * small_batch_x_bytes(N), memory + p.ring_bytes, barriers};
}

template <typename PANEL, typename ITEMS>
__device__ __forceinline__ void produce_few_weights(const grouped_params &p, ITEMS items, const few_memory &s)
{
  small_batch_ring r(s.weights, s.barriers, p.stages, p.stage_panels * PANEL::BYTES);
  r.start_producing();
  items.for_each([&](const grouped_params &p_of, const few_item &item) {
    const grouped_operands of = p_of.operands_of(item.matrix);
    weight_stream stream = stream_of_panels<PANEL>(of, item.panel, item.n_panels);
    stream.copy<true>(r, of.k_tiles);
  });
}

/* A warp copies its part of the rows, two at a time: half a warp copies the 16 pieces of 16 bytes of one row of a K
 * tile. Missing rows of the tile are not copied: their accumulators are not used. Row scales are prefetched here, since
 * the thread that copies weights has no registers left. */
template <typename PANEL, int N, typename ITEMS>
__device__ __forceinline__ void produce_few_x(const grouped_params &p, ITEMS items, const few_memory &s, int warp)
{
  constexpr int WARP_ROWS = N / FEW_X_WARPS, ROWS = WARP_ROWS / 2; /* rows per warp, rows per lane */
  small_batch_ring r(s.x, s.barriers, p.stages, small_batch_x_bytes(N));
  const int lane = threadIdx.x % 32, piece = lane % 16, row0 = warp * WARP_ROWS + lane / 16;
  const uint8_t *x = static_cast<const uint8_t *>(p.call.x) + piece * 16;
  r.start_producing();
  wait_for_previous_kernel();
  items.for_each([&](const grouped_params &p_of, const few_item &item) {
    if (warp == 0 && lane == 0) prefetch_row_scales<PANEL>(p_of.row_scales_of(item.matrix), item.panel, item.n_panels);
    int row[ROWS]; /* offset of the row in x, in pieces */
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      row[i] = row0 + 2 * i < item.rows ? p.row_of(item.first_slot + row0 + 2 * i) * (p.k / 8) : -1;
#pragma unroll 1
    for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      const bool valid = k_tile * TILE_K + piece * 8 < p.k;
      const uint32_t to = r.data() + piece / 8 * (N * 128);
      const uint8_t *from = x + (valid ? k_tile * TILE_K * 2 : 0);
#pragma unroll
      for (int i = 0; i < ROWS; i++) {
        const int at = row0 + 2 * i;
        if (row[i] >= 0)
          cp_async_16(to + at * 128 + ((piece ^ at) & 7) * 16, from + static_cast<uint32_t>(row[i]) * uint64_t{16},
                      valid);
      }
      cp_async_arrive(r.full());
      r.advance();
    }
  });
}

/* Adds the accumulators of the K slices, in the order of their first K tiles, and writes the results: which slice has
 * which first K tile depends on the preceding items of the block, and the sum must not. p: the item's. set: of
 * accumulators in shared memory. A warp may write this set because all warps passed a barrier at the end of the
 * previous item, after reading the set. part: the slice's first K tile of the item. member: the warp's number in its
 * slice. */
template <yk_dtype DTYPE, int N, int WARP_PANELS>
__device__ __forceinline__ void finish_few_item(const grouped_params &p, uint32_t set, const few_item &item, int part,
                                                int member, const float (&acc)[WARP_PANELS][N / 8][4])
{
  constexpr int PANEL_ITEMS = N / 8 * 32;
  const int lane = threadIdx.x % 32, first_panel = (part * p.slice_warps + member) * WARP_PANELS;
  const int slice_items = p.slice_warps * WARP_PANELS * PANEL_ITEMS;
  const output out = {p.bias_of(item.matrix), p.y_of(item.first_slot), item.rows, p.n, p.activation};
#pragma unroll
  for (int c = 0; c < WARP_PANELS; c++) {
#pragma unroll
    for (int t = 0; t < N / 8; t++) store_acc(set + (((first_panel + c) * (N / 8) + t) * 32 + lane) * 16, acc[c][t]);
  }
  sync_consumers();
  for (int i = threadIdx.x; i < item.n_panels * PANEL_ITEMS; i += CONSUMER_WARPS * 32) {
    const int token = i / 32 % (N / 8) * 8 + i % 4 * 2;
    if (token >= item.rows) continue;
    float4 v = load_acc(set + i * 16);
    for (int other = 1; other < CONSUMER_WARPS / p.slice_warps; other++)
      add_acc(v, load_acc(set + (other * slice_items + i) * 16));
    store_output<DTYPE>(out, item.panel + i / PANEL_ITEMS, i % 32 / 4, token, v);
  }
}

template <yk_dtype DTYPE, typename PANEL, int N, int WARP_PANELS, typename ITEMS>
__device__ __forceinline__ void consume_few(const grouped_params &p, ITEMS items, const few_memory &s)
{
  const int warp = threadIdx.x / 32, lane = kept_lane();
  const int slice = warp / p.slice_warps, member = warp % p.slice_warps;
  const uint32_t x = s.x + lane_of_x(lane);
  const uint32_t panels = member * WARP_PANELS * PANEL::BYTES;
  small_batch_ring r(s.weights, kept_in_warp(s.barriers), p.stages, p.stage_panels * PANEL::BYTES);
  const int k_slices = CONSUMER_WARPS / p.slice_warps;
  r.at.stage = slice;
  int first = slice; /* this slice's first K tile of the item: different for each slice, below k_slices */
  uint32_t set = 0;  /* offset in bytes from the first set */
  few_item item;
  wait_in_grouped(p);
#pragma unroll 1
  while (items.next(item)) {
    float acc[WARP_PANELS][N / 8][4] = {};
    float2 row_scales[WARP_PANELS];
    if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
      for (int c = 0; c < WARP_PANELS; c++)
        row_scales[c] = load_row_scales(items.params().row_scales_of(item.matrix),
                                        min(item.panel + member * WARP_PANELS + c, items.params().n_panels - 1), lane);
    }
    int k_tile = first;
#pragma unroll 1
    for (; k_tile < p.k_tiles; k_tile += k_slices) {
      mbarrier_wait_asm_loop(r.full(), r.at.phase);
      if (member * WARP_PANELS < item.n_panels)
        multiply_k_tile<DTYPE, PANEL, N, WARP_PANELS>(r.data() + panels, x + r.at.stage * small_batch_x_bytes(N), lane,
                                                      acc);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(r.empty());
      r.at.advance_by(k_slices, p.stages);
    }
    if constexpr (takes_integers(PANEL::ENCODING, N, WARP_PANELS)) {
#pragma unroll
      for (int i = 0; i < WARP_PANELS * (N / 8); i++) integer_weights<DTYPE>::to_output(acc[i / (N / 8)][i % (N / 8)]);
    }
    if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
      for (int c = 0; c < WARP_PANELS; c++) scale_rows(row_scales[c], acc[c]);
    }
    finish_few_item<DTYPE, N, WARP_PANELS>(items.params(), s.acc + set, item, first, member, acc);
    first = k_tile - p.k_tiles;
    set = few_acc_bytes(N, WARP_PANELS) / 2 - set;
  }
}

/* A block with occupancy MOST has spare registers, and rows to hold. */
__host__ __device__ constexpr int few_producer_registers(occupancy taken)
{
  return taken == occupancy::MOST ? 3 * MOST_REGISTERS - 2 * MOST_CONSUMER_REGISTERS : HALF_PRODUCER_REGISTERS;
}

/* Called by all threads. WORK has
 *   begin          called by all threads, before a barrier
 *   items          of the block, for each warp that needs them. Producers, which have few registers, take all of them
 *                  at once
 *   weight_items   the same, for the one thread that copies weights
 *   before_items   called by the consumers, together
 *   rest           called by the producer warp without copies */
template <yk_dtype DTYPE, typename PANEL, int N, int WARP_PANELS, occupancy OCCUPANCY, typename WORK>
__device__ __forceinline__ void run_few(const grouped_params &p, uint8_t *shared, const WORK &work)
{
  __shared__ uint64_t barriers[small_batch_ring::BARRIERS];
  const few_memory s = few_memory_of<N>(p, shared_address(shared), shared_address(barriers));
  if (threadIdx.x == CONSUMER_WARPS * 32) {
    small_batch_ring(0, s.barriers, p.stages, 0).init(1 + FEW_X_WARPS * 32, p.slice_warps);
    fence_mbarrier_init();
  }
  work.begin();
  __syncthreads();
  constexpr int REGISTERS = OCCUPANCY == occupancy::MOST ? MOST_CONSUMER_REGISTERS : HALF_CONSUMER_REGISTERS;
  const int producer = static_cast<int>(threadIdx.x / 32) - CONSUMER_WARPS;
  if (producer >= PRODUCER_WARPS) {
    hold_registers();
  } else if (producer >= 0) {
    lower_registers<few_producer_registers(OCCUPANCY)>();
    if (producer == 0) {
      if (threadIdx.x % 32 == 0) produce_few_weights<PANEL>(p, work.weight_items(), s);
    } else if (producer <= FEW_X_WARPS) {
      produce_few_x<PANEL, N>(p, work.items(), s, producer - 1);
    } else {
      work.rest();
    }
  } else {
    raise_registers<REGISTERS>();
    work.before_items();
    consume_few<DTYPE, PANEL, N, WARP_PANELS>(p, work.items(), s);
    release_idle_warps();
  }
}

__host__ __device__ constexpr int few_registers(occupancy taken)
{
  return taken == occupancy::MOST ? MOST_REGISTERS : HALF_REGISTERS;
}

} // namespace yk_gemm

#endif
