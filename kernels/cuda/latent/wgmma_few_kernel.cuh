/* wgmma_few_kernel.cuh - latent attention of decode rows of at most 16 heads, bound by memory bandwidth, in one launch.
 *
 * wgmma has 64 rows: tokens are mapped to them, so that no row is wasted. A thread block has one producer warpgroup and
 * two consumer warpgroups. Each consumer warpgroup has its own buffer and processes every second tile of a segment
 * alone, so that one buffer fills while the other is in use:
 *
 *   S^T [64 tokens, 16 queries] = K Q^T
 *   online softmax: a warp has 16 tokens of all queries; the warps' maxima are reduced in shared memory
 *   P^T --> shared memory; O^T [512, 16] += V^T P^T, all in registers
 *
 * At the end of a segment the warpgroups exchange halves of O^T: each adds and writes 256 of the 512 columns. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_FEW_KERNEL_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_FEW_KERNEL_CUH

#include "kernels/cuda/latent/one_launch.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

constexpr int FEW_Q_STAGES = 2, FEW_K_BUFFERS = 2;

/* A warpgroup's half of O^T: the other warpgroup's contribution, in the order of its fragments. */
struct few_half {
  float4 added[4 * 2][128];
};

/* The weights and sums of the outputs overwrite the tiles of tokens. */
struct few_shared : loading<FEW_QUERIES, FEW_Q_STAGES> {
  alignas(1024) char p[2][FEW_QUERIES * 128]; /* probabilities [queries][64 tokens] of each warpgroup, swizzled */
  union {                                     /* used one after the other */
    alignas(1024) char k_buffers[FEW_K_BUFFERS][K_SLICE_BYTES];
    few_half half[2];
  };
  float top[2][2][4][FEW_QUERIES]; /* maxima of a tile for each warpgroup and warp, two sets used alternately */
  float m[2][FEW_QUERIES], l[2][4][FEW_QUERIES];
  ends_shared<FEW_K_BUFFERS> ends;
};
static_assert(sizeof(few_shared) <= 227 * 1024, "what a thread block may have on Hopper");

#if defined(YK_HAVE_SM90A)

/* Lane (g, t) = (lane / 4, lane % 4) of warp w holds tokens (columns of values) 16 w + g and 16 w + g + 8, and queries
 * 8 j + 2 t + e: element [j][e] of token g, [j][2 + e] of token g + 8. */
