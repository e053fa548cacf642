/* few_rows_share.cuh - items of few_rows_run.cuh for a kernel that routes too: the panels of all row tiles are divided
 * into one share per thread block. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_SHARE_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_SHARE_CUH

#include "kernels/cuda/gemm/grouped/few_rows_run.cuh"
#include "kernels/cuda/gemm/grouped/row_tile_table.cuh"

namespace yk_gemm {

/* A thread block's share: panels of all row tiles, one row tile after the other. In shared memory. */
struct few_share {
  int begin, end, tile, entry; /* the row tile of the first panel, and that tile's entry of the table */
};

/* The items of a share, in order. */
template <int N> struct few_items {
  const grouped_entry *entry;
  int at, end, tile, tile_begin;

  /* entries: of the table with which the share counts row tiles. */
  __device__ __forceinline__ few_items(const grouped_params &p, const grouped_entry *entries, const few_share &share)
      : entry(entries + share.entry), at(share.begin), end(share.end), tile(share.tile),
        tile_begin(share.tile * p.n_panels)
  {
  }

  /* Returns false if there are no more. */
  __device__ __forceinline__ bool next(const grouped_params &p, few_item &item)
  {
    if (at >= end) return false;
    if (at == tile_begin + p.n_panels) {
      tile++;
      tile_begin = at;
      if (tile == entry[1].first_tile) entry++;
    }
    const int left = min(end, tile_begin + p.n_panels) - at, most = p.stage_panels;
    item.matrix = entry->matrix;
    item.first_slot = entry->first_slot + (tile - entry->first_tile) * N;
    item.rows = min(N, entry->end_slot - item.first_slot);
    item.panel = at - tile_begin;
    item.n_panels = left > most && left < 2 * most ? (left + 1) / 2 : min(left, most);
    at += item.n_panels;
    return true;
  }

  /* Calls f(p, item) for all remaining items. */
  template <typename F> __device__ __forceinline__ void for_each(const grouped_params &p, F f)
  {
    few_item item;
#pragma unroll 1
    while (next(p, item)) f(p, item);
  }
};

/* A block's share in the form of run_few: item by item, or all items. */
template <int N> struct few_share_items {
  const grouped_params &p; /* with weights and results of the newest item */
  few_items<N> items;

  __device__ __forceinline__ bool next(few_item &item)
  {
    return items.next(p, item);
  }
  __device__ __forceinline__ const grouped_params &params() const
  {
    return p;
  }
  template <typename F> __device__ __forceinline__ void for_each(F f)
  {
    items.for_each(p, f);
  }
};

/* A share within one row tile is a single item. With few row tiles, each tile gets the same number of blocks, unless a
 * block would have FEW_MORE_PANELS or more panels above the even share; otherwise all blocks have equal shares. */
constexpr int FEW_MORE_PANELS = 2;

/* Called by one warp: computes the block's share. size: of the table, which has been built. */
__device__ __forceinline__ void find_share(const grouped_params &p, const grouped_table &table, int2 size,
                                           few_share &share)
{
  const unsigned tiles = static_cast<unsigned>(size.y), total = tiles * p.n_panels, block = blockIdx.x;
  const unsigned each = total / gridDim.x, longer = total - each * gridDim.x;
  const unsigned of_tile = gridDim.x / max(tiles, 1u), part = p.n_panels / max(of_tile, 1u);
  unsigned begin = block * each + min(block, longer), end = begin + each + (block < longer);
  if (of_tile > 0 && part < each + FEW_MORE_PANELS) {
    const unsigned tile = block / of_tile, number = block - tile * of_tile, rest = p.n_panels - part * of_tile;
    begin = tile * p.n_panels + number * part + min(number, rest);
    end = tile < tiles ? begin + part + (number < rest) : begin;
  }
  const int tile = p.by_panels.quotient(static_cast<int>(begin));
  __syncwarp();
  for (int i = threadIdx.x % 32; i < size.x; i += 32)
    if (table.entries[i].first_tile <= tile && tile < table.entries[i + 1].first_tile) share.entry = i;
  if (threadIdx.x % 32 == 0) {
    share.begin = static_cast<int>(begin);
    share.end = static_cast<int>(end);
    share.tile = tile;
  }
}

/* The table after ring and accumulators. */
template <int N, int WARP_PANELS>
__device__ __forceinline__ grouped_table few_table(const grouped_params &p, uint8_t *shared)
{
  return grouped_table_at(shared + p.ring_bytes + few_acc_bytes(N, WARP_PANELS), p.call.n_matrices);
}

} // namespace yk_gemm

#endif
