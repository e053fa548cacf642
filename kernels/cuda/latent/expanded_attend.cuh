/* expanded_attend.cuh - causal attention with expanded keys and values on wgmma: heads of nope_dim + rope_dim for
 * scores and value_dim for values.
 *
 * A work tile is 128 rows of one sequence and one head. A producer warp loads queries, keys and values by TMA: the nope
 * part of keys from `made`, the rotated part, equal for all heads, from the cache. Two consumer warpgroups compute 64
 * rows each:
 *
 *   S = Q K^T | mask | online softmax | O += P V
 *
 * The scores of the next tile of keys are issued with the output of the current tile, and the softmax of one warpgroup
 * overlaps the products of the other (ping-pong). A counter assigns work tiles. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_ATTEND_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_ATTEND_CUH

#include "kernels/cuda/latent/expanded_make.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

constexpr int KEY_BLOCKS = (NOPE_DIM + ROPE_DIM) / 64, EXPANDED_VALUE_BLOCKS = VALUE_DIM / 64;
constexpr int ATTEND_THREADS = 384, ATTEND_STAGES = 2;

struct row_tile {
  int32_t seq;                   /* -1: no more tiles */
  int32_t row, n_rows, position; /* first row in the step; in the sequence */
  int32_t first_key_tile, n_key_tiles, head;
};

struct attend_shared {
  alignas(1024) char q[KEY_BLOCKS][TOKEN_BLOCK_BYTES];
  alignas(1024) char k[ATTEND_STAGES][KEY_BLOCKS][TOKEN_BLOCK_BYTES];
  alignas(1024) char v[ATTEND_STAGES][EXPANDED_VALUE_BLOCKS][TOKEN_BLOCK_BYTES];
  uint64_t q_full, q_empty, k_full[ATTEND_STAGES], k_empty[ATTEND_STAGES], v_full[ATTEND_STAGES],
      v_empty[ATTEND_STAGES];
  row_tile work;
};

/* Work tile number `index`. Tiles are ordered by head, so that thread blocks share a head's keys in the L2 cache;
 * within a sequence the last rows, which have most keys, come first. */
__device__ inline row_tile find_row_tile(const expanded_work &work, const head_group &heads, int32_t index)
{
  row_tile t = {};
  t.seq = -1;
  if (index >= work.n_row_tiles * heads.n) return t;
  const int32_t tile = index % work.n_row_tiles;
  int32_t i = 0;
  while (i + 1 < work.n_seqs && work.seqs[i + 1].first_row_tile <= tile) i++;
  const expanded_seq of = work.seqs[i];
  const int32_t n_tiles = (of.n_rows + EXPANDED_TILE - 1) / EXPANDED_TILE;
  const int32_t first = (n_tiles - 1 - (tile - of.first_row_tile)) * EXPANDED_TILE;
  t.seq = of.seq;
  t.row = of.first_row + first;
  t.n_rows = min(EXPANDED_TILE, of.n_rows - first);
  t.position = of.n_tokens - of.n_rows + first;
  t.first_key_tile = of.first_key_tile;
  t.n_key_tiles = (t.position + t.n_rows + EXPANDED_TILE - 1) / EXPANDED_TILE;
  t.head = index / work.n_row_tiles;
  return t;
}

#if defined(YK_HAVE_SM90A)

struct attend_maps {
  const CUtensorMap *q, *made, *cache;
};

/* Called by one warp. Key tiles go from the last visible tile to the first; copies are issued in the order in which
 * consumers read: K0, K1, V0, K2, V1, ... */