template <typename T> struct few_consumer {
  static constexpr int N_Q = FEW_QUERIES / 8, HALF = VALUE_BLOCKS / 2;

  few_shared &s;
  const params &p;
  const int warpgroup;
  const block_tiles mine;
  uint32_t phase; /* phase of this warpgroup's buffer */
  int parity;     /* set of s.top */
  float m[N_Q][2], l[N_Q][2];

  __device__ static int lane()
  {
    return threadIdx.x % 32;
  }
  __device__ static int warp()
  {
    return threadIdx.x % 128 / 32;
  }
  __device__ static int query_of(int j, int e)
  {
    return 8 * j + lane() % 4 * 2 + e;
  }

  __device__ void scores(float (&score)[N_Q][4], uint32_t tile, uint32_t q) const
  {
    const uint64_t a = tile_descriptor(tile, 1024, 16), b = tile_descriptor(q, 1024, 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < WIDTH / 16; i++)
      wgmma<T, FEW_QUERIES>::run_ss(score, a + descriptor_step(i / 4 * BLOCK_BYTES + i % 4 * 32),
                                    b + descriptor_step(i / 4 * FEW_QUERIES * 128 + i % 4 * 32), i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(score);
  }

  /* Turns scores into probabilities. n_valid: tokens of the tile. rescale: factor of the previous sums. */
  __device__ void softmax(float (&score)[N_Q][4], int32_t n_valid, float (&rescale)[N_Q][2])
  {
    const int32_t token = warp() * 16 + lane() / 4;
    float top[N_Q][2];
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        if (token >= n_valid) score[j][e] = -INFINITY;
        if (token + 8 >= n_valid) score[j][2 + e] = -INFINITY;
        top[j][e] = fmaxf(score[j][e], score[j][2 + e]);
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
          top[j][e] = fmaxf(top[j][e], __shfl_xor_sync(~0u, top[j][e], offset));
        if (lane() < 4) s.top[warpgroup][parity][warp()][query_of(j, e)] = top[j][e];
      }
    }
    named_barrier_sync(1 + warpgroup, 128);
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float all = m[j][e];
#pragma unroll
        for (int w = 0; w < 4; w++) all = fmaxf(all, s.top[warpgroup][parity][w][query_of(j, e)]);
        const float shift = yk_cuda::softmax_shift(all, p.scale_log2);
        rescale[j][e] = exp2_approx(m[j][e] * p.scale_log2 - shift);
        m[j][e] = all;
        score[j][e] = exp2_approx(score[j][e] * p.scale_log2 - shift);
        score[j][2 + e] = exp2_approx(score[j][2 + e] * p.scale_log2 - shift);
        l[j][e] = l[j][e] * rescale[j][e] + score[j][e] + score[j][2 + e];
      }
    }
    parity ^= 1;
  }

  /* Matrices of 8 tokens by 8 queries: both halves of the warp's tokens for queries 0 to 7, then for the others. */
  __device__ void store_probabilities(const float (&score)[N_Q][4]) const
  {
    uint32_t matrices[4];
#pragma unroll
    for (int i = 0; i < 4; i++) matrices[i] = round_pair<T>(score[i / 2][i % 2 * 2], score[i / 2][i % 2 * 2 + 1]);
    const int query = lane() / 16 * 8 + lane() % 8, chunk = warp() * 2 + lane() / 8 % 2;
    stmatrix_trans<4>(shared_address(s.p[warpgroup]) + query * 128 + ((chunk ^ query) & 7) * 16, matrices);
    fence_async_shared();
  }

  __device__ void add_values(float (&o)[VALUE_BLOCKS][N_Q][4], uint32_t tile) const
  {
    const uint64_t v = tile_descriptor(tile, 1024, BLOCK_BYTES);
    const uint64_t prob = tile_descriptor(shared_address(s.p[warpgroup]), 1024, 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < WGMMA_TOKENS / 16; i++) {
#pragma unroll
      for (int block = 0; block < VALUE_BLOCKS; block++)
        wgmma<T, FEW_QUERIES>::template run_ss<true>(o[block], v + descriptor_step(block * BLOCK_BYTES + i * 2048),
                                                     prob + descriptor_step(i * 32), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
#pragma unroll
    for (int block = 0; block < VALUE_BLOCKS; block++) pin(o[block]);
  }

  /* Combines both warpgroups' maxima and sums; factor: multiplier of this warpgroup's O^T. */
  __device__ void combine_warpgroups(float (&factor)[N_Q][2], float (&total)[N_Q][2])
  {
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float sum = l[j][e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
        if (lane() >= 4) continue;
        s.l[warpgroup][warp()][query_of(j, e)] = sum;
        if (warp() == 0) s.m[warpgroup][query_of(j, e)] = m[j][e];
      }
    }
    named_barrier_sync(3, 256);
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int query = query_of(j, e);
        const float all = fmaxf(s.m[0][query], s.m[1][query]);
        const float shift = yk_cuda::softmax_shift(all, p.scale_log2);
        total[j][e] = 0.0f;
#pragma unroll
        for (int w = 0; w < 2; w++) {
          float sum = 0.0f;
#pragma unroll
          for (int i = 0; i < 4; i++) sum += s.l[w][i][query];
          total[j][e] += sum * exp2_approx(s.m[w][query] * p.scale_log2 - shift);
        }
        factor[j][e] = exp2_approx(m[j][e] * p.scale_log2 - shift);
        m[j][e] = all;
      }
    }
  }

  /* MINE: 0 or 1, this warpgroup. Sends the other warpgroup's half and receives its contribution to this half. */
  template <int MINE> __device__ void exchange(float (&o)[VALUE_BLOCKS][N_Q][4], const float (&factor)[N_Q][2])
  {
#pragma unroll
    for (int block = 0; block < VALUE_BLOCKS; block++) {
#pragma unroll
      for (int j = 0; j < N_Q; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[block][j][e] *= factor[j][e % 2];
        if (block / HALF != MINE)
          s.half[1 - MINE].added[block % HALF * N_Q + j][threadIdx.x % 128] =
              make_float4(o[block][j][0], o[block][j][1], o[block][j][2], o[block][j][3]);
      }
    }
    named_barrier_sync(3, 256);
#pragma unroll
    for (int i = 0; i < HALF * N_Q; i++) {
      float(&own)[4] = o[MINE * HALF + i / N_Q][i % N_Q];
      const float4 other = s.half[MINE].added[i][threadIdx.x % 128];
      own[0] += other.x;
      own[1] += other.y;
      own[2] += other.z;
      own[3] += other.w;
    }
  }

  /* Matrices of 8 columns by 8 queries are transposed within a warp: lane (g, t) then has query 8 j + g and two
   * neighbouring columns of each matrix. For each pair of adjacent matrices, an even lane takes the left matrix's
   * columns from its odd neighbour, which takes the right matrix's, so that the lanes of a query write whole
   * sectors. */
  template <int MINE>
  __device__ void store(const float (&o)[VALUE_BLOCKS][N_Q][4], const segment &of, const float (&total)[N_Q][2])
  {
    const destination to = destination::of<FEW_QUERIES>(p, of, mine);
    const int odd = lane() % 2, column = MINE * HALF * 64 + warp() * 16 + odd * 8 + lane() % 4 / 2 * 4;
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
      const int query = 8 * j + lane() / 4;
      T *row = to.is_whole ? to.sums_of<T>(p, query) : to.partial_of<T>(p, query);
      float factor[2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        factor[e] = total[j][e] > 0.0f ? 1.0f / total[j][e] : 0.0f;
        if (!to.is_whole && MINE == 0 && threadIdx.x % 128 < 4 && query_of(j, e) < to.n_queries)
          to.describe(p, query_of(j, e), m[j][e] * p.scale_log2, total[j][e]);
      }
#pragma unroll
      for (int i = 0; i < HALF; i++) {
        const float(&own)[4] = o[MINE * HALF + i][j];
        const uint32_t left = transpose_8x8(round_pair<T>(own[0] * factor[0], own[1] * factor[1]));
        const uint32_t right = transpose_8x8(round_pair<T>(own[2] * factor[0], own[3] * factor[1]));
        const uint32_t other = __shfl_xor_sync(~0u, odd ? left : right, 1);
        if (query < to.n_queries)
          *reinterpret_cast<uint2 *>(row + column + i * 64) = odd ? make_uint2(other, right) : make_uint2(left, other);
      }
    }
  }

  __device__ void run_segment(const segment &of, const char *q)
  {
    float o[VALUE_BLOCKS][N_Q][4] = {};
#pragma unroll
    for (int j = 0; j < N_Q; j++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        m[j][e] = -INFINITY;
        l[j][e] = 0.0f;
      }
    }
    const uint32_t tile = shared_address(s.tile[warpgroup]);
    for (int32_t at = of.begin + warpgroup; at < of.end; at += 2) {
      float score[N_Q][4], rescale[N_Q][2];
      for (int half = 0; half < HALVES; half++) mbarrier_wait_loop(&s.full[warpgroup][half], phase);
      phase ^= 1;
      const int32_t n_valid = of.n_tokens - at * WGMMA_TOKENS;
      if (n_valid < WGMMA_TOKENS) {
        clear_rows(tile, n_valid);
        named_barrier_sync(1 + warpgroup, 128);
      }
      scores(score, tile, shared_address(q));
      softmax(score, n_valid, rescale);
      store_probabilities(score);
#pragma unroll
      for (int block = 0; block < VALUE_BLOCKS; block++) {
#pragma unroll
        for (int j = 0; j < N_Q; j++) {
#pragma unroll
          for (int e = 0; e < 4; e++) o[block][j][e] *= rescale[j][e % 2];
        }
      }
      named_barrier_sync(1 + warpgroup, 128);
      add_values(o, tile);
      if (lane() == 0) {
        release_half(s, warpgroup, 0);
        release_half(s, warpgroup, 1);
      }
    }
    float factor[N_Q][2], total[N_Q][2];
    combine_warpgroups(factor, total);
    if (warpgroup == 0) {
      exchange<0>(o, factor);
      store<0>(o, of, total);
    } else {
      exchange<1>(o, factor);
      store<1>(o, of, total);
    }
  }

  __device__ void run()
  {
    yk_cuda::ring_position at;
    for_each_segment(s.list, mine, [&](const segment &of, int32_t) {
      mbarrier_wait_loop(&s.q_full[at.stage], at.phase);
      run_segment(of, s.q[at.stage]);
      if (lane() == 0) mbarrier_arrive(&s.q_empty[at.stage]);
      at.advance(FEW_Q_STAGES);
    });
  }
};

