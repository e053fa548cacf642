/* expanded_make.cuh - computes the keys and values of some heads from the latent vectors of whole sequences: a GEMM on
 * wgmma.
 *
 *   made [heads][tokens][nope_dim + value_dim] = c [tokens, kv_rank] (kv_up of the head)^T
 *
 * The tokens are those of all sequences of the list, each sequence starting at a multiple of 128. A work item is 128
 * tokens times one head. The latent vectors of a tile stay in shared memory for all its heads; weights pass through a
 * ring of stages of 64 columns. One producer warp, and two consumer warpgroups of 64 tokens each. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_MAKE_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_MAKE_CUH

#include <cuda.h>

#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/latent/expanded_work.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace yk_latent {

using namespace yk_ptx;

constexpr int MAKE_THREADS = 384, MAKE_STAGES = 3;
constexpr int TOKEN_BLOCK_BYTES = EXPANDED_TILE * 128, WEIGHT_BLOCK_BYTES = MADE_DIM * 128; /* blocks of 64 columns */

struct make_shared {
  alignas(1024) char tokens[KV_RANK / 64][TOKEN_BLOCK_BYTES];
  alignas(1024) char weights[MAKE_STAGES][WEIGHT_BLOCK_BYTES];
  uint64_t tokens_full, tokens_empty, full[MAKE_STAGES], empty[MAKE_STAGES];
};

/* The heads of one launch. */
struct head_group {
  int32_t first, n;
  int64_t made_tokens; /* distance of two heads in `made`, in rows */
};

/* Returns the sequence of a tile of keys. */
__device__ inline expanded_seq seq_of_key_tile(const expanded_work &work, int32_t tile)
{
  int32_t i = 0;
  while (i + 1 < work.n_seqs && work.seqs[i + 1].first_key_tile <= tile) i++;
  return work.seqs[i];
}

#if defined(YK_HAVE_SM90A)

__device__ inline void make_producer(make_shared &s, const params &p, const expanded_work &work,
                                     const CUtensorMap *cache, const CUtensorMap *weights, const head_group &heads,
                                     int32_t begin, int32_t end)
{
  const int lane = threadIdx.x % 32;
  uint32_t tokens_phase = 1;
  yk_cuda::ring_position at = {0, 1};
  for (int32_t item = begin; item < end; item++) {
    const int32_t tile = item / heads.n, head = heads.first + item % heads.n;
    if (item == begin || item % heads.n == 0) {
      const expanded_seq of = seq_of_key_tile(work, tile);
      const int32_t first_page = (tile - of.first_key_tile) * (EXPANDED_TILE / YK_KV_BLOCK_TOKENS);
      const int32_t n_pages = min(EXPANDED_TILE / YK_KV_BLOCK_TOKENS,
                                  (of.n_tokens + YK_KV_BLOCK_TOKENS - 1) / YK_KV_BLOCK_TOKENS - first_page);
      const int32_t *table = p.block_tables + static_cast<int64_t>(of.seq) * p.block_table_stride + first_page;
      const int32_t own = lane < n_pages ? table[lane] * YK_KV_BLOCK_TOKENS : 0;
      mbarrier_wait_loop(&s.tokens_empty, tokens_phase);
      tokens_phase ^= 1;
      if (elect_one()) mbarrier_arrive_expect(&s.tokens_full, n_pages * YK_KV_BLOCK_TOKENS * KV_RANK * 2);
      for (int page = 0; page < n_pages; page++) {
        const int32_t row = __shfl_sync(~0u, own, page);
        if (!elect_one()) continue;
        for (int block = 0; block < KV_RANK / 64; block++)
          tensor_copy(shared_address(s.tokens[block]) + page * YK_KV_BLOCK_TOKENS * 128, cache, block * 64, row,
                      &s.tokens_full);
      }
    }
    for (int block = 0; block < KV_RANK / 64; block++) {
      mbarrier_wait_loop(&s.empty[at.stage], at.phase);
      if (elect_one()) {
        mbarrier_arrive_expect(&s.full[at.stage], WEIGHT_BLOCK_BYTES);
        tensor_copy(shared_address(s.weights[at.stage]), weights, block * 64, head * MADE_DIM, &s.full[at.stage]);
      }
      __syncwarp();
      at.advance(MAKE_STAGES);
    }
  }
}

