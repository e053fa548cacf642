/* wgmma_many_consumer.cuh - consumer warpgroups of wgmma_many_kernel.cuh: softmax and weighted sums of up to 64
 * queries.
 *
 * The weighted sums of 64 queries, [64, 512] in float32, take half of all registers: the two consumer warpgroups have
 * 256 columns each. Tiles of tokens are processed in pairs, and each warpgroup computes scores and probabilities of one
 * tile of a pair:
 *
 *   warpgroup 0                                       warpgroup 1
 *   S0 = Q K0^T                                       S1 = Q K1^T
 *   reference m0 -----------------------------------> reference m1, no less than m0
 *   P0 --> shared memory                              P1, m1 --> shared memory
 *   O = O rescaled to m0 + P0 V0 (columns 0 .. 255)   O = O rescaled to m1 + P1 V1 (columns 256 ..)
 *   O = O rescaled to m1 + P1 V1                      O = O rescaled to m0 + P0 V0
 *
 * In this order each half of a tile becomes free for the next tile as early as possible, and the next scores begin with
 * the half that was freed first. Probabilities overwrite the rotated part of the tile's keys, which is not read after
 * the scores. If there are two tiles of heads, their thread blocks load each tile of tokens once for both (is_paired).
 * A reference is the value subtracted from scores in the softmax: their maximum so far, or less by at most 8 as a power
 * of two. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_MANY_CONSUMER_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_MANY_CONSUMER_CUH

#include "kernels/cuda/latent/one_launch.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

constexpr int MANY_K_BUFFERS = 4;

/* The weights before attention and the sums after it share the memory of the queries. */
struct many_shared : loading<MANY_QUERIES, 1> {
  float m[2][MANY_QUERIES]; /* references after the first and after the second tile of a pair */
  float l[2][MANY_QUERIES];
  ends_shared<MANY_K_BUFFERS> ends;
};
static_assert(sizeof(many_shared) <= 227 * 1024, "what a thread block may have on Hopper");

#if defined(YK_HAVE_SM90A)

