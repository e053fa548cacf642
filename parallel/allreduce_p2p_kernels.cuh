/* allreduce_p2p_kernels.cuh - the one-shot and the two-shot all-reduce kernels, and their launch. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH

#include <algorithm>

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "parallel/allreduce_p2p_rows.cuh"

namespace yk_p2p_kernels {

/* Rows (one-shot), or sets of n_ranks consecutive rows (two-shot), of this thread block: number blockIdx.x + k *
 * gridDim.x for k below the result. Their packets lie in the slots in the order of k. */
__device__ __forceinline__ int items_of_block(int n_items)
{
  return (n_items - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
}

/* Of a one-shot launch. */
__device__ __forceinline__ int row_of_block(int k)
{
  return static_cast<int>(blockIdx.x + k * gridDim.x);
}

/* Of a thread block whose threads hold so many packets of a row. Combining takes more registers than half the threads
 * of a multiprocessor have. */
constexpr int most_threads(int packets, bool combines)
{
  return packets == 1 && !combines ? MAX_THREADS : GROUP_BLOCK_THREADS;
}

template <typename T, int N, int V, bool NORM, bool COMBINES>
__global__ void __launch_bounds__(most_threads(V, COMBINES)) one_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  const thread_group<V> group(a);
  const int n_mine = items_of_block(a.n_rows);
  uint4 weights[V], x[V]; /* w depends on no kernel; a group's first row is loaded ahead of the counters */
  if (HOLDS_WEIGHTS<V> && NORM && a.w) group.load(static_cast<const uint4 *>(a.w), a.row_packets, weights);
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (V == 1 || row_of_block(group.index) < a.n_rows)
    load_partial<T, V, NORM, COMBINES>(a, group, row_of_block(group.index), x);
  block_view b(a);
  for (int k = group.index; k < n_mine && !b.stopped; k += group.n_groups) {
    const int row = row_of_block(k), n = packets_of<NORM>(a, row);
    if (k != group.index) load_partial<T, V, NORM, COMBINES>(a, group, row, x);
#pragma unroll
    for (int j = 1; j < N; j++) {
      if (j >= a.n_ranks) continue;
      uint4 *to = b.slot(a.first, peer_at(a, j), b.set, a.rank) + k * a.row_packets;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), sendable(x[v]));
      }
    }
  }
  b.clear(a.first);
  int parity = 0;
  for (int k = group.index; k < n_mine && !b.stopped; k += group.n_groups, parity ^= 1) {
    const int row = row_of_block(k);
    uint4 sum[V];
    reduce_row<T, N, V, NORM>(
        b, group, row, sum, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + k * a.row_packets; },
        [](int, uint4) {});
    b.stopped = norm_row<T, V, NORM>(a, group, row, sum, weights, scratch[parity], b.stopped);
  }
  b.end(n_mine * a.row_packets);
}

/* Reduce-scatter, then all-gather: of every n_ranks consecutive rows, rank r reduces row r. */
template <typename T, int N, int V, bool NORM, bool COMBINES>
__global__ void __launch_bounds__(most_threads(V, COMBINES)) two_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  const thread_group<V> group(a);
  const int n_mine = items_of_block((a.n_rows + a.n_ranks - 1) / a.n_ranks);
  uint4 weights[V];
  if (HOLDS_WEIGHTS<V> && NORM && a.w) group.load(static_cast<const uint4 *>(a.w), a.row_packets, weights);
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  block_view b(a);
  /* A rank whose result does not come may itself wait for a third one: whoever waits for that one's packets is to name
   * it first. */
  const uint64_t result_timeout_ns = a.timeout_ns + (a.timeout_ns == UINT64_MAX ? 0 : a.timeout_ns / 4);
  for (int k = group.index; k < n_mine && !b.stopped; k += group.n_groups) {
#pragma unroll(COMBINES ? 1 : N)
    for (int j = 1; j <= N; j++) { /* last the own row, which is not sent */
      const int peer = peer_at(a, j % N), row = (blockIdx.x + k * gridDim.x) * a.n_ranks + peer;
      if (j % N >= a.n_ranks || row >= a.n_rows || (j == N && !COMBINES)) continue;
      const int n = packets_of<NORM>(a, row);
      uint4 x[V], *to = b.slot(a.first, peer, b.set, a.rank) + k * a.row_packets;
      load_partial<T, V, NORM, COMBINES>(a, group, row, x);
      if (j == N) continue;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), sendable(x[v]));
      }
    }
  }
  b.clear(a.first);
  b.clear(a.second);
  int parity = 0;
  for (int k = group.index; k < n_mine && !b.stopped; k += group.n_groups) {
    const int row = (blockIdx.x + k * gridDim.x) * a.n_ranks + a.rank;
    if (row >= a.n_rows) continue;
    uint4 sum[V], *to[N];
#pragma unroll
    for (int j = 1; j < N; j++) to[j] = b.slot(a.second, peer_at(a, j), b.set, a.rank) + k * a.row_packets;
    reduce_row<T, N, V, NORM>(
        b, group, row, sum, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + k * a.row_packets; },
        [&](int at, uint4 &packet) {
          packet = sendable(packet);
#pragma unroll
          for (int j = 1; j < N; j++) {
            if (j < a.n_ranks) yk_ptx::store_relaxed_sys16(to[j] + at, packet);
          }
        });
    b.stopped = norm_row<T, V, NORM>(a, group, row, sum, weights, scratch[parity], b.stopped);
    parity ^= 1;
  }
  for (int k = group.index; k < n_mine && !b.stopped; k += group.n_groups) {
    for (int j = 1; j < a.n_ranks; j++) {
      const int peer = peer_at(a, j), row = (blockIdx.x + k * gridDim.x) * a.n_ranks + peer;
      if (row >= a.n_rows) continue;
      const int n = packets_of<NORM>(a, row);
      const uint4 *from = b.slot(a.second, a.rank, b.set, peer) + k * a.row_packets;
      uint4 sum[V], *residual = static_cast<uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets;
      b.wait(result_timeout_ns, [&] {
#pragma unroll
        for (int v = 0; v < V; v++) {
          if (group.at(v) < n) sum[v] = yk_ptx::load_relaxed_sys16(from + group.at(v));
        }
        bool all = true;
#pragma unroll
        for (int v = 0; v < V; v++) all &= group.at(v) >= n || has_arrived(sum[v]);
        return all ? -1 : peer;
      });
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) residual[group.at(v)] = sum[v];
      }
      b.stopped = norm_row<T, V, NORM>(a, group, row, sum, weights, scratch[parity], b.stopped);
      parity ^= 1;
    }
  }
  b.end(n_mine * a.row_packets);
}

