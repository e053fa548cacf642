/* work_list.cuh - work division of the wgmma kernels: the tokens and queries of each thread block.
 *
 * An item is a run of neighbouring rows of one sequence, at most tile_rows of them and none across a multiple of
 * tile_rows, times a tile of heads. Its tokens are cut into tiles of WGMMA_TOKENS. The tile list is the tiles of all
 * items, one item after the other; a thread block takes consecutive tiles. The list is divided in one of two ways:
 *   by items   every thread block takes the same number of whole items, or one split of an item; all splits of an item
 *              have the same number of tiles, up to one;
 *   evenly     every thread block takes the same number of tiles, across items.
 * The first is better if it is balanced, since a shared item costs partial results. Every thread block lists the items
 * in its shared memory and computes the division from the step's lengths alone, so all compute the same division. */
#ifndef YK_KERNELS_CUDA_LATENT_WORK_LIST_CUH
#define YK_KERNELS_CUDA_LATENT_WORK_LIST_CUH

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/latent/params.cuh"

namespace yk_latent {

constexpr int WGMMA_TOKENS = 64; /* tokens per tile */

using yk_cuda::ceil_div;
using yk_cuda::quotient;

__host__ __device__ __forceinline__ int32_t quotient_up(int32_t a, int32_t b)
{
  return quotient(a + b - 1, b);
}

/* A thread block takes at least this number of tiles. */
constexpr int MIN_TILES_PER_BLOCK = 2;

/* Ending one item and beginning another takes a thread block about as long as this number of tiles: a division by items
 * may give a thread block that many more tiles than an even division would. */
constexpr int ITEM_COST_TILES = 4;

/* The tiles [begin, end) of the list that one thread block takes. */
struct block_tiles {
  int32_t begin, end;
  int32_t tiles_per_block; /* if divided evenly; else 0 */
  int32_t split, n_splits; /* else: number of the split within the item, and number of splits; 0 of 1 for whole items */
  int32_t blocks_per_item; /* thread blocks that share an item's splits; 0: items are whole, or divided evenly */

  /* The first of the thread blocks that share an item, and their number; block: the thread block of these tiles. */
  __host__ __device__ int32_t first_block(int32_t block, int32_t item_begin) const
  {
    return tiles_per_block ? quotient(item_begin, tiles_per_block) : block - split;
  }
  __host__ __device__ int32_t n_blocks(int32_t item_begin, int32_t item_end) const
  {
    if (!tiles_per_block) return n_splits;
    return quotient(item_end - 1, tiles_per_block) - quotient(item_begin, tiles_per_block) + 1;
  }

  /* The same for any item, from any thread block's tiles. The result is undefined for an item that is not shared. */
  __host__ __device__ int32_t first_block_of(int32_t item, int32_t item_begin) const
  {
    return tiles_per_block ? quotient(item_begin, tiles_per_block) : item * blocks_per_item;
  }
  __host__ __device__ int32_t n_blocks_of(int32_t item_begin, int32_t item_end) const
  {
    if (tiles_per_block) return n_blocks(item_begin, item_end);
    const int32_t most = (item_end - item_begin + MIN_TILES_PER_BLOCK - 1) / MIN_TILES_PER_BLOCK;
    return blocks_per_item == 0 ? 1 : most < blocks_per_item ? most : blocks_per_item;
  }
};

/* Returns the tiles of thread block number block of n_blocks. first_tile: of each item on the list, then the list's
 * length; longest: tiles of the longest item. */
__host__ __device__ inline block_tiles divide_tiles(const int32_t *first_tile, int32_t n_items, int32_t longest,
                                                    int32_t n_blocks, int32_t block)
{
  if (n_items == 0) return {0, 0, 1, 0, 1, 0};
  const int32_t n_tiles = first_tile[n_items], each = quotient_up(n_tiles, n_blocks);
  const int32_t even = each > MIN_TILES_PER_BLOCK ? each : MIN_TILES_PER_BLOCK, limit = even + ITEM_COST_TILES;
  if (n_items > n_blocks) {
    const int32_t items = quotient_up(n_items, n_blocks);
    if (items * longest <= limit) {
      const int32_t first = block * items < n_items ? block * items : n_items;
      return {first_tile[first], first_tile[first + items < n_items ? first + items : n_items], 0, 0, 1, 0};
    }
  } else {
    const int32_t available = quotient(n_blocks, n_items), wanted = ceil_div(longest, MIN_TILES_PER_BLOCK);
    const int32_t most = available < wanted ? available : wanted;
    if (quotient_up(longest, most) <= limit) {
      const int32_t item = quotient(block, most), split = block - item * most;
      if (item >= n_items) return {0, 0, 0, 0, 1, most};
      const int32_t first = first_tile[item], n = first_tile[item + 1] - first, own = ceil_div(n, MIN_TILES_PER_BLOCK);
      const int32_t n_splits = own < most ? own : most;
      if (split >= n_splits) return {0, 0, 0, 0, 1, most};
      return {
          first + quotient(n * split, n_splits), first + quotient(n * (split + 1), n_splits), 0, split, n_splits, most};
    }
  }
  const int32_t begin = block * even < n_tiles ? block * even : n_tiles;
  return {begin, begin + even < n_tiles ? begin + even : n_tiles, even, 0, 1, 0};
}

/* The items of a launch, in shared memory. */
struct work_list {
  int32_t first_tile[YK_CUDA_LATENT_ROWS + 1]; /* first tile of each item; then the list's length */
  int32_t first_row[YK_CUDA_LATENT_ROWS], end_row[YK_CUDA_LATENT_ROWS];
  int32_t seq[YK_CUDA_LATENT_ROWS], n_tokens[YK_CUDA_LATENT_ROWS]; /* n_tokens: visible to the item's last row */
  int16_t item_of_row[YK_CUDA_LATENT_ROWS];                        /* the item that begins with the row; -1: none */
  int32_t n_items, longest;

