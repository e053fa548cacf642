/* route.cu - see route.h. */
#include "kernels/cuda/moe/route.h"

#include <algorithm>

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/moe/route_assign.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_moe;

namespace {

/* Rows of a block, one warp each. A row takes a warp some microseconds, so small blocks are preferred as long as their
 * number fits in a cluster. */
constexpr int FEWEST_BLOCK_ROWS = 4, MOST_BLOCK_ROWS = YK_ROUTE_BLOCK_ROWS;
constexpr int MOST_THREADS = 1024, MOST_BLOCKS_OF_CLUSTER = 8;

/* Location of the other blocks' counts. */
enum class peers { CLUSTER, SCRATCH };

/* Counts the slots of each of the rank's experts, in the blocks before this block and in all. The loads of all blocks'
 * words are issued together. */
__device__ void count_in_cluster(const route_params &p, const route_memory &m)
{
  const int block = static_cast<int>(blockIdx.x);
  for (int e = threadIdx.x; e < p.spec.n_local; e += blockDim.x) {
    uint32_t *own = m.chosen + p.spec.first_local + e, words[MOST_BLOCKS_OF_CLUSTER] = {*own};
#if __CUDA_ARCH__ >= 900
    const int n_blocks = static_cast<int>(gridDim.x);
#pragma unroll
    for (int b = 0; b < MOST_BLOCKS_OF_CLUSTER; b++)
      if (n_blocks > 1) words[b] = b < n_blocks ? *map_shared_rank(own, b) : 0;
#endif
    int before = 0, total = 0;
#pragma unroll
    for (int b = 0; b < MOST_BLOCKS_OF_CLUSTER; b++) {
      before += b < block ? __popc(words[b]) : 0;
      total += __popc(words[b]);
    }
    m.first[e] = before;
    m.total[e] = total;
  }
}

/* Integer additions, whose order does not change the result. */
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

/* Chooses the experts; in a cluster also assigns slots, from the counts of the cluster's other blocks. */
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
  if (gridDim.x > 1) cluster_sync(); /* other blocks may still read this block's words */
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

template <peers PEERS> const void *route_kernel_for(int n_experts)
{
  if (n_experts <= 4 * WARP) return reinterpret_cast<const void *>(route_kernel<4, PEERS>);
  if (n_experts <= 8 * WARP) return reinterpret_cast<const void *>(route_kernel<8, PEERS>);
  if (n_experts <= 16 * WARP) return reinterpret_cast<const void *>(route_kernel<16, PEERS>);
  return reinterpret_cast<const void *>(route_kernel<YK_MAX_EXPERTS / WARP, PEERS>);
}

/* With groups each warp needs memory for the keys of a row: the limit is the memory of a GPU of compute capability
 * 8.6. */
int most_warps(const yk_route_spec &spec)
{
  constexpr size_t MOST_SHARED_BYTES = 96 * 1024;
  if (spec.n_groups <= 1) return WARP;
  return static_cast<int>((MOST_SHARED_BYTES - route_shared_bytes(spec, MOST_BLOCK_ROWS, 0)) / sizeof(uint32_t)) /
         spec.n_experts;
}

} // namespace

extern "C" cudaError_t yk_cuda_route_init(void)
{
  cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(assign_kernel));
  for (int n_experts : {128, 256, 512, 1024}) {
    const void *kernels[] = {route_kernel_for<peers::CLUSTER>(n_experts), route_kernel_for<peers::SCRATCH>(n_experts)};
    for (const void *kernel : kernels) {
      if (error == cudaSuccess) error = prefer_shared_memory(kernel);
      if (error == cudaSuccess)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
    }
  }
  return error;
}

extern "C" cudaError_t yk_cuda_launch_route(const yk_route_args *args, cudaStream_t stream)
{
  const yk_route_spec &spec = *args->spec;
  if (args->n_tokens <= 0) return cudaMemsetAsync(args->starts, 0, (spec.n_local + 1) * sizeof(int32_t), stream);
  route_params p = route_params_of(*args);
  bool has_clusters = false;
  const cudaError_t error = has_code_for_90(reinterpret_cast<const void *>(assign_kernel), &has_clusters);
  if (error != cudaSuccess) return error;
  const int most_of_cluster = has_clusters ? MOST_BLOCKS_OF_CLUSTER : 1;
  p.block_rows = std::clamp(ceil_div(args->n_tokens, most_of_cluster), FEWEST_BLOCK_ROWS, MOST_BLOCK_ROWS);
  const int blocks = ceil_div(args->n_tokens, p.block_rows);
  const int scanners = ceil_div(spec.n_local, WARP); /* warps, one thread per expert */
  const int warps = std::clamp(std::max(std::min(args->n_tokens, p.block_rows), scanners), 1, most_warps(spec));
  const size_t bytes = route_shared_bytes(spec, p.block_rows, warps);
  const dim3 grid(static_cast<unsigned>(blocks));
  void *pointers[] = {&p};
  if (blocks <= most_of_cluster)
    return launch_dependent(route_kernel_for<peers::CLUSTER>(spec.n_experts), {grid, WARP * warps, bytes, blocks},
                            stream, pointers);
  const cudaError_t chosen = launch_dependent(route_kernel_for<peers::SCRATCH>(spec.n_experts),
                                              {grid, WARP * warps, bytes, 1}, stream, pointers);
  if (chosen != cudaSuccess) return chosen;
  return launch_dependent(reinterpret_cast<const void *>(assign_kernel),
                          {grid, MOST_THREADS, route_shared_bytes(spec, p.block_rows, 0), 1}, stream, pointers);
}
