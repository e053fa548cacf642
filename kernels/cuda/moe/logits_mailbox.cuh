/* logits_mailbox.cuh - passes the logits of a single token from the thread blocks that compute them to all blocks of a
 * launch, through words of device memory. A word holds EMPTY_WORD until its logit is written. The last block that has
 * read all words empties them again; or, in a launch with two sets of words, the next launch does, which uses the other
 * set.
 *
 * Readers wait for the first blocks of the grid, which compute the logits. These run before any other block and wait
 * only for the preceding kernels, so the wait ends. */
#ifndef YK_KERNELS_CUDA_MOE_LOGITS_MAILBOX_CUH
#define YK_KERNELS_CUDA_MOE_LOGITS_MAILBOX_CUH

#include <cfloat>

#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/moe/router.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_moe {

using namespace yk_cuda;
using namespace yk_ptx;

constexpr int FEW_EXPERTS = 4 * WARP, ROUTED_EXPERTS = 8 * WARP; /* maximum of a kernel's two forms */
constexpr uint32_t EMPTY_WORD = 0xFFFFFFFFu;                     /* a NaN that no logit has */

/* In device memory. A lane reads the logits of experts e with e % 32 == lane, four at once. */
struct alignas(16) logits_words {
  uint4 logits[ROUTED_EXPERTS / FEW_EXPERTS][WARP];
  uint32_t gate_logit; /* logit of the shared expert's gate */

  __device__ __forceinline__ uint32_t *logit_of(int expert)
  {
    return reinterpret_cast<uint32_t *>(logits[expert / FEW_EXPERTS] + expert % WARP) + expert % FEW_EXPERTS / WARP;
  }

  /* Called by one warp. */
  __device__ __forceinline__ void make_empty()
  {
    const int lane = threadIdx.x % WARP;
    for (auto &of_lanes : logits) of_lanes[lane] = make_uint4(EMPTY_WORD, EMPTY_WORD, EMPTY_WORD, EMPTY_WORD);
    if (lane == 0) gate_logit = EMPTY_WORD;
  }
};

struct logits_mailbox {
  logits_words words;
  int32_t blocks; /* blocks that have read everything */
};

inline cudaError_t prepare_mailbox(logits_mailbox *e, cudaStream_t stream)
{
  const cudaError_t error = cudaMemsetAsync(e, 0xFF, sizeof *e, stream);
  return error == cudaSuccess ? cudaMemsetAsync(&e->blocks, 0, sizeof e->blocks, stream) : error;
}

/* The router's product. logits: the experts' logits, then the logit of the shared expert's gate if n_logits includes
 * one more. */
struct row_router {
  const void *x, *w;
  const float *bias; /* [n_logits] or NULL */
  float *logits;
  int n_logits, k, n_experts;
};

inline row_router row_router_of(const yk_cuda_router &router, const yk_route_args &args)
{
  return {router.x,
          router.w,
          router.bias,
          args.logits,
          static_cast<int>(router.n),
          static_cast<int>(router.k),
          args.spec->n_experts};
}

template <typename T, bool HAS_REGISTERS> using router_tile = few_outputs_tile<T, 8, 8, HAS_REGISTERS>;

/* Called by the threads of the tile, the first of the block: sends the logits of this block's columns to all blocks.
 * Weights are read before the wait for the preceding kernel. HAS_REGISTERS, of the kernel: if false, weights that do
 * not fit in registers are prefetched into the L2 cache, which allows larger loads from there. words_of(): destination
 * of the logits, called after the wait. sums: in shared memory. */
template <typename T, bool HAS_REGISTERS, typename F>
__device__ __forceinline__ void send_logits(const row_router &r, const F &words_of,
                                            typename router_tile<T, HAS_REGISTERS>::sums &sums)
{
  using tile = router_tile<T, HAS_REGISTERS>;
  constexpr int BARRIER = 1;
  const int column0 = blockIdx.x * tile::COLUMNS, step = gridDim.x * tile::COLUMNS;
  if (column0 >= r.n_logits) {
    wait_for_previous_kernel();
    return;
  }
  tile t;
  t.read_ahead(r.w, r.n_logits, r.k, column0);
  if (HAS_REGISTERS) t.prefetch_rest(r.w, r.n_logits, r.k, column0);
  wait_for_previous_kernel();
  logits_words &to = words_of();
  for (int column = column0; column < r.n_logits; column += step) {
    if (column > column0) t.read_ahead(r.w, r.n_logits, r.k, column);
    t.multiply(r.w, r.n_logits, r.x, 1, r.k, column, 0, sums);
    named_barrier_sync(BARRIER, tile::THREADS);
    const int own = column + static_cast<int>(threadIdx.x);
    if (threadIdx.x < tile::COLUMNS && own < r.n_logits) {
      const float logit = tile::sum_of(sums, threadIdx.x, 0) + (r.bias ? __ldg(r.bias + own) : 0.0f);
      const uint32_t bits = __float_as_uint(logit), sent = bits == EMPTY_WORD ? EMPTY_WORD >> 1 : bits;
      if (own <= r.n_experts) store_relaxed_gpu(own < r.n_experts ? to.logit_of(own) : &to.gate_logit, sent);
      r.logits[own] = logit;
    }
    named_barrier_sync(BARRIER, tile::THREADS);
  }
}

/* Called by one warp: reads the logits of each lane's experts, once they have arrived, that is once lacks(), which all
 * lanes call, returns false. */
template <int PER_LANE, typename F>
__device__ __forceinline__ void gather_logits(const logits_words &from, int n_experts, float (&logits)[PER_LANE],
                                              const F &lacks)
{
  const int lane = threadIdx.x % WARP;
  uint32_t words[PER_LANE];
  bool is_empty;
  do {
#pragma unroll
    for (int i = 0; i < PER_LANE; i += 4) {
      const uint4 v = load_relaxed_gpu16(from.logits[i / 4] + lane);
      words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
    }
    is_empty = lacks();
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) is_empty |= i * WARP + lane < n_experts && words[i] == EMPTY_WORD;
  } while (__any_sync(ALL_LANES, is_empty));
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) logits[i] = i * WARP + lane < n_experts ? __uint_as_float(words[i]) : -FLT_MAX;
}

/* Called by one warp once the block has read everything. */
__device__ __forceinline__ void release_mailbox(logits_mailbox &e)
{
  const int lane = threadIdx.x % WARP;
  const int before = lane == 0 ? increment_acq_rel_gpu(&e.blocks) : 0;
  if (__shfl_sync(ALL_LANES, before, 0) + 1 < static_cast<int>(gridDim.x)) return;
  e.words.make_empty();
  if (lane == 0) e.blocks = 0;
}

} // namespace yk_moe

#endif
