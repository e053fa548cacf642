/* prefill_scheduler.cuh - the tile scheduler of prefill: the division of a step into work tiles. A work tile (tile M)
 * is a run of consecutive tokens of one sequence times the query heads of one KV head, GQA-packed: row r of the tile is
 * token r / n_heads, head r % n_heads. Keys are processed in tiles (tile N) of consecutive tokens. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_SCHEDULER_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_SCHEDULER_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

struct work_tile {
  int32_t seq; /* -1: no tile */
  int32_t kv_head, head_begin, n_heads;
  int32_t row, n_rows; /* row in the step of the first token; number of packed rows in use */
  int32_t position;    /* position of the first token in its sequence */
  int32_t kv_tokens;
  int32_t key_tile_begin, key_tile_end;
};

/* Finds work tiles by number, ordered by sequence, then from the last tokens (which have most keys) to the first, then
 * by KV head. Called by a whole warp, with rising numbers; each lane holds one of 32 sequences. TILE_N: tokens of a key
 * tile. */
template <int TILE_N> struct tile_scheduler {
  /* the 32 current sequences; number of work tiles before them and of them */
  int32_t chunk = -1, before = 0, n_tiles = 0;
  int32_t row, rows, kv, start, tiles; /* the lane's sequence: its first work tile, and their number */

  __device__ void load_chunk(const params &p, int32_t new_chunk, int32_t tokens_per_tile)
  {
    const int32_t lane = threadIdx.x % 32, seq = new_chunk * 32 + lane;
    chunk = new_chunk;
    before += n_tiles;
    row = rows = kv = 0;
    if (seq < p.n_seqs) {
      row = p.row_starts[seq];
      rows = p.row_starts[seq + 1] - row;
      kv = p.kv_tokens[seq];
    }
    tiles = rows > 1 && kv > 0 ? (rows + tokens_per_tile - 1) / tokens_per_tile * p.heads.n_kv_heads : 0;
    int32_t sum = tiles;
    for (int offset = 1; offset < 32; offset *= 2) {
      int32_t other = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += other;
    }
    start = before + sum - tiles;
    n_tiles = __shfl_sync(~0u, sum, 31);
  }

  __device__ work_tile find(const params &p, int32_t tile, int32_t tokens_per_tile)
  {
    while (tile >= before + n_tiles) {
      if ((chunk + 1) * 32 >= p.n_seqs) {
        work_tile none = {};
        none.seq = -1;
        return none;
      }
      load_chunk(p, chunk + 1, tokens_per_tile);
    }
    const int from = __ffs(__ballot_sync(~0u, tile >= start && tile < start + tiles)) - 1;
    work_tile w =
        describe(p, tile - start, chunk * 32 + static_cast<int32_t>(threadIdx.x % 32), row, rows, kv, tokens_per_tile);
    int32_t *words = reinterpret_cast<int32_t *>(&w);
    for (int i = 0; i < static_cast<int>(sizeof w / 4); i++) words[i] = __shfl_sync(~0u, words[i], from);
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
    return w;
  }
};

} // namespace yk_attn

#endif
