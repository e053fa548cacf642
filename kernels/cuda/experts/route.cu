/* route.cu - see route.h. */
#include "kernels/cuda/experts/route.h"

#include <algorithm>

#include "kernels/cuda/experts/route_choose.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_experts;

namespace {

/* Rows of a block, a warp each: more blocks where they fit in a cluster, since a row takes a warp some microseconds. */
constexpr int FEWEST_BLOCK_ROWS = 4, MOST_BLOCK_ROWS = YK_ROUTE_BLOCK_ROWS;
constexpr int MOST_THREADS = 1024, MOST_BLOCKS_OF_CLUSTER = 8;

int ceil_div(int a, int b)
{
  return (a + b - 1) / b;
}

/* Where the counts of other blocks are. */
enum class peers { CLUSTER, SCRATCH };

/* Memory that the assigning needs: words of the rows that chose each expert of the model, and first slots of the rank's
 * experts. */
struct route_memory {
  uint32_t *chosen; /* [n_experts] */
  int *first;       /* [n_local] first slot of this block's rows */
  int *total;       /* [n_local] */
  int *sums;        /* [32] */
  int *choices;     /* [block_rows, top_k] of this block's rows */
};

__device__ route_memory memory_of(const route_params &p, uint32_t *shared)
{
  int *first = reinterpret_cast<int *>(shared + p.spec.n_experts);
  int *sums = first + 2 * p.spec.n_local;
  return {shared, first, first + p.spec.n_local, sums, sums + WARP};
}

/* Slots of each of the rank's experts in the blocks before this one and in all. */
__device__ void count_in_cluster(const route_params &p, const route_memory &m)
{
  const int n_blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  for (int e = threadIdx.x; e < p.spec.n_local; e += blockDim.x) {
    int before = 0, total = 0;
    for (int b = 0; b < n_blocks; b++) {
      uint32_t *own = m.chosen + p.spec.first_local + e;
#if __CUDA_ARCH__ >= 900
      if (n_blocks > 1) own = map_shared_rank(own, b);
#endif
      const int count = __popc(*own);
      before += b < block ? count : 0;
      total += count;
    }
    m.first[e] = before;
    m.total[e] = total;
  }
}

/* Additions of integers, whose order changes nothing. */
__device__ void count_in_scratch(const route_params &p, const route_memory &m)
{
  const int n_local = p.spec.n_local, n = static_cast<int>(gridDim.x) * n_local;
  for (int e = threadIdx.x; e < n_local; e += blockDim.x) m.first[e] = m.total[e] = 0;
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int count = __ldcg(p.scratch + i), block = i / n_local, e = i - block * n_local;
    if (count == 0) continue;
    atomicAdd(m.total + e, count);
    if (block < static_cast<int>(blockIdx.x)) atomicAdd(m.first + e, count);
  }
}

/* first becomes the first slot of this block's rows; block 0 writes starts. */
__device__ void add_starts(const route_params &p, const route_memory &m)
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

/* Slots of this block's choices. */
__device__ void assign_slots(const route_params &p, const route_memory &m, int row0, int n_rows)
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

__device__ void add_counts(const route_params &p, const route_memory &m)
{
  if (!p.counts) return;
  for (int e = threadIdx.x; e < p.spec.n_experts; e += blockDim.x)
    if (m.chosen[e])
      atomicAdd(reinterpret_cast<unsigned long long *>(p.counts) + e,
                static_cast<unsigned long long>(__popc(m.chosen[e])));
}

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

/* Choose, and with the counts of the cluster's other blocks assign too. */
template <int PER_LANE, peers PEERS>
__global__ void __launch_bounds__(MOST_THREADS) route_kernel(const __grid_constant__ route_params p)
{
  extern __shared__ uint32_t shared[];
  const route_memory m = memory_of(p, shared);
  const int row0 = blockIdx.x * p.block_rows, n_rows = min(p.block_rows, p.n_tokens - row0);
  let_next_kernel_start();
  wait_for_previous_kernel();
  choose_rows<PER_LANE>(p, m, row0, n_rows);
  add_counts(p, m);
  if constexpr (PEERS == peers::SCRATCH) {
    for (int e = threadIdx.x; e < p.spec.n_local; e += blockDim.x)
      p.scratch[blockIdx.x * p.spec.n_local + e] = __popc(m.chosen[p.spec.first_local + e]);
    return;
  }
#if __CUDA_ARCH__ >= 900
  if (gridDim.x > 1) cluster_sync();
#endif
  count_in_cluster(p, m);
  __syncthreads();
  add_starts(p, m);
  assign_slots(p, m, row0, n_rows);
#if __CUDA_ARCH__ >= 900
  if (gridDim.x > 1) cluster_sync(); /* others may still read this block's words */
#endif
}

