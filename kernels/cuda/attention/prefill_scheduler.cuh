/* prefill_scheduler.cuh - the tile scheduler of prefill: the division of a step into work tiles. A work tile (tile M)
 * is a run of consecutive tokens of one sequence times the query heads of one KV head, GQA-packed: row r of the tile is
 * token r / n_heads, head r % n_heads. Keys are processed in tiles (tile N) of consecutive tokens. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_SCHEDULER_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_SCHEDULER_CUH

#include "kernels/cuda/attention/params.cuh"
#include "kernels/cuda/attention/prefill_splits.cuh"
#include "kernels/cuda/common/reduce.cuh"

namespace yk_attn {

struct work_tile {
  int32_t seq; /* -1: no tile */
  int32_t kv_head, head_begin, n_heads;
  int32_t row, n_rows; /* row in the step of the first token; number of packed rows in use */
  int32_t position;    /* position of the first token in its sequence */
  int32_t kv_tokens;
  int32_t key_tile_begin, key_tile_end; /* of a split work tile, those of one split */
  int32_t split, n_splits;              /* number of the split; number of splits, 1 if the work tile is not split */
  int32_t first_result;                 /* of a split work tile: partial result of its first split in the workspace */
};

/* The last position that the query at a position attends to minus the first, plus 1. */
__device__ __forceinline__ int32_t n_visible_at(const params &p, int32_t position)
{
  return position + 1 - first_visible_at(p, position);
}

/* A sequence's work tiles. A later row of a sequence sees at least as many tokens as an earlier one, except in chunks,
 * which begin anew: sequences with chunks are not split. */
template <int TILE_N>
__device__ sequence_tiles tiles_of(const params &p, int32_t rows, int32_t kv_tokens, int32_t tokens_per_tile)
{
  if (rows < (p.takes_single_rows ? 1 : 2) || kv_tokens <= 0) return {0, 0, 0};
  const int32_t first = kv_tokens - rows;
  const int32_t fewest = p.window_is_chunk ? 1 : n_visible_at(p, first), mean = n_visible_at(p, first + rows / 2);
  return {(rows + tokens_per_tile - 1) / tokens_per_tile * p.heads.n_kv_heads, (mean + TILE_N - 1) / TILE_N,
          (fewest + TILE_N - 1) / TILE_N};
}

/* Key tiles of the step's work tiles. Called by a whole warp. */
template <int TILE_N> __device__ int32_t count_key_tiles(const params &p, int32_t tokens_per_tile)
{
  int32_t n = 0;
#pragma unroll 4
  for (int32_t seq = static_cast<int32_t>(threadIdx.x % 32); seq < p.n_seqs; seq += 32) {
    const int32_t rows = p.row_starts[seq + 1] - p.row_starts[seq];
    n += tiles_of<TILE_N>(p, rows, p.kv_tokens[seq], tokens_per_tile).n_key_tiles();
  }
  return yk_cuda::warp_sum(n);
}

/* Finds work tiles by number, ordered by sequence, then from the last tokens (which have most keys) to the first, then
 * by KV head, then by split. The splits of a work tile are numbered like work tiles. Called by a whole warp, with
 * rising numbers; each lane holds one of 32 sequences. TILE_N: tokens of a key tile. */
template <int TILE_N> struct tile_scheduler {
  int32_t n_key_tiles = 0; /* of the step, by count_key_tiles; 0: no work tile is split */
  int32_t chunk = -1;      /* the 32 current sequences */
  int32_t end = 0;         /* work tiles of these and of earlier sequences */
  int32_t n_results = 0;   /* their partial results */
  /* the lane's sequence: its first work tile, splits of each of them, partial results of earlier sequences */
  int32_t row, rows, kv, start, n_splits, first_result;

  __device__ void load_chunk(const params &p, int32_t tokens_per_tile)
  {
    const int32_t seq = ++chunk * 32 + static_cast<int32_t>(threadIdx.x % 32);
    row = rows = kv = 0;
    if (seq < p.n_seqs) {
      row = p.row_starts[seq];
      rows = p.row_starts[seq + 1] - row;
      kv = p.kv_tokens[seq];
    }
    const sequence_tiles of_seq = tiles_of<TILE_N>(p, rows, kv, tokens_per_tile);
    n_splits = n_key_tiles > 0 ? of_seq.n_splits(n_key_tiles, static_cast<int32_t>(gridDim.x)) : 1;
    const int32_t tiles = of_seq.n * n_splits;
    int32_t sum = yk_cuda::warp_prefix_sum(tiles);
    start = end + sum - tiles;
    end += __shfl_sync(~0u, sum, 31);
    if (!__any_sync(~0u, n_splits > 1)) return;
    const int32_t results = n_splits > 1 ? tiles : 0;
    sum = yk_cuda::warp_prefix_sum(results);
    first_result = n_results + sum - results;
    n_results += __shfl_sync(~0u, sum, 31);
  }

  __device__ work_tile find(const params &p, int32_t tile, int32_t tokens_per_tile)
  {
    while (tile >= end) {
      if ((chunk + 1) * 32 >= p.n_seqs) {
        work_tile none = {};
        none.seq = -1;
        return none;
      }
      load_chunk(p, tokens_per_tile);
    }
    /* Later sequences have later starts; earlier ones that start at the same number have no tiles. */
    const int from = 31 - __clz(static_cast<int>(__ballot_sync(~0u, tile >= start)));
    const int32_t splits = __shfl_sync(~0u, n_splits, from), number = tile - __shfl_sync(~0u, start, from);
    const int32_t index = splits > 1 ? number / splits : number;
    work_tile w = describe(p, index, chunk * 32 + from, __shfl_sync(~0u, row, from), __shfl_sync(~0u, rows, from),
                           __shfl_sync(~0u, kv, from), tokens_per_tile);
    if (splits > 1) {
      w.n_splits = splits;
      w.split = number - index * splits;
      w.first_result = __shfl_sync(~0u, first_result, from) + number - w.split;
      const key_tile_range mine = key_tile_range{w.key_tile_begin, w.key_tile_end}.part(w.split, splits);
      w.key_tile_begin = mine.begin;
      w.key_tile_end = mine.end;
    }
    return w;
  }

  /* Work tile number index of a sequence that has `rows` rows from `row` on, and kv tokens. */
  __device__ static work_tile describe(const params &p, int32_t index, int32_t seq, int32_t row, int32_t rows,
                                       int32_t kv, int32_t tokens_per_tile)
  {
    const int32_t n_kv = p.heads.n_kv_heads, n_tiles = (rows + tokens_per_tile - 1) / tokens_per_tile;
    const int32_t token = max(0, n_tiles - 1 - index / n_kv) * tokens_per_tile;
    const int32_t n_tokens = min(tokens_per_tile, rows - token);
    work_tile w;
    w.seq = seq;
    w.kv_head = index % n_kv;
    const head_range heads = q_heads_of(p.heads, w.kv_head);
    w.head_begin = heads.begin;
    w.n_heads = max(1, heads.end - heads.begin);
    w.row = row + token;
    w.n_rows = n_tokens * w.n_heads;
    w.position = kv - rows + token;
    w.kv_tokens = kv;
    w.key_tile_begin = first_visible_at(p, w.position) / TILE_N;
    w.key_tile_end = (w.position + n_tokens + TILE_N - 1) / TILE_N;
    w.split = w.first_result = 0;
    w.n_splits = 1;
    return w;
  }
};

} // namespace yk_attn

#endif
