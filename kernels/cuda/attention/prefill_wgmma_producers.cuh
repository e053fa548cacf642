/* prefill_wgmma_producers.cuh - the producer warps of prefill on Hopper: one for K and one for V (TMA), two for the
 * work tiles and their queries (cp.async). K and V have separate warps because one warp cannot issue the copies fast
 * enough. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_PRODUCERS_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_PRODUCERS_CUH

#include "kernels/cuda/attention/prefill_wgmma_shared.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

#if defined(YK_HAVE_SM90A)

namespace yk_attn {

/* Two warps: take work tiles from the counter in the workspace and load their queries, one work tile ahead of the
 * consumers. The counter is a dynamic tile scheduler: long tiles come first, and the next free thread block takes the
 * next tile. The bits of a tile do not depend on the thread block that computes it. */
template <typename T, int HD> struct q_producer {
  using tiles = prefill_tiles<HD>;
  /* chunks of 8 elements per row; threads that load a row, one chunk each */
  static constexpr int CHUNKS = HD / 8, THREADS_OF_ROW = HD > 128 ? 32 : 16;
  static constexpr int ROWS_AT_ONCE = Q_PRODUCER_THREADS / THREADS_OF_ROW;
  /* Whether a thread block takes the number of a work tile one tile early, so that it need not wait for the counter.
   * Work tiles of heads of 256 are few and long: one that is taken early may be one too many. */
  static constexpr bool TAKES_EARLY = HD <= 128;

  prefill_shared<HD> &s;
  const params &p;

  /* Issues the copies of a work tile's queries; rows past the last row become zeros. */
  __device__ void load(const work_tile &w, char *tile) const
  {
    const int tid = threadIdx.x % Q_PRODUCER_THREADS, c = tid % THREADS_OF_ROW;
    const T *q = static_cast<const T *>(p.q) + static_cast<int64_t>(w.row) * p.q_stride +
                 static_cast<int64_t>(w.head_begin) * HD + c * 8;
    const uint32_t dst = shared_address(tile) + c / 8 * tiles::Q_BLOCK_BYTES;
    int32_t r = tid / THREADS_OF_ROW, token = r / w.n_heads, head = r % w.n_heads;
    if (c >= CHUNKS) return;
    for (; r < WGMMA_TILE_M; r += ROWS_AT_ONCE) {
      const bool valid = r < w.n_rows;
      const int64_t src = valid ? token * p.q_stride + head * HD : 0;
      cp_async_16(dst + r * 128 + ((c ^ r) & 7) * 16, q + src, valid);
      for (head += ROWS_AT_ONCE; head >= w.n_heads; head -= w.n_heads) token++;
    }
  }

  /* n_key_tiles: of the step, in the first warp; 0 if work tiles are not split. */
  __device__ void run(int32_t tokens_per_tile, int32_t n_key_tiles)
  {
    const int tid = threadIdx.x % Q_PRODUCER_THREADS;
    tile_scheduler<tiles::TILE_N> scheduler;
    scheduler.n_key_tiles = n_key_tiles;
    int32_t tile = 0;
    if (TAKES_EARLY && tid == 0) tile = atomicAdd(&p.counters->next_tile, 1);
    yk_cuda::ring_position at, previous = {1, 1};
    for (bool more = true; more; previous = at, at.advance(2)) {
      mbarrier_wait_loop(&s.q_empty[at.stage], at.phase ^ 1);
      if (tid < 32) {
        if (!TAKES_EARLY && tid == 0) tile = atomicAdd(&p.counters->next_tile, 1);
        const work_tile w = scheduler.find(p, __shfl_sync(~0u, tile, 0), tokens_per_tile);
        if (tid == 0) {
          s.work[at.stage] = w;
          mbarrier_arrive(&s.work_full[at.stage]);
          /* arrives while this tile is loaded */
          if (TAKES_EARLY && w.seq >= 0) tile = atomicAdd(&p.counters->next_tile, 1);
        }
      }
      named_barrier_sync(BARRIER_Q_PRODUCERS, Q_PRODUCER_THREADS);
      const work_tile w = s.work[at.stage];
      more = w.seq >= 0;
      if constexpr (tiles::Q_STAGES == 1) /* passes at once for the first work tile */
        mbarrier_wait_loop(&s.q_empty[previous.stage], previous.phase);
      if (more) load(w, s.q[at.stage % tiles::Q_STAGES]);
      cp_async_commit();
      cp_async_wait<0>();
      fence_async_shared();
      mbarrier_arrive(&s.q_full[at.stage]);
    }
    /* The last thread block to find no further tile resets the counters for the next launch. */
    if (tid == 0 && atomicAdd(&p.counters->n_done, 1) == static_cast<int32_t>(gridDim.x) - 1) {
      p.counters->next_tile = 0;
      p.counters->n_done = 0;
    }
  }
};

