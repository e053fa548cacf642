/* work_list.cuh - work division of the wgmma kernels: which tokens of which queries each thread block takes.
 *
 * An item is a run of neighbouring rows of one sequence, at most tile_rows of them and none across a multiple of
 * tile_rows, times a tile of heads. Its tokens are cut into tiles of WGMMA_TOKENS. The tile list is the tiles of all
 * items, one item after the other; a thread block takes consecutive tiles. The list is divided in one of two ways:
 *   by items   every thread block takes the same number of whole items, or one split of an item; all splits of an item
 *              have the same number of tiles, up to one;
 *   evenly     every thread block takes the same number of tiles, whatever items they belong to.
 * The first is better where it is balanced, since an item that is shared costs partial results. Every thread block
 * lists the items in its shared memory and decides by itself, from the step's lengths alone; so all decide alike. */
#ifndef YK_KERNELS_CUDA_LATENT_WORK_LIST_CUH
#define YK_KERNELS_CUDA_LATENT_WORK_LIST_CUH

#include "kernels/cuda/latent/params.cuh"

namespace yk_latent {

constexpr int WGMMA_TOKENS = 64; /* of a tile */

/* A thread block takes at least so many tiles. */
constexpr int MIN_TILES_PER_BLOCK = 2;

/* To end one item and begin another takes a thread block about as long as so many tiles: a division by items may give a
 * thread block so many more than an even division would. */
constexpr int ITEM_COST_TILES = 4;

/* The tiles [begin, end) of the list that one thread block takes. */
struct block_tiles {
  int32_t begin, end;
  int32_t tiles_per_block; /* where divided evenly; else 0 */
  int32_t split, n_splits; /* else: which split of an item, of how many; 0 of 1 for whole items */
  int32_t blocks_per_item; /* thread blocks that an item has for its splits; 0: it is whole, or divided evenly */

  /* The first of the thread blocks that share an item, and their number; block: the one whose tiles these are. */
  __host__ __device__ int32_t first_block(int32_t block, int32_t item_begin) const
  {
    return tiles_per_block ? item_begin / tiles_per_block : block - split;
  }
  __host__ __device__ int32_t n_blocks(int32_t item_begin, int32_t item_end) const
  {
    return tiles_per_block ? (item_end - 1) / tiles_per_block - item_begin / tiles_per_block + 1 : n_splits;
  }

  /* The same of any item, whosever tiles these are. Of an item that is not shared the first is not told. */
  __host__ __device__ int32_t first_block_of(int32_t item, int32_t item_begin) const
  {
    return tiles_per_block ? item_begin / tiles_per_block : item * blocks_per_item;
  }
  __host__ __device__ int32_t n_blocks_of(int32_t item_begin, int32_t item_end) const
  {
    if (tiles_per_block) return n_blocks(item_begin, item_end);
    const int32_t most = (item_end - item_begin + MIN_TILES_PER_BLOCK - 1) / MIN_TILES_PER_BLOCK;
    return blocks_per_item == 0 ? 1 : most < blocks_per_item ? most : blocks_per_item;
  }
};

__host__ __device__ __forceinline__ int32_t divide_up(int32_t a, int32_t b)
{
  return (a + b - 1) / b;
}

/* What thread block number block of n_blocks takes. first_tile: of each item on the list, then the list's length;
 * longest: tiles of the longest item. */
__host__ __device__ inline block_tiles divide_tiles(const int32_t *first_tile, int32_t n_items, int32_t longest,
                                                    int32_t n_blocks, int32_t block)
{
  if (n_items == 0) return {0, 0, 1, 0, 1, 0};
  const int32_t n_tiles = first_tile[n_items], each = divide_up(n_tiles, n_blocks);
  const int32_t even = each > MIN_TILES_PER_BLOCK ? each : MIN_TILES_PER_BLOCK, limit = even + ITEM_COST_TILES;
  if (n_items > n_blocks) {
    const int32_t items = divide_up(n_items, n_blocks);
    if (items * longest <= limit) {
      const int32_t first = block * items < n_items ? block * items : n_items;
      return {first_tile[first], first_tile[first + items < n_items ? first + items : n_items], 0, 0, 1, 0};
    }
  } else {
    const int32_t room = n_blocks / n_items, wanted = divide_up(longest, MIN_TILES_PER_BLOCK);
    const int32_t most = room < wanted ? room : wanted;
    if (divide_up(longest, most) <= limit) {
      const int32_t item = block / most, split = block % most;
      if (item >= n_items) return {0, 0, 0, 0, 1, most};
      const int32_t first = first_tile[item], n = first_tile[item + 1] - first, own = divide_up(n, MIN_TILES_PER_BLOCK);
      const int32_t n_splits = own < most ? own : most;
      if (split >= n_splits) return {0, 0, 0, 0, 1, most};
      return {first + n * split / n_splits, first + n * (split + 1) / n_splits, 0, split, n_splits, most};
    }
  }
  const int32_t begin = block * even < n_tiles ? block * even : n_tiles;
  return {begin, begin + even < n_tiles ? begin + even : n_tiles, even, 0, 1, 0};
}

/* The items of a launch, in shared memory. */
struct work_list {
  int32_t first_tile[YK_CUDA_LATENT_ROWS + 1]; /* of each item; then the list's length */
  int32_t first_row[YK_CUDA_LATENT_ROWS], end_row[YK_CUDA_LATENT_ROWS];
  int32_t seq[YK_CUDA_LATENT_ROWS], n_tokens[YK_CUDA_LATENT_ROWS]; /* n_tokens: that the item's last row sees */
  int32_t item_of_row[YK_CUDA_LATENT_ROWS];                        /* that begins with the row; -1: none does */
  int32_t tiles_of_warp[YK_CUDA_LATENT_ROWS / 32], items_of_warp[YK_CUDA_LATENT_ROWS / 32];
  int32_t n_items, longest;