__device__ inline void attend_producer(attend_shared &s, const params &p, expanded_work *work, const head_group &heads,
                                       int32_t *next_tile, const attend_maps &maps)
{
  const int lane = threadIdx.x % 32;
  uint32_t q_phase = 1;
  yk_cuda::ring_position k_at = {0, 1}, v_at = {0, 1};
  for (;;) {
    int32_t index = 0;
    if (lane == 0) index = atomicAdd(next_tile, 1);
    const row_tile t = find_row_tile(*work, heads, __shfl_sync(~0u, index, 0));
    mbarrier_wait_loop(&s.q_empty, q_phase);
    q_phase ^= 1;
    if (elect_one()) {
      s.work = t;
      if (t.seq < 0) {
        mbarrier_arrive(&s.q_full);
      } else {
        mbarrier_arrive_expect(&s.q_full, KEY_BLOCKS * TOKEN_BLOCK_BYTES);
        for (int block = 0; block < KEY_BLOCKS; block++)
          tensor_copy(shared_address(s.q[block]), maps.q, (heads.first + t.head) * (NOPE_DIM + ROPE_DIM) + block * 64,
                      t.row, &s.q_full);
      }
    }
    __syncwarp();
    if (t.seq < 0) break;
    const int32_t *table = p.block_tables + static_cast<int64_t>(t.seq) * p.block_table_stride;
    const int32_t n_pages = (t.position + t.n_rows + YK_KV_BLOCK_TOKENS - 1) / YK_KV_BLOCK_TOKENS;
    const int32_t first_made = static_cast<int32_t>(t.head * heads.made_tokens) + t.first_key_tile * EXPANDED_TILE;
    const auto load_k = [&](int32_t tile) {
      constexpr int PAGES_OF_TILE = EXPANDED_TILE / YK_KV_BLOCK_TOKENS;
      /* pages after the last one are masked */
      const int32_t page = min(tile * PAGES_OF_TILE + lane % PAGES_OF_TILE, n_pages - 1);
      const int32_t own = table[page] * YK_KV_BLOCK_TOKENS;
      mbarrier_wait_loop(&s.k_empty[k_at.stage], k_at.phase);
      if (elect_one()) {
        mbarrier_arrive_expect(&s.k_full[k_at.stage], KEY_BLOCKS * TOKEN_BLOCK_BYTES);
        for (int block = 0; block < NOPE_DIM / 64; block++)
          tensor_copy(shared_address(s.k[k_at.stage][block]), maps.made, block * 64, first_made + tile * EXPANDED_TILE,
                      &s.k_full[k_at.stage]);
      }
      for (int i = 0; i < PAGES_OF_TILE; i++) {
        const int32_t row = __shfl_sync(~0u, own, i);
        if (elect_one())
          tensor_copy(shared_address(s.k[k_at.stage][KEY_BLOCKS - 1]) + i * YK_KV_BLOCK_TOKENS * 128, maps.cache,
                      KV_RANK, row, &s.k_full[k_at.stage]);
      }
      k_at.advance(ATTEND_STAGES);
    };
    const auto load_v = [&](int32_t tile) {
      mbarrier_wait_loop(&s.v_empty[v_at.stage], v_at.phase);
      if (elect_one()) {
        mbarrier_arrive_expect(&s.v_full[v_at.stage], EXPANDED_VALUE_BLOCKS * TOKEN_BLOCK_BYTES);
        for (int block = 0; block < EXPANDED_VALUE_BLOCKS; block++)
          tensor_copy(shared_address(s.v[v_at.stage][block]), maps.made, NOPE_DIM + block * 64,
                      first_made + tile * EXPANDED_TILE, &s.v_full[v_at.stage]);
      }
      __syncwarp();
      v_at.advance(ATTEND_STAGES);
    };
    load_k(t.n_key_tiles - 1);
    for (int32_t tile = t.n_key_tiles - 2; tile >= 0; tile--) {
      load_k(tile);
      load_v(tile + 1);
    }
    load_v(0);
  }
}

