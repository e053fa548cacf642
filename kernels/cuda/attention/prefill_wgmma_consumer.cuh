/* prefill_wgmma_consumer.cuh - a consumer warpgroup of prefill on Hopper: 64 packed query rows of each work tile.
 *
 * The scores of the next key tile and the output of the current tile are issued together, and the softmax of the next
 * tile runs while the tensor cores still compute the output. The two consumer warpgroups issue alternately (ping-pong),
 * so that the softmax of one overlaps the wgmma of the other. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_CONSUMER_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_CONSUMER_CUH

#include "kernels/cuda/attention/gates.cuh"
#include "kernels/cuda/attention/prefill_wgmma_shared.cuh"
#include "kernels/cuda/attention/prefill_wgmma_splits.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

#if defined(YK_HAVE_SM90A)

namespace yk_attn {

/* Lane (g, t) = (lane / 4, lane % 4) of warp i of the warpgroup holds its rows 16 i + g and 16 i + g + 8. */
template <typename T, int HD> struct prefill_consumer {
  using tiles = prefill_tiles<HD>;
  static constexpr int TILE_N = tiles::TILE_N, KV_STAGES = tiles::KV_STAGES;
  static constexpr int N_S = TILE_N / 8, N_O = HD / 8; /* tiles of 8 columns: of the scores, of the output */

  prefill_shared<HD> &s;
  const params &p;
  const int warpgroup; /* 0 or 1: rows from 64 warpgroup on, 64 of them */
  yk_cuda::ring_position kv;
  int32_t position[2]; /* positions of the two rows in the sequence */
  float scale_log2[2];
  float m[2], l[2];

  __device__ __forceinline__ static bool first_lane()
  {
    return threadIdx.x % 32 == 0;
  }

  /* S = Q K^T. q: descriptor of the warpgroup's rows. */
  __device__ __forceinline__ void issue_scores(float (&score)[N_S][4], uint64_t q, int32_t stage)
  {
    const uint64_t k = tile_descriptor(shared_address(s.kv[stage]), SWIZZLE_ATOM_BYTES, NO_BLOCK_STRIDE);
#pragma unroll
    for (int i = 0; i < HD / 16; i++) {
      const uint32_t within = i % 4 * 32; /* of a column block */
      wgmma<T, TILE_N>::run_ss(score, q + descriptor_step(i / 4 * tiles::Q_BLOCK_BYTES + within),
                               k + descriptor_step(i / 4 * tiles::KV_BLOCK_BYTES + within), i > 0);
    }
    wgmma_commit();
  }

  /* O += P V. */
  __device__ __forceinline__ void issue_output(float (&o)[N_O][4], const uint32_t (&prob)[N_S / 2][4], int32_t stage)
  {
    const uint64_t v = tile_descriptor(shared_address(s.kv[stage]), SWIZZLE_ATOM_BYTES, tiles::KV_BLOCK_BYTES);
#pragma unroll
    for (int i = 0; i < TILE_N / 16; i++)
      wgmma<T, HD>::template run_rs<true>(o, prob[i], v + descriptor_step(i * 16 * 128), true);
    wgmma_commit();
  }

  __device__ __forceinline__ void release(int32_t stage)
  {
    if (first_lane()) mbarrier_arrive(&s.kv_empty[stage]);
  }

  /* Sets scores of tokens after the row's position, or before its window, to minus infinity. */
  __device__ __forceinline__ void mask(float (&score)[N_S][4], int32_t tile) const
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t high = position[e] - tile * TILE_N - 2 * t;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (8 * i + c > high) score[i][2 * e + c] = -INFINITY;
        }
      }
      if (p.window_tokens <= 0) continue;
      const int32_t low = high - (position[e] - first_visible_at(p, position[e])) - 1;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (8 * i + c <= low) score[i][2 * e + c] = -INFINITY;
        }
      }
    }
  }

  /* all_visible: the first position that the work tile's last row attends to. */
  __device__ __forceinline__ static bool needs_mask(const work_tile &w, int32_t tile, int32_t all_visible)
  {
    return (tile + 1) * TILE_N > w.position + 1 || tile * TILE_N < all_visible;
  }

  /* Divides by the sums, applies the gates and writes the output. */
  __device__ __forceinline__ void store(const work_tile &w, float (&o)[N_O][4])
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int r = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      const int32_t row = w.row + r / w.n_heads, head = w.head_begin + r % w.n_heads;
      const float sum = add_sink(p, head, m[e] * scale_log2[e], yk_cuda::quad_sum(l[e]));
      const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
      if (p.heads.has_gates) gate_row(p.dtype, gates_of(p, row, head), o, e, r < w.n_rows);
      T *y = static_cast<T *>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * HD;
      yk_cuda::store_row<T>(y, o, e, factor, r < w.n_rows);
    }
  }

  /* Adds the warp's rows of a split to those of the other splits, and writes the output once all are there. The sum has
   * separate registers: wgmma cannot write registers that only some of the warps change. */
  __device__ __forceinline__ void join(const work_tile &w, const float (&o)[N_O][4])
  {
    const int warp = warpgroup * 4 + static_cast<int>(threadIdx.x % 128 / 32);
    if (__all_sync(~0u, 16 * warp >= w.n_rows)) return;
    const split_rows<HD> rows = {reinterpret_cast<split_result<HD> *>(p.partial_results) + w.first_result, warp,
                                 w.n_splits};
    rows.store(w.split, o, m, l);
    if (!rows.are_complete(&p.counters->arrived[w.first_result][warp])) return;
    float whole[N_O][4];
    rows.combine(scale_log2, whole, m, l);
    store(w, whole);
  }

  /* Computes one work tile. q: descriptor of the warpgroup's queries; q_empty: barrier to arrive on once they have been
   * read. */
  __device__ __forceinline__ void compute(const work_tile &w, uint64_t q, uint64_t *q_empty)
  {
    float score[N_S][4], o[N_O][4], rescale[2];
    uint32_t prob[N_S / 2][4];
    const int32_t all_visible = first_visible_at(p, w.position + (w.n_rows - 1) / w.n_heads);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int r = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      position[e] = w.position + min(r, w.n_rows - 1) / w.n_heads;
      scale_log2[e] = scale_log2_at(p, position[e]);
      m[e] = -INFINITY;
      l[e] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N_O; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[i][e] = 0.0f;
    }
    mbarrier_wait_loop(&s.kv_full[kv.stage], kv.phase);
    wgmma_fence();
    issue_scores(score, q, kv.stage);
    wgmma_wait<0>();
    pin(score);
    release(kv.stage);
    kv.advance(KV_STAGES);
    if (needs_mask(w, w.key_tile_end - 1, all_visible)) mask(score, w.key_tile_end - 1);
    yk_cuda::online_softmax(score, scale_log2, m, l, rescale);
    yk_cuda::round_to_operand<T>(score, prob);
    for (int32_t tile = w.key_tile_end - 2; tile >= w.key_tile_begin; tile--) {
      const int32_t k_stage = kv.stage;
      mbarrier_wait_loop(&s.kv_full[kv.stage], kv.phase);
      if (tiles::PING_PONG) named_barrier_sync(BARRIER_PING_PONG + warpgroup, PING_PONG_THREADS);
      wgmma_fence();
      issue_scores(score, q, kv.stage);
      kv.advance(KV_STAGES);
      mbarrier_wait_loop(&s.kv_full[kv.stage], kv.phase);
      wgmma_fence();
      issue_output(o, prob, kv.stage);
      if (tiles::PING_PONG) named_barrier_arrive(BARRIER_PING_PONG + 1 - warpgroup, PING_PONG_THREADS);
      wgmma_wait<1>();
      pin(score);
      release(k_stage);
      if (needs_mask(w, tile, all_visible)) mask(score, tile);
      yk_cuda::online_softmax(score, scale_log2, m, l, rescale);
      /* The V tile has already arrived. The branch in this wait keeps the assembler from moving wgmma_wait before the
       * softmax. */
      mbarrier_wait_loop(&s.kv_full[kv.stage], kv.phase);
      wgmma_wait<0>();
      pin(o);
      release(kv.stage);
      kv.advance(KV_STAGES);
      yk_cuda::round_to_operand<T>(score, prob);
      yk_cuda::scale_rows(o, rescale);
    }
    if (first_lane()) mbarrier_arrive(q_empty);
    mbarrier_wait_loop(&s.kv_full[kv.stage], kv.phase);
    wgmma_fence();
    issue_output(o, prob, kv.stage);
    wgmma_wait<0>();
    pin(o);
    release(kv.stage);
    kv.advance(KV_STAGES);
    if (tiles::SPLITS && w.n_splits > 1)
      join(w, o);
    else
      store(w, o);
  }

  __device__ void run()
  {
    if (tiles::PING_PONG && warpgroup == 1) named_barrier_arrive(BARRIER_PING_PONG, PING_PONG_THREADS);
    for (yk_cuda::ring_position at;; at.advance(2)) {
      mbarrier_wait_loop(&s.q_full[at.stage], at.phase);
      const work_tile w = s.work[at.stage];
      if (w.seq < 0) break;
      const uint32_t q = shared_address(s.q[at.stage % tiles::Q_STAGES]) + warpgroup * 64 * 128;
      compute(w, tile_descriptor(q, SWIZZLE_ATOM_BYTES, NO_BLOCK_STRIDE), &s.q_empty[at.stage]);
    }
  }
};

} // namespace yk_attn

#endif // YK_HAVE_SM90A
#endif