__global__ void __launch_bounds__(MOST_THREADS) assign_kernel(const __grid_constant__ route_params p)
{
  extern __shared__ uint32_t shared[];
  const route_memory m = memory_of(p, shared);
  const int row0 = blockIdx.x * p.block_rows, n_rows = min(p.block_rows, p.n_tokens - row0);
  for (int e = threadIdx.x; e < p.spec.n_experts; e += blockDim.x) m.chosen[e] = 0;
  let_next_kernel_start();
  wait_for_previous_kernel();
  __syncthreads();
  for (int i = threadIdx.x; i < n_rows * p.spec.top_k; i += blockDim.x) {
    const int expert = p.choices[row0 * p.spec.top_k + i];
    m.choices[i] = expert;
    if (expert >= 0) atomicOr(m.chosen + expert, 1u << (i / p.spec.top_k));
  }
  count_in_scratch(p, m);
  __syncthreads();
  add_starts(p, m);
  assign_slots(p, m, row0, n_rows);
}

size_t shared_bytes(const yk_route_spec &spec, int block_rows, int warps)
{
  const size_t words = static_cast<size_t>(spec.n_experts) + 2 * static_cast<size_t>(spec.n_local) + WARP +
                       static_cast<size_t>(block_rows) * spec.top_k;
  return (words + (spec.n_groups > 1 ? static_cast<size_t>(warps) * spec.n_experts : 0)) * sizeof(uint32_t);
}

template <peers PEERS> const void *route_kernel_for(int n_experts)
{
  if (n_experts <= 4 * WARP) return reinterpret_cast<const void *>(route_kernel<4, PEERS>);
  if (n_experts <= 8 * WARP) return reinterpret_cast<const void *>(route_kernel<8, PEERS>);
  if (n_experts <= 16 * WARP) return reinterpret_cast<const void *>(route_kernel<16, PEERS>);
  return reinterpret_cast<const void *>(route_kernel<YK_MAX_EXPERTS / WARP, PEERS>);
}

/* With groups a warp needs memory for the keys of a row: as many warps as a GPU of 8.6 has memory for. */
int most_warps(const yk_route_spec &spec)
{
  constexpr size_t MOST_SHARED_BYTES = 96 * 1024;
  if (spec.n_groups <= 1) return WARP;
  return static_cast<int>((MOST_SHARED_BYTES - shared_bytes(spec, MOST_BLOCK_ROWS, 0)) / sizeof(uint32_t)) /
         spec.n_experts;
}

} // namespace

extern "C" cudaError_t yk_cuda_route_init(void)
{
  cudaFuncAttributes code;
  cudaError_t error = cudaFuncGetAttributes(&code, reinterpret_cast<const void *>(assign_kernel));
  for (int n_experts : {128, 256, 512, 1024}) {
    const void *kernels[] = {route_kernel_for<peers::CLUSTER>(n_experts), route_kernel_for<peers::SCRATCH>(n_experts)};
    for (const void *kernel : kernels)
      if (error == cudaSuccess)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
  }
  return error;
}

extern "C" cudaError_t yk_cuda_launch_route(const yk_route_args *args, cudaStream_t stream)
{
  const yk_route_spec &spec = *args->spec;
  if (args->n_tokens <= 0) return cudaMemsetAsync(args->starts, 0, (spec.n_local + 1) * sizeof(int32_t), stream);
  route_params p = {};
  p.spec = spec;
  p.logits = args->logits;
  p.logits_stride = args->logits_stride;
  p.bias = args->bias;
  p.kv_slots = args->kv_slots;
  p.n_tokens = args->n_tokens;
  p.choices = args->choices;
  p.weights = args->weights;
  p.starts = args->starts;
  p.row_of_slot = args->row_of_slot;
  p.slot_of_choice = args->slot_of_choice;
  p.counts = args->counts;
  p.scratch = static_cast<int32_t *>(args->scratch);
  bool has_clusters = false;
  const cudaError_t error = has_code_for_90(reinterpret_cast<const void *>(assign_kernel), &has_clusters);
  if (error != cudaSuccess) return error;
  const int most_of_cluster = has_clusters ? MOST_BLOCKS_OF_CLUSTER : 1;
  p.block_rows = std::clamp(ceil_div(args->n_tokens, most_of_cluster), FEWEST_BLOCK_ROWS, MOST_BLOCK_ROWS);
  const int blocks = ceil_div(args->n_tokens, p.block_rows);
  const int scanners = ceil_div(spec.n_local, WARP); /* warps, for a thread each expert */
  const int warps = std::clamp(std::max(std::min(args->n_tokens, p.block_rows), scanners), 1, most_warps(spec));
  const size_t bytes = shared_bytes(spec, p.block_rows, warps);
  const dim3 grid(static_cast<unsigned>(blocks));
  void *pointers[] = {&p};
  if (blocks <= most_of_cluster)
    return launch_dependent(route_kernel_for<peers::CLUSTER>(spec.n_experts), {grid, WARP * warps, bytes, blocks},
                            stream, pointers);
  const cudaError_t chosen = launch_dependent(route_kernel_for<peers::SCRATCH>(spec.n_experts),
                                              {grid, WARP * warps, bytes, 1}, stream, pointers);
  if (chosen != cudaSuccess) return chosen;
  return launch_dependent(reinterpret_cast<const void *>(assign_kernel),
                          {grid, MOST_THREADS, shared_bytes(spec, p.block_rows, 0), 1}, stream, pointers);
}
