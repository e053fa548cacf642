/* attention_shares.cuh - which pages of a step's line are whose, among the blocks of decode attention. Plain arithmetic, which the
 * host can run, too. */
#ifndef YK_KERNELS_CUDA_ATTENTION_SHARES_CUH
#define YK_KERNELS_CUDA_ATTENTION_SHARES_CUH

#include <algorithm>
#include <cstdint>

namespace yk_attn {

/* A block's share is at least this many pages, so that tiny steps do not drown in partials. */
constexpr int DECODE_MIN_PAGES = 4;

/* To end one item and begin another takes a block as long as so many pages. Shares that begin and end with items, or equal parts
 * of them, may be longer by that. */
constexpr int DECODE_SLACK_PAGES = 32;

/* The line of pages, or a part of it. */
struct page_line {
  int32_t n_pages, n_seqs;
  int32_t longest; /* pages of the longest item */
};

/* a / b for 0 <= a < 2^20. On a GPU by a reciprocal in float32, which is exact there. */
__host__ __device__ __forceinline__ int32_t divide_small(int32_t a, int32_t b)
{
#ifdef __CUDA_ARCH__
  return static_cast<int32_t>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
#else
  return a / b;
#endif
}

/* Which pages of the line are a block's. */
struct block_share {
  int32_t begin, end;
  int32_t piece;       /* pages of every block, where these are all alike; else 0 */
  int32_t part, parts; /* else: which part of an item, of how many; 0 of 1: whole ones */

  /* The first of the blocks that share an item's pages, and how many these are. block: whose share this is. */
  __host__ __device__ int32_t first_block(int32_t block, int32_t item_begin) const
  {
    return piece ? item_begin / piece : block - part;
  }

  __host__ __device__ int32_t n_blocks(int32_t item_begin, int32_t item_end) const
  {
    return piece ? (item_end - 1) / piece - item_begin / piece + 1 : parts;
  }
};

/* Every block takes the same number of whole items, or the same part of one, where no block gets much more than its share by
 * that; else the line is cut into equal pieces. first_of(item): its first page on the line, or the line's end past the last. */
#pragma nv_exec_check_disable /* first_of is the caller's, of the host or of the GPU as that is */
template <typename FirstOf>
__host__ __device__ block_share share_of_block(const page_line &line, int32_t n_items, int32_t n_blocks, int32_t block,
                                               FirstOf first_of)
{
  if (n_items == 0) return {0, 0, 1, 0, 1};
  const int32_t piece = max((line.n_pages + n_blocks - 1) / n_blocks, DECODE_MIN_PAGES);
  const int32_t limit = piece + DECODE_SLACK_PAGES;
  if (n_items > n_blocks) {
    const int32_t items = divide_small(n_items + n_blocks - 1, n_blocks);
    if (items * line.longest <= limit) return {first_of(block * items), first_of((block + 1) * items), 0, 0, 1};
  } else {
    const int32_t most = min(divide_small(n_blocks, n_items), (line.longest + DECODE_MIN_PAGES - 1) / DECODE_MIN_PAGES);
    if (divide_small(line.longest + most - 1, most) <= limit) {
      const int32_t item = divide_small(block, most), part = block - item * most;
      if (item >= n_items) return {0, 0, 0, 0, 1};
      const int32_t first = first_of(item), n_pages = first_of(item + 1) - first;
      const int32_t parts = min(most, (n_pages + DECODE_MIN_PAGES - 1) / DECODE_MIN_PAGES);
      if (part >= parts) return {0, 0, 0, 0, 1};
      const int32_t each = divide_small(n_pages, parts), longer = n_pages - each * parts;
      const int32_t begin = first + part * each + min(part, longer);
      return {begin, begin + each + (part < longer ? 1 : 0), 0, part, parts};
    }
  }
  const int32_t begin = min(static_cast<int64_t>(block) * piece, static_cast<int64_t>(line.n_pages));
  return {begin, min(begin + piece, line.n_pages), piece, 0, 1};
}

} // namespace yk_attn

#endif