/* Lane (g, t) = (lane / 4, lane % 4) of warp w holds queries 16 w + g and 16 w + g + 8. */
template <typename T> struct many_consumer {
  static constexpr int N_S = WGMMA_TOKENS / 8, N_O = KV_RANK / 2 / 8; /* tiles of 8 columns: of scores, of sums */
  /* Named barriers: probabilities of a pair, and the first reference. Barriers 3 to 5 are used too. */
  static constexpr int HAS_FIRST = 1, HAS_SECOND = 2, HAS_REFERENCE = 6;
  static constexpr float MOST = 8.0f;      /* rescaling is skipped while probabilities stay below 2^8 */
  static constexpr float FARTHEST = 60.0f; /* the sums are rescaled to an older reference by at most 2^60 */

  many_shared &s;
  const params &p;
  const int warpgroup;
  const block_tiles mine;
  uint32_t phase; /* phase of this warpgroup's tiles */
  int32_t n_visible[2];
  float m[2]; /* current reference of the sums, near the largest score so far */
  float l[2]; /* sums of this warpgroup's probabilities, relative to `own` */
  float own[2];

  __device__ static int lane()
  {
    return threadIdx.x % 32;
  }
  __device__ static int query_of(int e)
  {
    return threadIdx.x % 128 / 32 * 16 + lane() / 4 + 8 * e;
  }
  __device__ static uint32_t probabilities(uint32_t tile)
  {
    return tile + VALUE_BLOCKS * BLOCK_BYTES;
  }

  template <int OWN> __device__ __forceinline__ void issue_scores(float (&score)[N_S][4], uint32_t tile, int half) const
  {
    const uint64_t q = tile_descriptor(shared_address(s.q[0]), 1024, 16), k = tile_descriptor(tile, 1024, 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < blocks_of_half(half) * 4; i++) {
      const uint64_t step = descriptor_step(block_of_half(OWN, half, i / 4) * BLOCK_BYTES + i % 4 * 32);
      wgmma<T, WGMMA_TOKENS>::run_ss(score, q + step, k + step, half > 0 || i > 0);
    }
  }

  /* OWN: this warpgroup, and its tile of a pair. */
  template <int OWN> __device__ __forceinline__ void scores(float (&score)[N_S][4], int32_t n_valid)
  {
    const uint32_t tile = shared_address(s.tile[OWN]);
    mbarrier_wait_loop(&s.full[OWN][0], phase);
    if (n_valid < WGMMA_TOKENS) {
      mbarrier_wait_loop(&s.full[OWN][1], phase);
      clear_rows(tile, n_valid);
      named_barrier_sync(3 + OWN, 128);
    }
    issue_scores<OWN>(score, tile, 0);
    mbarrier_wait_loop(&s.full[OWN][1], phase);
    issue_scores<OWN>(score, tile, 1);
    wgmma_commit();
    wgmma_wait<0>();
    pin(score);
    phase ^= 1;
  }

  /* Masks the tokens that this thread's queries do not attend to. */
  __device__ __forceinline__ void mask(float (&score)[N_S][4], int32_t first) const
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t end = n_visible[e] - first - lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
        if (8 * i >= end) score[i][2 * e] = -INFINITY;
        if (8 * i + 1 >= end) score[i][2 * e + 1] = -INFINITY;
      }
    }
  }

  /* Writes a reference for the scores to s.m: `before`, or the scores' maximum if probabilities would otherwise exceed
   * 2^MOST. */
  __device__ __forceinline__ void choose_reference(const float (&score)[N_S][4], const float (&before)[2],
                                                   float (&reference)[2])
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float largest = yk_cuda::quad_max(yk_cuda::row_max(score, e, score[0][2 * e]));
      const bool keeps = (largest - before[e]) * p.scale_log2 <= MOST || largest == -INFINITY;
      reference[e] = keeps ? before[e] : largest;
      if (lane() % 4 == 0) s.m[warpgroup][query_of(e)] = reference[e];
    }
  }

  /* Turns scores into probabilities relative to a reference. */
  __device__ __forceinline__ void exponentiate(float (&score)[N_S][4], const float (&reference)[2])
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float shift = yk_cuda::softmax_shift(reference[e], p.scale_log2);
      const float sum = yk_cuda::exponentiate_row(score, e, p.scale_log2, shift);
      l[e] = l[e] * exp2_approx(own[e] * p.scale_log2 - shift) + sum;
      own[e] = reference[e];
    }
  }

  /* Stores probabilities for the other warpgroup. */
  __device__ __forceinline__ void hand_over(const uint32_t (&prob)[N_S / 2][4])
  {
    const int row = threadIdx.x % 128 / 32 * 16 + lane() % 16;
    named_barrier_sync(3 + warpgroup, 128); /* no warp still reads the keys */
    const uint32_t to = probabilities(shared_address(s.tile[warpgroup])) + row * 128;
#pragma unroll
    for (int i = 0; i < N_S / 2; i++) stmatrix_x4(to + (((2 * i + lane() / 16) ^ row) & 7) * 16, prob[i]);
    fence_async_shared();
  }

  /* Rescales from the reference m to another. */
  __device__ __forceinline__ void rescale(float (&o)[N_O][4], const float (&to)[2])
  {
    float factor[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      factor[e] = exp2_approx(m[e] * p.scale_log2 - yk_cuda::softmax_shift(to[e], p.scale_log2));
      m[e] = to[e];
    }
    if (!__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) return;
    yk_cuda::scale_rows(o, factor);
  }

  /* This warpgroup's half of the values of a tile. */
  __device__ __forceinline__ uint64_t values(int of) const
  {
    return tile_descriptor(shared_address(s.tile[of]) + warpgroup * HALF_BLOCKS * BLOCK_BYTES, 1024, BLOCK_BYTES);
  }

  __device__ __forceinline__ void issue_own(float (&o)[N_O][4], const uint32_t (&prob)[N_S / 2][4]) const
  {
    const uint64_t v = values(warpgroup);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < WGMMA_TOKENS / 16; i++)
      wgmma<T, KV_RANK / 2>::template run_rs<true>(o, prob[i], v + descriptor_step(i * 2048), true);
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_others(float (&o)[N_O][4]) const
  {
    const int other = 1 - warpgroup;
    const uint64_t v = values(other), prob = tile_descriptor(probabilities(shared_address(s.tile[other])), 1024, 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < WGMMA_TOKENS / 16; i++)
      wgmma<T, KV_RANK / 2>::template run_ss<false, true>(o, prob + descriptor_step(i * 32),
                                                          v + descriptor_step(i * 2048), true);
    wgmma_commit();
  }

  /* The products with a tile are complete: releases the parts that only they still needed. */
  __device__ __forceinline__ void finish(float (&o)[N_O][4], int buffer)
  {
    wgmma_wait<0>();
    pin(o);
    if (lane() == 0) release_half(s, buffer, buffer ^ warpgroup);
  }

  __device__ __forceinline__ void references_of(int other, float (&reference)[2]) const
  {
    reference[0] = s.m[other][query_of(0)];
    reference[1] = s.m[other][query_of(1)];
  }

  __device__ __forceinline__ bool needs_mask(const segment &of, int32_t tile) const
  {
    return (tile + 1) * WGMMA_TOKENS > of.n_tokens - of.n_rows + 1;
  }

  __device__ __forceinline__ void release_queries(bool is_last)
  {
    if (is_last && lane() == 0) mbarrier_arrive(&s.q_empty[0]);
  }

  /* Processes tiles `tile` and tile + 1 in the first warpgroup. */
  __device__ __forceinline__ void first_of_pair(float (&o)[N_O][4], const segment &of, int32_t tile)
  {
    float score[N_S][4], reference[2];
    uint32_t prob[N_S / 2][4];
    scores<0>(score, of.n_tokens - tile * WGMMA_TOKENS);
    release_queries(tile + 2 >= of.end);
    if (needs_mask(of, tile)) mask(score, tile * WGMMA_TOKENS);
    choose_reference(score, m, reference);
    named_barrier_arrive(HAS_REFERENCE, 256);
    exponentiate(score, reference);
    yk_cuda::round_to_operand<T>(score, prob);
    hand_over(prob);
    named_barrier_arrive(HAS_FIRST, 256);
    rescale(o, reference);
    issue_own(o, prob);
    finish(o, 0);
    if (tile + 1 >= of.end) return;
    named_barrier_sync(HAS_SECOND, 256);
    references_of(1, reference);
    rescale(o, reference);
    issue_others(o);
    finish(o, 1);
  }

  /* The same in the second warpgroup; latest: the pair's last reference. The sums, already relative to the second
   * reference, are rescaled back to the first for the first tile's probabilities. If the first is lower by FARTHEST or
   * more, the sums are so large that these probabilities are below float32 resolution at any reference. */
  __device__ __forceinline__ void second_of_pair(float (&o)[N_O][4], const segment &of, int32_t tile,
                                                 float (&latest)[2])
  {
    float score[N_S][4], first[2];
    uint32_t prob[N_S / 2][4];
    const bool has_second = tile + 1 < of.end;
    if (has_second) scores<1>(score, of.n_tokens - (tile + 1) * WGMMA_TOKENS);
    release_queries(tile + 2 >= of.end);
    named_barrier_sync(HAS_REFERENCE, 256);
    references_of(0, first);
    latest[0] = first[0];
    latest[1] = first[1];
    if (has_second) {
      if (needs_mask(of, tile + 1)) mask(score, (tile + 1) * WGMMA_TOKENS);
      choose_reference(score, first, latest);
      exponentiate(score, latest);
      yk_cuda::round_to_operand<T>(score, prob);
      hand_over(prob);
      named_barrier_arrive(HAS_SECOND, 256);
      rescale(o, latest);
      issue_own(o, prob);
      finish(o, 1);
#pragma unroll
      for (int e = 0; e < 2; e++) first[e] = fmaxf(first[e], latest[e] - FARTHEST / p.scale_log2);
    }
    named_barrier_sync(HAS_FIRST, 256);
    rescale(o, first);
    issue_others(o);
    finish(o, 0);
  }

  __device__ void store(const float (&o)[N_O][4], const segment &of)
  {
    const destination to = destination::of<MANY_QUERIES>(p, of, mine);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float shift = yk_cuda::softmax_shift(m[e], p.scale_log2);
      const float sum = yk_cuda::quad_sum(l[e] * exp2_approx(own[e] * p.scale_log2 - shift));
      if (lane() % 4 == 0) s.l[warpgroup][query_of(e)] = sum;
    }
    named_barrier_sync(5, 256);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int query = query_of(e), column = warpgroup * (KV_RANK / 2);
      const bool exists = query < to.n_queries;
      const float total = s.l[0][query] + s.l[1][query], inverse = total > 0.0f ? 1.0f / total : 0.0f;
      if (to.is_whole) {
        yk_cuda::store_row<T>(to.sums_of<T>(p, exists ? query : 0) + column, o, e, inverse, exists);
        continue;
      }
      if (!exists) continue;
      if (warpgroup == 0 && lane() % 4 == 0) to.describe(p, query, m[e] * p.scale_log2, total);
      float *partial = to.partial_of<float>(p, query) + column + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < N_O; i++)
        *reinterpret_cast<float2 *>(partial + 8 * i) = make_float2(o[i][2 * e], o[i][2 * e + 1]);
    }
    named_barrier_sync(5, 256); /* s.l has been read */
  }

  __device__ void run_segment(const segment &of)
  {
    const int32_t n_heads = min(p.tile_heads, p.layout.n_heads - head_tile() * p.tile_heads);
    float o[N_O][4] = {};
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t row = query_of(e) / n_heads;
      n_visible[e] = row < of.n_rows ? p.positions[of.first_row + row] + 1 : of.n_tokens;
      m[e] = own[e] = -INFINITY;
      l[e] = 0.0f;
    }
    if (warpgroup == 0) {
      for (int32_t tile = of.begin; tile < of.end; tile += 2) first_of_pair(o, of, tile);
    } else {
      float latest[2] = {-INFINITY, -INFINITY};
      for (int32_t tile = of.begin; tile < of.end; tile += 2) second_of_pair(o, of, tile, latest);
      rescale(o, latest);
    }
    store(o, of);
  }

  __device__ void run()
  {
    uint32_t q_phase = 0;
    for_each_segment(s.list, mine, [&](const segment &of, int32_t) {
      if (threadIdx.x % 128 < 32 && warpgroup == 0) describe_splits(s.list, p, mine, of);
      mbarrier_wait_loop(&s.q_full[0], q_phase);
      q_phase ^= 1;
      run_segment(of);
    });
  }
};

#endif

} // namespace yk_latent

#endif