  /* Builds the list for decode: every row up to the last one with tokens is an item; padding rows among them have no
   * tiles. Called by one warp, each lane with neighbouring rows; other warps read the list after a barrier. Reads only
   * the description of the step, with all loads in flight at once. */
  __device__ void build_decode(const params &p)
  {
    constexpr int MOST = YK_CUDA_LATENT_ROWS / 32;
    const int lane = threadIdx.x % 32;
    const int32_t each = ceil_div(p.n_rows, 32), row = lane * each, n = min(each, p.n_rows - row);
    int32_t own_seq[MOST], tokens[MOST], own = 0, most = 0, end_item = 0;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      const int32_t slot = i < n ? p.kv_slots[row + i] : -1;
      own_seq[i] = i < n ? p.seq_of_row[row + i] : 0;
      tokens[i] = i < n ? p.positions[row + i] + 1 : 0;
      if (slot < 0) tokens[i] = 0; /* a padding row */
    }
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      const int32_t tiles = ceil_div(tokens[i], WGMMA_TOKENS);
      own += tiles;
      most = max(most, tiles);
      if (tiles > 0) end_item = row + i + 1;
    }
    int32_t end = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t before = __shfl_up_sync(~0u, end, offset);
      if (lane >= offset) end += before;
    }
    int32_t at = end - own;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      if (i >= n) break;
      first_tile[row + i] = at;
      first_row[row + i] = row + i;
      end_row[row + i] = row + i + 1;
      seq[row + i] = own_seq[i];
      n_tokens[row + i] = tokens[i];
      item_of_row[row + i] = static_cast<int16_t>(tokens[i] > 0 ? row + i : -1);
      at += ceil_div(tokens[i], WGMMA_TOKENS);
    }
    most = __reduce_max_sync(~0u, most);
    end_item = __reduce_max_sync(~0u, end_item);
    if (lane < 31) return;
    first_tile[end_item] = end;
    n_items = end_item;
    longest = most;
  }

  /* Builds the list for other steps. Called by one warp, 32 rows at a time; other warps read the list after a
   * barrier. */
  __device__ void build(const params &p)
  {
    const int32_t tile_rows = p.tile_rows;
    constexpr int WORDS = YK_CUDA_LATENT_ROWS / 32;
    const int lane = threadIdx.x % 32;
    int32_t own_seq[WORDS], slot[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
      if (32 * w >= p.n_rows) break;
      const int32_t row = 32 * w + lane;
      const bool exists = row < p.n_rows;
      own_seq[w] = exists ? p.seq_of_row[row] : 0;
      slot[w] = exists ? p.kv_slots[row] : -1; /* treated as a padding row, part of no item */
    }
    /* begins: rows at which an item begins; ends: rows at which the previous item ends */
    uint32_t begins[WORDS], ends[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
      if (32 * w >= p.n_rows) break;
      const int32_t row = 32 * w + lane, word_before = w > 0 ? w - 1 : 0;
      const int32_t last_seq = __shfl_sync(~0u, own_seq[word_before], 31);
      const int32_t last_slot = __shfl_sync(~0u, slot[word_before], 31);
      const int32_t seq_before = __shfl_up_sync(~0u, own_seq[w], 1), slot_before = __shfl_up_sync(~0u, slot[w], 1);
      const bool follows = (lane > 0 ? slot_before : last_slot) >= 0 &&
                           (lane > 0 ? seq_before : last_seq) == own_seq[w] && row % tile_rows != 0;
      begins[w] = __ballot_sync(~0u, slot[w] >= 0 && !follows);
      ends[w] = begins[w] | __ballot_sync(~0u, slot[w] < 0);
    }
    int32_t end[WORDS], next = p.n_rows; /* the first end after the word */
#pragma unroll
    for (int w = WORDS - 1; w >= 0; w--) {
      if (32 * w >= p.n_rows) continue;
      const uint32_t behind = ends[w] & ~((2u << lane) - 1);
      end[w] = behind ? 32 * w + __ffs(behind) - 1 : next;
      if (ends[w]) next = 32 * w + __ffs(ends[w]) - 1;
    }
    int32_t item = 0, tile = 0, most = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
      if (32 * w >= p.n_rows) break;
      const int32_t row = 32 * w + lane, own = item + __popc(begins[w] & ((1u << lane) - 1));
      const bool is_item = begins[w] >> lane & 1;
      const int32_t last = is_item ? p.positions[end[w] - 1] : 0;
      const int32_t tiles = is_item ? ceil_div(last + 1, WGMMA_TOKENS) : 0;
      int32_t sum = tiles;
#pragma unroll
      for (int offset = 1; offset < 32; offset *= 2) {
        const int32_t before = __shfl_up_sync(~0u, sum, offset);
        if (lane >= offset) sum += before;
      }
      item_of_row[row] = static_cast<int16_t>(is_item ? own : -1);
      if (is_item) {
        first_tile[own] = tile + sum - tiles;
        first_row[own] = row;
        end_row[own] = end[w];
        seq[own] = own_seq[w];
        n_tokens[own] = last + 1;
      }
      item += __popc(begins[w]);
      tile += __shfl_sync(~0u, sum, 31);
      most = max(most, tiles);
    }
    most = __reduce_max_sync(~0u, most);
    if (lane == 0) {
      first_tile[item] = tile;
      n_items = item;
      longest = most;
    }
  }
};

