/* few_rows_kernel.cuh - grouped WNA16 GEMM on 9.0 for matrices of few rows each, bound by memory bandwidth: two
 * persistent thread blocks per multiprocessor, one of which multiplies while the other ends an item.
 *
 * Work is divided into items: up to stage_panels panels of one row tile, over all of K. Each block begins with one
 * item, then takes the next unassigned item (yk_grouped_call.next_tile). few_rows_run.cuh processes an item. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_KERNEL_CUH

#include "kernels/cuda/gemm/grouped/few_rows_run.cuh"
#include "kernels/cuda/gemm/grouped/row_tile_order.cuh"
#include "kernels/cuda/gemm/grouped/tile_queue.cuh"
#include "kernels/cuda/gemm/grouped/tiles.h"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

/* The item of a tile of the queue. */
__device__ __forceinline__ few_item few_item_of(const grouped_params &p, const grouped_tile &tile)
{
  return {tile.matrix, tile.first_slot, tile.rows, tile.panel, min(p.stage_panels, p.n_panels - tile.panel)};
}

/* Items in the order of the row tiles. */
template <int N> struct few_taken_items {
  const grouped_params &p;
  const row_tile_order &order;
  tile_queue &queue;

  /* Called by one thread: calls f(p, item) for all of the block's items, and passes them to the other warps. It takes
   * an item while it copies the previous one. */
  template <typename F> __device__ __forceinline__ void for_each(F f)
  {
    tile_writer writer = {queue};
    const int n_items = order.size->y * p.tile_items;
    unsigned answer = 0;
#pragma unroll 1
    for (int at = blockIdx.x; at < n_items; at = next_of(p, answer, at, 0)) {
      const grouped_tile taken = item(at);
      writer.put(taken);
      answer = fetch_next(p, n_items);
      f(p, few_item_of(p, taken));
    }
    writer.put({});
  }

private:
  __device__ __forceinline__ grouped_tile item(int at) const
  {
    const int number = p.by_tile_items.quotient(at), matrix = order.map[number];
    const ordered_matrix &of = order.matrices[matrix];
    const int first_slot = of.first_slot + (number < order.size->x ? number - of.first_tile : of.rows() / N) * N;
    return {matrix, first_slot, min(N, of.end_slot - first_slot), (at - number * p.tile_items) * p.stage_panels};
  }
};

/* The same items, for the other warps. */
struct few_queued_items {
  const grouped_params &p;
  tile_reader reader;

  __device__ __forceinline__ bool next(few_item &item)
  {
    grouped_tile tile;
    const bool is_one = reader.next(tile);
    item = few_item_of(p, tile);
    return is_one;
  }
  __device__ __forceinline__ const grouped_params &params() const
  {
    return p;
  }
  template <typename F> __device__ __forceinline__ void for_each(F f)
  {
    few_item item;
#pragma unroll 1
    while (next(item)) f(p, item);
  }
};

/* Work of the kernel. The starts are complete once the preceding kernel has ended, or earlier (starts_are_settled). */
template <int N> struct few_work {
  const grouped_params &p;
  const row_tile_order &order;
  tile_queue &queue;

  __device__ __forceinline__ void begin() const
  {
    if (threadIdx.x == CONSUMER_WARPS * 32) {
      queue.init(FEW_X_WARPS + CONSUMER_WARPS);
      fence_mbarrier_init();
    }
    wait_for_starts(p);
    const auto slots_of = [&](int m) { return int2{__ldcg(p.call.starts + m), __ldcg(p.call.starts + m + 1)}; };
    order_row_tiles<N, 1>(order, p.call.n_matrices, slots_of, [](int rows) { return rows > 0 ? 0 : -1; });
  }
  __device__ __forceinline__ few_taken_items<N> weight_items() const
  {
    return {p, order, queue};
  }
  __device__ __forceinline__ few_queued_items items() const
  {
    return {p, {queue}};
  }
  __device__ __forceinline__ void before_items() const
  {
  }
  __device__ __forceinline__ void rest() const
  {
  }
};

template <yk_dtype DTYPE, typename PANEL, int N, int WARP_PANELS, occupancy OCCUPANCY>
__global__ void __maxnreg__(few_registers(OCCUPANCY)) grouped_few_kernel(const __grid_constant__ grouped_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ tile_queue queue;
  const row_tile_order order =
      row_tile_order_at(shared + p.ring_bytes + few_acc_bytes(N, WARP_PANELS), p.call.n_matrices, 1);
  run_few<DTYPE, PANEL, N, WARP_PANELS, OCCUPANCY>(p, shared, few_work<N>{p, order, queue});
#endif
}

} // namespace yk_gemm

#endif