/* Lane (g, t) = (lane / 4, lane % 4) of warp w holds rows 16 w + g and 16 w + g + 8 of the warpgroup's 64. */
template <typename T> struct attend_consumer {
  static constexpr int N_S = EXPANDED_TILE / 8, N_O = VALUE_DIM / 8; /* tiles of 8 columns: of scores, of the output */
  static constexpr int PING_PONG = 1;                                /* the first of two named barriers, 1 and 2 */

  attend_shared &s;
  const params &p;
  const head_group &heads;
  const int warpgroup;
  yk_cuda::ring_position k_at, v_at;
  int32_t position[2];
  float m[2], l[2];

  __device__ __forceinline__ static bool first_lane()
  {
    return threadIdx.x % 32 == 0;
  }

  __device__ __forceinline__ void issue_scores(float (&score)[N_S][4], uint64_t q) const
  {
    const uint64_t k = tile_descriptor(shared_address(s.k[k_at.stage]), 1024, 16);
#pragma unroll
    for (int i = 0; i < KEY_BLOCKS * 4; i++) {
      const uint64_t step = descriptor_step(i / 4 * TOKEN_BLOCK_BYTES + i % 4 * 32);
      wgmma<T, EXPANDED_TILE>::run_ss(score, q + step, k + step, i > 0);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_output(float (&o)[N_O][4], const uint32_t (&prob)[N_S / 2][4]) const
  {
    const uint64_t v = tile_descriptor(shared_address(s.v[v_at.stage]), 1024, TOKEN_BLOCK_BYTES);
#pragma unroll
    for (int i = 0; i < EXPANDED_TILE / 16; i++)
      wgmma<T, VALUE_DIM>::template run_rs<true>(o, prob[i], v + descriptor_step(i * 2048), true);
    wgmma_commit();
  }

  __device__ __forceinline__ void mask(float (&score)[N_S][4], int32_t tile) const
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t last = position[e] - tile * EXPANDED_TILE - static_cast<int32_t>(threadIdx.x % 4) * 2;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
        if (8 * i > last) score[i][2 * e] = -INFINITY;
        if (8 * i + 1 > last) score[i][2 * e + 1] = -INFINITY;
      }
    }
  }

  __device__ __forceinline__ void compute(const row_tile &t)
  {
    const uint64_t q = tile_descriptor(shared_address(s.q) + warpgroup * 64 * 128, 1024, 16);
    const int row = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    float score[N_S][4], o[N_O][4] = {}, rescale[2];
    const float scale_log2[2] = {p.scale_log2, p.scale_log2};
    uint32_t prob[N_S / 2][4];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      position[e] = t.position + min(row + 8 * e, t.n_rows - 1);
      m[e] = -INFINITY;
      l[e] = 0.0f;
    }
    mbarrier_wait_loop(&s.k_full[k_at.stage], k_at.phase);
    wgmma_fence();
    issue_scores(score, q);
    wgmma_wait<0>();
    pin(score);
    if (first_lane()) mbarrier_arrive(&s.k_empty[k_at.stage]);
    k_at.advance(ATTEND_STAGES);
    mask(score, t.n_key_tiles - 1);
    yk_cuda::online_softmax(score, scale_log2, m, l, rescale);
    yk_cuda::round_to_operand<T>(score, prob);
    for (int32_t tile = t.n_key_tiles - 2; tile >= 0; tile--) {
      mbarrier_wait_loop(&s.k_full[k_at.stage], k_at.phase);
      named_barrier_sync(PING_PONG + warpgroup, 256);
      wgmma_fence();
      issue_scores(score, q);
      mbarrier_wait_loop(&s.v_full[v_at.stage], v_at.phase);
      wgmma_fence();
      issue_output(o, prob);
      named_barrier_arrive(PING_PONG + 1 - warpgroup, 256);
      wgmma_wait<1>();
      pin(score);
      if (first_lane()) mbarrier_arrive(&s.k_empty[k_at.stage]);
      k_at.advance(ATTEND_STAGES);
      if ((tile + 1) * EXPANDED_TILE > t.position + 1) mask(score, tile);
      yk_cuda::online_softmax(score, scale_log2, m, l, rescale);
      /* The tile has already arrived. The branch in this wait keeps the assembler from moving wgmma_wait before the
       * softmax. */
      mbarrier_wait_loop(&s.v_full[v_at.stage], v_at.phase);
      wgmma_wait<0>();
      pin(o);
      if (first_lane()) mbarrier_arrive(&s.v_empty[v_at.stage]);
      v_at.advance(ATTEND_STAGES);
      yk_cuda::round_to_operand<T>(score, prob);
      yk_cuda::scale_rows(o, rescale);
    }
    if (first_lane()) mbarrier_arrive(&s.q_empty);
    mbarrier_wait_loop(&s.v_full[v_at.stage], v_at.phase);
    wgmma_fence();
    issue_output(o, prob);
    wgmma_wait<0>();
    pin(o);
    if (first_lane()) mbarrier_arrive(&s.v_empty[v_at.stage]);
    v_at.advance(ATTEND_STAGES);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float sum = yk_cuda::quad_sum(l[e]);
      T *y = static_cast<T *>(p.y) +
             (static_cast<int64_t>(t.row + row + 8 * e) * p.layout.n_heads + heads.first + t.head) * VALUE_DIM;
      yk_cuda::store_row<T>(y, o, e, sum > 0.0f ? 1.0f / sum : 0.0f, row + 8 * e < t.n_rows);
    }
  }

  __device__ void run()
  {
    uint32_t q_phase = 0;
    if (warpgroup == 1) named_barrier_arrive(PING_PONG, 256);
    for (;; q_phase ^= 1) {
      mbarrier_wait_loop(&s.q_full, q_phase);
      const row_tile t = s.work;
      if (t.seq < 0) break;
      compute(t);
    }
  }
};

#endif

/* Grid: one thread block per multiprocessor. */
template <typename T>
__global__ void __launch_bounds__(ATTEND_THREADS, 1)
    attend_heads_kernel(const params p, expanded_work *work, const head_group heads, int group,
                        const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap made,
                        const __grid_constant__ CUtensorMap cache)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  attend_shared &s = *reinterpret_cast<attend_shared *>(memory);
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    mbarrier_init(&s.q_full, 1);
    mbarrier_init(&s.q_empty, 8);
    for (int i = 0; i < ATTEND_STAGES; i++) {
      mbarrier_init(&s.k_full[i], 1);
      mbarrier_init(&s.k_empty[i], 8);
      mbarrier_init(&s.v_full[i], 1);
      mbarrier_init(&s.v_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (warpgroup == 0) {
    lower_registers<40>();
    if (threadIdx.x < 32) attend_producer(s, p, work, heads, &work->next_tile[group], {&q, &made, &cache});
  } else {
    raise_registers<232>();
    attend_consumer<T> consumer = {s, p, heads, warpgroup - 1, {}, {}, {}, {}, {}};
    consumer.run();
  }
#endif
}

} // namespace yk_latent

#endif
