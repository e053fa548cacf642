/* split_kv.cuh - work division of flash decoding: the pages of K and V that each thread block reads. Plain arithmetic
 * that also runs on the host (tests/unit/test_work_division.cu).
 *
 * A work item is one sequence with one query row, times one KV head, times at most MAX_DECODE_HEADS of the query heads
 * that read this KV head. The page list of a step is the pages of all its work items, one work item after the other,
 * sequences outermost. The page list is never stored: a thread block has the index of every work item's first page.
 *
 * The page list is divided in one of two ways:
 *   by work items  every thread block takes the same number of whole work items, or one split of a work item. All
 *                  splits of a work item have the same number of pages, up to one;
 *   evenly         every thread block takes the same number of pages, across work items.
 * A division by work items is better if it is balanced: ending one work item and beginning another delays a thread
 * block. Every thread block computes the same division from the step's lengths alone. */
#ifndef YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_CUH
#define YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_CUH

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/common/division.cuh"

namespace yk_attn {

/* A thread block takes at least this many pages, so that partial results do not dominate tiny steps. */
constexpr int MIN_PAGES_PER_BLOCK = 4;

/* Ending one work item and beginning another takes a thread block as long as reading this many pages. A division by
 * work items may give a thread block this many pages more than an even division would. */
constexpr int WORK_ITEM_COST_PAGES = 32;

/* The extent of a page list, or of a part of one. */
struct alignas(16) page_list {
  int32_t n_pages, n_seqs;
  int32_t longest; /* pages of the longest work item */
};

using yk_cuda::small_quotient;

/* The pages [begin, end) of the page list that one thread block takes. */
struct block_pages {
  int32_t begin, end;
  int32_t pages_per_block; /* if divided evenly; else 0 */
  /* else: number of the split within the work item, and number of splits; 0 of 1 for whole work items */
  int32_t split, n_splits;

  /* The first of the thread blocks that read pages of a work item, and their number. block: the thread block of these
   * pages. item_begin, item_end: the work item's pages on the page list. */
  __host__ __device__ int32_t first_block(int32_t block, int32_t item_begin) const
  {
    return pages_per_block ? item_begin / pages_per_block : block - split;
  }

  __host__ __device__ int32_t n_blocks(int32_t item_begin, int32_t item_end) const
  {
    return pages_per_block ? (item_end - 1) / pages_per_block - item_begin / pages_per_block + 1 : n_splits;
  }
};

/* The pages of a thread block, divided among its warps: each takes consecutive ones, the first n_longer one more. */
struct warp_pages {
  int32_t begin, each, n_longer;

  __host__ __device__ static warp_pages of(const block_pages &block, int32_t n_warps)
  {
    const int32_t n = block.end - block.begin;
    return {block.begin, n / n_warps, n % n_warps};
  }

  /* The first page of a warp; equals the end of the previous warp's pages. */
  __host__ __device__ int32_t first(int32_t warp) const
  {
    return begin + warp * each + min(warp, n_longer);
  }
};

/* Returns the pages of thread block number block of n_blocks. first_page_of(item): index of a work item's first page on
 * the page list; n_pages for item n_items and beyond. */
#pragma nv_exec_check_disable /* first_page_of runs on the same side, host or GPU, as the caller */
template <typename FirstPageOf>
__host__ __device__ block_pages divide_pages(const page_list &list, int32_t n_items, int32_t n_blocks, int32_t block,
                                             FirstPageOf first_page_of)
{
  if (n_items == 0) return {0, 0, 1, 0, 1};
  const int32_t even = max((list.n_pages + n_blocks - 1) / n_blocks, MIN_PAGES_PER_BLOCK);
  const int32_t limit = even + WORK_ITEM_COST_PAGES;
  if (n_items > n_blocks) {
    const int32_t items = small_quotient(n_items + n_blocks - 1, n_blocks);
    if (items * list.longest <= limit)
      return {first_page_of(block * items), first_page_of((block + 1) * items), 0, 0, 1};
  } else {
    const int32_t max_splits =
        min(small_quotient(n_blocks, n_items), (list.longest + MIN_PAGES_PER_BLOCK - 1) / MIN_PAGES_PER_BLOCK);
    if (small_quotient(list.longest + max_splits - 1, max_splits) <= limit) {
      const int32_t item = small_quotient(block, max_splits), split = block - item * max_splits;
      if (item >= n_items) return {0, 0, 0, 0, 1};
      const int32_t first = first_page_of(item), n_pages = first_page_of(item + 1) - first;
      const int32_t n_splits = min(max_splits, (n_pages + MIN_PAGES_PER_BLOCK - 1) / MIN_PAGES_PER_BLOCK);
      if (split >= n_splits) return {0, 0, 0, 0, 1};
      const int32_t each = small_quotient(n_pages, n_splits), n_longer = n_pages - each * n_splits;
      const int32_t begin = first + split * each + min(split, n_longer);
      return {begin, begin + each + (split < n_longer ? 1 : 0), 0, split, n_splits};
    }
  }
  const int32_t begin = min(static_cast<int64_t>(block) * even, static_cast<int64_t>(list.n_pages));
  return {begin, min(begin + even, list.n_pages), even, 0, 1};
}

} // namespace yk_attn

#endif