template <typename T>
__device__ void make_consumer(make_shared &s, const expanded_work &work, void *made, const head_group &heads,
                              int32_t begin, int32_t end, int warpgroup)
{
  const int lane = threadIdx.x % 32, row = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  uint32_t tokens_phase = 0;
  yk_cuda::ring_position at;
  float d[MADE_DIM / 8][4];
  for (int32_t item = begin; item < end; item++) {
    const int32_t tile = item / heads.n, head = item % heads.n;
    const uint32_t tokens = shared_address(s.tokens) + warpgroup * 64 * 128;
    if (item == begin || head == 0) {
      mbarrier_wait_loop(&s.tokens_full, tokens_phase);
      tokens_phase ^= 1;
      const expanded_seq of = seq_of_key_tile(work, tile);
      const int32_t n_valid = of.n_tokens - (tile - of.first_key_tile) * EXPANDED_TILE - warpgroup * 64;
      if (n_valid < 64) { /* rows after a sequence's last token get keys and values of zero */
        for (int i = max(n_valid, 0) * 8 + static_cast<int>(threadIdx.x % 128); i < 64 * 8; i += 128) {
          for (int block = 0; block < KV_RANK / 64; block++)
            store_shared16(tokens + block * TOKEN_BLOCK_BYTES + i * 16, make_uint4(0, 0, 0, 0));
        }
        fence_async_shared();
        named_barrier_sync(1 + warpgroup, 128);
      }
    }
#pragma unroll 1
    for (int block = 0; block < KV_RANK / 64; block++) {
      const uint64_t a = tile_descriptor(tokens + block * TOKEN_BLOCK_BYTES, 1024, 16);
      const uint64_t b = tile_descriptor(shared_address(s.weights[at.stage]), 1024, 16);
      mbarrier_wait_loop(&s.full[at.stage], at.phase);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; i++)
        wgmma<T, MADE_DIM>::run_ss(d, a + descriptor_step(i * 32), b + descriptor_step(i * 32), block + i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (lane == 0 && block > 0) mbarrier_arrive(&s.empty[(at.stage + MAKE_STAGES - 1) % MAKE_STAGES]);
      at.advance(MAKE_STAGES);
    }
    wgmma_wait<0>();
    pin(d);
    if (lane == 0) mbarrier_arrive(&s.empty[(at.stage + MAKE_STAGES - 1) % MAKE_STAGES]);
    if (lane == 0 && (item + 1 == end || head + 1 == heads.n)) mbarrier_arrive(&s.tokens_empty);
    T *to = static_cast<T *>(made) +
            (head * heads.made_tokens + static_cast<int64_t>(tile) * EXPANDED_TILE + row) * MADE_DIM;
    yk_cuda::store_row<T>(to, d, 0, 1.0f, true);
    yk_cuda::store_row<T>(to + 8 * MADE_DIM, d, 1, 1.0f, true);
  }
}

#endif

/* Grid: one thread block per multiprocessor, each with consecutive items: tiles of tokens in the outer loop, heads in
 * the inner loop. */
template <typename T>
__global__ void __launch_bounds__(MAKE_THREADS, 1)
    make_heads_kernel(const params p, const expanded_work *work, void *made, const head_group heads,
                      const __grid_constant__ CUtensorMap cache, const __grid_constant__ CUtensorMap weights)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  make_shared &s = *reinterpret_cast<make_shared *>(memory);
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    mbarrier_init(&s.tokens_full, 1);
    mbarrier_init(&s.tokens_empty, 8);
    for (int i = 0; i < MAKE_STAGES; i++) {
      mbarrier_init(&s.full[i], 1);
      mbarrier_init(&s.empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int64_t n_items = static_cast<int64_t>(work->n_key_tiles) * heads.n;
  const int32_t begin = static_cast<int32_t>(n_items * blockIdx.x / gridDim.x);
  const int32_t end = static_cast<int32_t>(n_items * (blockIdx.x + 1) / gridDim.x);
  if (warpgroup == 0) {
    lower_registers<40>();
    if (threadIdx.x < 32) make_producer(s, p, *work, &cache, &weights, heads, begin, end);
  } else {
    raise_registers<232>();
    make_consumer<T>(s, *work, made, heads, begin, end, warpgroup - 1);
  }
#endif
}

} // namespace yk_latent

#endif