/* One warp for K (IS_K) and one for V: loads the work tile's key tiles by TMA, page by page, from the last visible tile
 * to the first. K and V tiles share one ring, in the order in which the consumers read them: K0, K1, V0, K2, V1, ...
 * K(n-1), V(n-2), V(n-1). */
template <int HD, bool IS_K> struct kv_producer {
  using tiles = prefill_tiles<HD>;
  static constexpr int KEY_TILE_PAGES = tiles::KEY_TILE_PAGES, KV_STAGES = tiles::KV_STAGES;

  prefill_shared<HD> &s;
  const params &p;
  const void *map;
  uint32_t tail_phase; /* phase of v_tail */

  /* The tensor map's row of page lane % KEY_TILE_PAGES of a key tile; past the sequence's last page, the row of that
   * page. */
  __device__ __forceinline__ int32_t map_row(const work_tile &w, int32_t tile) const
  {
    const int32_t last = (w.kv_tokens - 1) / PAGE_TOKENS, lane = threadIdx.x % 32;
    const int32_t page = min(tile * KEY_TILE_PAGES + lane % KEY_TILE_PAGES, last);
    return (p.block_tables[static_cast<int64_t>(w.seq) * p.block_table_stride + page] * p.heads.n_kv_heads +
            w.kv_head) *
           PAGE_TOKENS;
  }

  __device__ __forceinline__ void copy(char *tile, int32_t row, uint64_t *bar)
  {
    if (elect_one()) mbarrier_arrive_expect(bar, tiles::N_COLUMN_BLOCKS * tiles::KV_BLOCK_BYTES);
#pragma unroll
    for (int page = 0; page < KEY_TILE_PAGES; page++) {
      const int32_t page_row = __shfl_sync(~0u, row, page);
      if (!elect_one()) continue;
#pragma unroll
      for (int block = 0; block < tiles::N_COLUMN_BLOCKS; block++)
        tensor_copy(shared_address(tile) + block * tiles::KV_BLOCK_BYTES + page * PAGE_TOKENS * 128, map, block * 64,
                    page_row, bar);
    }
  }

  /* Loads tile number n of the thread block's sequence of K and V tiles. The cache may have any content after the
   * sequence's last token, and a NaN in V would survive a probability of 0: those rows of V are set to zero before
   * consumers read the tile. n_valid: tokens of the sequence in this tile. */
  __device__ void load(int32_t n, int32_t row, int32_t n_valid)
  {
    const int stage = n % KV_STAGES;
    char *tile = s.kv[stage];
    mbarrier_wait_loop(&s.kv_empty[stage], (n / KV_STAGES & 1) ^ 1);
    if (IS_K || n_valid >= tiles::TILE_N || n_valid % PAGE_TOKENS == 0) {
      copy(tile, row, &s.kv_full[stage]);
      return;
    }
    copy(tile, row, &s.v_tail);
    mbarrier_wait_loop(&s.v_tail, tail_phase);
    tail_phase ^= 1;
    for (int i = n_valid * 8 + threadIdx.x % 32; i < tiles::TILE_N * 8; i += 32) {
      for (int block = 0; block < tiles::N_COLUMN_BLOCKS; block++)
        *reinterpret_cast<uint4 *>(tile + block * tiles::KV_BLOCK_BYTES + i * 16) = make_uint4(0, 0, 0, 0);
    }
    fence_async_shared();
    __syncwarp();
    if (elect_one()) mbarrier_arrive(&s.kv_full[stage]);
  }

  __device__ void run()
  {
    int32_t n_before = 0; /* K and V tiles of earlier work tiles */
    for (yk_cuda::ring_position next;; next.advance(2)) {
      mbarrier_wait_loop(&s.work_full[next.stage], next.phase);
      const work_tile w = s.work[next.stage];
      __syncwarp();
      if (elect_one()) mbarrier_arrive(&s.q_empty[next.stage]);
      if (w.seq < 0) break;
      const int32_t n = w.key_tile_end - w.key_tile_begin;
      int32_t row = map_row(w, w.key_tile_end - 1);
      for (int32_t i = 0; i < n; i++) {
        const int32_t tile = w.key_tile_end - 1 - i;
        const int32_t next_row = map_row(w, max(tile - 1, w.key_tile_begin));
        const int32_t order = IS_K ? max(2 * i - 1, 0) : min(2 * i + 2, 2 * n - 1);
        load(n_before + order, row, w.kv_tokens - tile * tiles::TILE_N);
        row = next_row;
      }
      n_before += 2 * n;
    }
  }
};

} // namespace yk_attn

#endif // YK_HAVE_SM90A
#endif