using kernel = void (*)(launch_args);

template <typename T, int N, int V, bool NORM, bool COMBINES> kernel kernel_with(bool two_shot)
{
  if constexpr (!std::is_same_v<T, int32_t>)
    if (two_shot) return two_shot_kernel<T, N, V, NORM, COMBINES>;
  return one_shot_kernel<T, N, V, NORM, COMBINES>;
}

template <typename T, int N, int V, bool NORM> kernel kernel_with(bool two_shot, bool combines)
{
  if constexpr (NORM)
    if (combines) return kernel_with<T, N, V, NORM, true>(two_shot);
  return kernel_with<T, N, V, NORM, false>(two_shot);
}

template <typename T, int N, bool NORM> kernel kernel_of(bool two_shot, bool combines, int packets)
{
  switch (packets) {
  case 1: return kernel_with<T, N, 1, NORM>(two_shot, combines);
  case 2: return kernel_with<T, N, 2, NORM>(two_shot, combines);
  default: return kernel_with<T, N, MAX_PACKETS, NORM>(two_shot, combines);
  }
}

/* packets: those of a row that a thread holds. */
template <typename T, bool NORM> kernel kernel_for(int n_ranks, bool two_shot, bool combines, int packets)
{
  if (n_ranks <= 2) return kernel_of<T, 2, NORM>(two_shot, combines, packets);
  if (n_ranks <= 4) return kernel_of<T, 4, NORM>(two_shot, combines, packets);
  return kernel_of<T, YK_MAX_RANKS, NORM>(two_shot, combines, packets);
}

inline int group_threads(int row_packets, int packets)
{
  return ((row_packets + packets - 1) / packets + 31) / 32 * 32;
}

/* The fewest packets a thread with which a thread block has all its rows under way at once; MAX_PACKETS where there are
 * too many. */
inline int packets_of_thread(int row_packets, int rows_of_block, bool combines)
{
  if (rows_of_block == 1 && row_packets <= most_threads(1, combines)) return 1;
  return rows_of_block * group_threads(row_packets, 2) <= GROUP_BLOCK_THREADS ? 2 : MAX_PACKETS;
}

template <typename T, bool NORM> cudaError_t launch(const launch_args &args, bool two_shot, cudaStream_t stream)
{
  launch_args a = args;
  const bool combines = a.combine.y != nullptr;
  const int n_items = two_shot ? (a.n_rows + a.n_ranks - 1) / a.n_ranks : a.n_rows;
  const int n_blocks = std::min(n_items, MAX_BLOCKS), most_items = (n_items + n_blocks - 1) / n_blocks;
  const int packets = packets_of_thread(a.row_packets, most_items, combines);
  a.group_threads = group_threads(a.row_packets, packets);
  const int most_groups = std::max(std::min(GROUP_BLOCK_THREADS / a.group_threads, MAX_GROUPS), 1);
  const int n_threads = std::min(most_items, most_groups) * a.group_threads;
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(n_blocks)), n_threads, 0, 1};
  const kernel which = kernel_for<T, NORM>(a.n_ranks, two_shot, combines, packets);
  return yk_ptx::launch_dependent(which, shape, stream, a);
}

/* The same carveout as the GEMMs before and after: a multiprocessor changes it only when empty. */
inline cudaError_t load(kernel which)
{
  cudaFuncAttributes attributes;
  const cudaError_t rc = cudaFuncGetAttributes(&attributes, which);
  return rc != cudaSuccess ? rc
                           : cudaFuncSetAttribute(which, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                  cudaSharedmemCarveoutMaxShared);
}

template <typename T, bool NORM> cudaError_t load(int n_ranks)
{
  for (int packets : {1, 2, MAX_PACKETS})
    for (bool two_shot : {false, true})
      for (bool combines : {false, true}) {
        const cudaError_t rc = load(kernel_for<T, NORM>(n_ranks, two_shot, combines, packets));
        if (rc != cudaSuccess) return rc;
      }
  return cudaSuccess;
}

} // namespace yk_p2p_kernels

#endif
