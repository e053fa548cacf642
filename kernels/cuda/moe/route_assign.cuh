/* route_assign.cuh - computes slots from the choices of a thread block's rows: see route.h. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTE_ASSIGN_CUH
#define YK_KERNELS_CUDA_MOE_ROUTE_ASSIGN_CUH

#include "kernels/cuda/moe/route_choose.cuh"

namespace yk_moe {

/* Shared memory of the assignment: for each expert of the model the word of rows that chose it; for each expert of the
 * rank its first slot. */
struct route_memory {
  uint32_t *chosen; /* [n_experts] */
  int *first;       /* [n_local] first slot of this block's rows */
  int *total;       /* [n_local] */
  int *sums;        /* [32] */
  int *choices;     /* [block_rows, top_k] of this block's rows */
};

__device__ __forceinline__ route_memory memory_of(const route_params &p, uint32_t *shared)
{
  int *first = reinterpret_cast<int *>(shared + p.spec.n_experts);
  int *sums = first + 2 * p.spec.n_local;
  return {shared, first, first + p.spec.n_local, sums, sums + WARP};
}

/* Chooses for rows row0 .. row0 + n_rows - 1, one warp per row. */
template <int PER_LANE> __device__ void choose_rows(const route_params &p, const route_memory &m, int row0, int n_rows)
{
  const int warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;
  for (int e = threadIdx.x; e < p.spec.n_experts; e += blockDim.x) m.chosen[e] = 0;
  __syncthreads();
  uint32_t *of_groups = reinterpret_cast<uint32_t *>(m.choices + p.block_rows * p.spec.top_k) + warp * p.spec.n_experts;
  for (int row = warp; row < n_rows; row += n_warps)
    choose<PER_LANE>(p, row0 + row, row, m.chosen, m.choices + row * p.spec.top_k, of_groups);
  __syncthreads();
}

/* Adds the first slot of each expert to first, which becomes the first slot of this block's rows; block 0 writes
 * starts. */
__device__ __forceinline__ void add_starts(const route_params &p, const route_memory &m)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_warps = blockDim.x / WARP;
  int base = 0;
  for (int e0 = 0; e0 < p.spec.n_local; e0 += blockDim.x) {
    const int e = e0 + threadIdx.x, own = e < p.spec.n_local ? m.total[e] : 0, upto = warp_prefix_sum(own);
    if (lane == WARP - 1) m.sums[warp] = upto;
    __syncthreads();
    const int of_warp = lane < n_warps ? m.sums[lane] : 0, upto_warp = warp_prefix_sum(of_warp);
    const int start = base + upto - own + (warp > 0 ? __shfl_sync(ALL_LANES, upto_warp, max(warp - 1, 0)) : 0);
    base += __shfl_sync(ALL_LANES, upto_warp, WARP - 1);
    if (e < p.spec.n_local) {
      m.first[e] += start;
      if (blockIdx.x == 0) p.starts[e] = start;
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) p.starts[p.spec.n_local] = base;
}

/* Writes the slots of this block's choices. */
__device__ __forceinline__ void assign_slots(const route_params &p, const route_memory &m, int row0, int n_rows)
{
  const int top_k = p.spec.top_k;
  for (int i = threadIdx.x; i < n_rows * top_k; i += blockDim.x) {
    const int row = i / top_k, at = row0 * top_k + i, expert = m.choices[i], e = expert - p.spec.first_local;
    int slot = -1;
    if (expert >= 0 && e >= 0 && e < p.spec.n_local) {
      slot = m.first[e] + __popc(m.chosen[expert] & ((1u << row) - 1));
      p.row_of_slot[slot] = row0 + row;
    }
    p.slot_of_choice[at] = slot;
  }
}

__device__ __forceinline__ void add_counts(const route_params &p, const route_memory &m)
{
  if (!p.counts) return;
  for (int e = threadIdx.x; e < p.spec.n_experts; e += blockDim.x)
    if (m.chosen[e])
      atomicAdd(reinterpret_cast<unsigned long long *>(p.counts) + e,
                static_cast<unsigned long long>(__popc(m.chosen[e])));
}

inline route_params route_params_of(const yk_route_args &args)
{
  route_params p = {};
  p.spec = *args.spec;
  p.logits = args.logits;
  p.logits_stride = args.logits_stride;
  p.bias = args.bias;
  p.kv_slots = args.kv_slots;
  p.n_tokens = args.n_tokens;
  p.choices = args.choices;
  p.weights = args.weights;
  p.starts = args.starts;
  p.row_of_slot = args.row_of_slot;
  p.slot_of_choice = args.slot_of_choice;
  p.counts = args.counts;
  p.scratch = static_cast<int32_t *>(args.scratch);
  p.expert_scales = args.expert_scales;
  return p;
}

/* Dynamic shared memory of a block of block_rows rows. */
inline size_t route_shared_bytes(const yk_route_spec &spec, int block_rows, int warps)
{
  const size_t words = static_cast<size_t>(spec.n_experts) + 2 * static_cast<size_t>(spec.n_local) + WARP +
                       static_cast<size_t>(block_rows) * spec.top_k;
  return (words + (spec.n_groups > 1 ? static_cast<size_t>(warps) * spec.n_experts : 0)) * sizeof(uint32_t);
}

} // namespace yk_moe

#endif