/* Location of the partial results of a row that is a separate item; mine: of any thread block. */
__device__ inline item_splits splits_of_row(const work_list &list, const block_tiles &mine, int32_t row)
{
  const int32_t item = list.item_of_row[row], first = list.first_tile[item], end = list.first_tile[item + 1];
  return {row, mine.first_block_of(item, first), mine.n_blocks_of(first, end)};
}

/* The part of one item that a thread block takes. */
struct segment {
  int32_t item, begin, end; /* tiles, counted within the item */
  int32_t seq, first_row, n_rows, n_tokens;
  bool is_whole, begins; /* is_whole: all of the item; begins: includes its first tile */

  __device__ int32_t n_tiles() const
  {
    return end - begin;
  }
};

/* Returns the item of tile `at` of the list. Called by whole warps. */
__device__ inline int32_t item_at(const work_list &list, int32_t at)
{
  const int32_t lane = threadIdx.x % 32, each = ceil_div(list.n_items, 32);
  const auto begins_by = [&](int32_t item) { return item < list.n_items && list.first_tile[item] <= at; };
  const int32_t first = (__popc(__ballot_sync(~0u, begins_by(lane * each))) - 1) * each;
  return first + __popc(__ballot_sync(~0u, lane < each && begins_by(first + lane))) - 1;
}

/* Returns the segment that begins at tile `at` of the list, which belongs to `item`. */
__device__ inline segment segment_at(const work_list &list, const block_tiles &mine, int32_t at, int32_t item)
{
  const int32_t first = list.first_tile[item], end = list.first_tile[item + 1], row = list.first_row[item];
  return {item,
          at - first,
          min(end, mine.end) - first,
          list.seq[item],
          row,
          list.end_row[item] - row,
          list.n_tokens[item],
          at == first && end <= mine.end,
          at == first};
}

} // namespace yk_latent

#endif