  /* First of the rows behind `row` that is of another item. */
  static __device__ int32_t end_of_item(const params &p, int32_t row, int32_t seq)
  {
    const int32_t end = min((row / p.tile_rows + 1) * p.tile_rows, p.n_rows);
    do row++;
    while (row < end && p.kv_slots[row] >= 0 && p.seq_of_row[row] == seq);
    return row;
  }

  /* Called by the whole thread block, of at least YK_CUDA_LATENT_ROWS threads; reads the step's description alone. */
  __device__ void build(const params &p)
  {
    const int row = threadIdx.x, warp = row / 32, lane = row % 32;
    bool is_item = false;
    int32_t own_seq = 0, end = 0, tokens = 0;
    if (row < YK_CUDA_LATENT_ROWS && row < p.n_rows) {
      const int32_t before = max(row - 1, 0), slot = p.kv_slots[row], slot_before = p.kv_slots[before];
      const int32_t seq_before = p.seq_of_row[before];
      own_seq = p.seq_of_row[row];
      tokens = p.positions[row] + 1;
      /* A padding row is of no item. */
      is_item = slot >= 0 && (row % p.tile_rows == 0 || slot_before < 0 || seq_before != own_seq);
      end = row + 1;
      if (is_item && p.tile_rows > 1) {
        end = end_of_item(p, row, own_seq);
        tokens = p.positions[end - 1] + 1;
      }
    }
    const int32_t tiles = is_item ? divide_up(tokens, WGMMA_TOKENS) : 0;
    const uint32_t items = __ballot_sync(~0u, is_item);
    int32_t sum = tiles;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t before = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (row == 0) longest = 0;
    if (lane == 31 && row < YK_CUDA_LATENT_ROWS) {
      tiles_of_warp[warp] = sum;
      items_of_warp[warp] = __popc(items);
    }
    __syncthreads();
    if (row < YK_CUDA_LATENT_ROWS) {
      int32_t tile = sum - tiles, item = __popc(items & ((1u << lane) - 1));
      for (int w = 0; w < warp; w++) {
        tile += tiles_of_warp[w];
        item += items_of_warp[w];
      }
      item_of_row[row] = is_item ? item : -1;
      if (is_item) {
        first_tile[item] = tile;
        first_row[item] = row;
        end_row[item] = end;
        seq[item] = own_seq;
        n_tokens[item] = tokens;
        atomicMax(&longest, tiles);
      }
      if (row == YK_CUDA_LATENT_ROWS - 1) {
        n_items = item + is_item;
        first_tile[item + is_item] = tile + tiles;
      }
    }
    __syncthreads();
  }
};

/* Where the partial results of a row are that is an item by itself; mine: of any thread block. */
__device__ inline item_splits splits_of_row(const work_list &list, const block_tiles &mine, int32_t row)
{
  const int32_t item = list.item_of_row[row], first = list.first_tile[item], end = list.first_tile[item + 1];
  return {row, mine.first_block_of(item, first), mine.n_blocks_of(first, end)};
}

/* What a thread block takes of one item. */
struct segment {
  int32_t item, begin, end; /* tiles, of the item's own */
  int32_t seq, first_row, n_rows, n_tokens;
  bool is_whole, begins; /* all of the item; at its first tile */

  __device__ int32_t n_tiles() const
  {
    return end - begin;
  }
};

/* The segment that begins at tile `at` of the list. item: of this tile or an earlier one. */
__device__ inline segment segment_at(const work_list &list, const block_tiles &mine, int32_t at, int32_t item)
{
  while (at >= list.first_tile[item + 1]) item++;
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