#endif

/* Grid: 1 x thread blocks, all of which run at once. */
template <typename T>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    few_kernel(const params p, const new_rows rows, const __grid_constant__ CUtensorMap map,
               const __grid_constant__ CUtensorMap weights)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  few_shared &s = *reinterpret_cast<few_shared *>(memory);
  const grid_barrier grid = {p.grid_counters, gridDim.y};
  if (is_first_consumer()) {
    init_ends(s.ends);
    load_first_slices(p, weights, s.k_buffers, s.ends.k_full, grid_block(), grid_blocks());
  }
  if (threadIdx.x == 32) init_loading(s);
  let_next_kernel_start();
  const auto outputs_of = [&] {
    return outputs<T, FEW_QUERIES, 64>::of(p, weights, s.tile[0], &s.ends.v_full, s.ends.splits, grid_block(),
                                           grid_blocks());
  };
  if (threadIdx.x < 128) {
    lower_registers<88>();
    run_producers<T>(s, p, rows, grid, &map, outputs_of);
  } else {
    raise_registers<208>();
    run_consumers<T, few_consumer<T>>(s, p, grid, weights, s.k_buffers, *reinterpret_cast<end_sums *>(s.tile[1]),
                                      outputs_of);
  }
  __syncthreads(); /* no warp ends while others still use barriers: synccheck would report that */
#endif
}

} // namespace yk_latent

#endif
