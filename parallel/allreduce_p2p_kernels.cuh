/* allreduce_p2p_kernels.cuh - device code: a sum in one or two steps, and its launch. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH

#include <algorithm>

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "parallel/allreduce_p2p_rows.cuh"

namespace yk_p2p_kernels {

/* Rows or groups of rows that are this block's: blockIdx.x + k * gridDim.x for k below it. Its packets lie in that order in slots. */
__device__ __forceinline__ int items_of_block(int n_items)
{
  return (n_items - 1 - (int)blockIdx.x) / (int)gridDim.x + 1;
}

template <typename T, int N, int V, bool NORM>
__global__ void __launch_bounds__(V == 1 ? MAX_THREADS : TEAM_BLOCK_THREADS)
    one_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  const row_team<V> team(a);
  const int n_mine = items_of_block(a.n_rows);
  uint4 weights[V], ahead[V]; /* weights depend on no kernel; the first row needs no block_view */
  if (NORM && V == 1 && a.w) team.load((const uint4 *)a.w, a.row_packets, weights);
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (V == 1)
    team.load((const uint4 *)a.x + (int64_t)blockIdx.x * a.row_packets, packets_of<NORM>(a, blockIdx.x), ahead);
  block_view b(a);
  for (int k = team.index; k < n_mine && !b.dead; k += team.n_teams) {
    const int row = blockIdx.x + k * gridDim.x, n = packets_of<NORM>(a, row);
    if (V > 1 || k > 0) team.load((const uint4 *)a.x + (int64_t)row * a.row_packets, n, ahead);
#pragma unroll
    for (int j = 1; j < N; j++) {
      if (j >= a.n_ranks) continue;
      uint4 *to = b.slot(a.first, peer_at(a, j), b.set, a.rank) + k * a.row_packets;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (team.at(v) < n) send(to + team.at(v), sendable(ahead[v]));
      }
    }
  }
  b.clear(a.first);
  int parity = 0;
  for (int k = team.index; k < n_mine && !b.dead; k += team.n_teams, parity ^= 1) {
    const int row = blockIdx.x + k * gridDim.x;
    uint4 sum[V];
    sum_row<T, N, V, NORM>(
        b, team, row, sum, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + k * a.row_packets; },
        [](int, uint4) {});
    b.dead = end_row<T, V, NORM>(a, team, row, sum, weights, scratch[parity], b.dead);
  }
  b.end(n_mine * a.row_packets);
}

/* Rows come in groups of n_ranks; row r of a group is added up by rank r. */
template <typename T, int N, int V, bool NORM>
__global__ void __launch_bounds__(V == 1 ? MAX_THREADS : TEAM_BLOCK_THREADS)
    two_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  const row_team<V> team(a);
  const int n_mine = items_of_block((a.n_rows + a.n_ranks - 1) / a.n_ranks);
  uint4 weights[V];
  if (NORM && V == 1 && a.w) team.load((const uint4 *)a.w, a.row_packets, weights);
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  block_view b(a);
  /* A result that does not come may wait for another rank, which whoever waits for its data is to name first. */
  const uint64_t result_timeout_ns = a.timeout_ns + (a.timeout_ns == UINT64_MAX ? 0 : a.timeout_ns / 4);
  for (int k = team.index; k < n_mine && !b.dead; k += team.n_teams) {
#pragma unroll
    for (int j = 1; j < N; j++) {
      const int peer = peer_at(a, j), row = (blockIdx.x + k * gridDim.x) * a.n_ranks + peer;
      if (j >= a.n_ranks || row >= a.n_rows) continue;
      const int n = packets_of<NORM>(a, row);
      uint4 x[V], *to = b.slot(a.first, peer, b.set, a.rank) + k * a.row_packets;
      team.load((const uint4 *)a.x + (int64_t)row * a.row_packets, n, x);
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (team.at(v) < n) send(to + team.at(v), sendable(x[v]));
      }
    }
  }
  b.clear(a.first);
  b.clear(a.second);
  int parity = 0;
  for (int k = team.index; k < n_mine && !b.dead; k += team.n_teams) {
    const int row = (blockIdx.x + k * gridDim.x) * a.n_ranks + a.rank;
    if (row >= a.n_rows) continue;
    uint4 sum[V], *to[N];
#pragma unroll
    for (int j = 1; j < N; j++) to[j] = b.slot(a.second, peer_at(a, j), b.set, a.rank) + k * a.row_packets;
    sum_row<T, N, V, NORM>(
        b, team, row, sum, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + k * a.row_packets; },
        [&](int at, uint4 &packet) {
          packet = sendable(packet);
#pragma unroll
          for (int j = 1; j < N; j++) {
            if (j < a.n_ranks) send(to[j] + at, packet);
          }
        });
    b.dead = end_row<T, V, NORM>(a, team, row, sum, weights, scratch[parity], b.dead);
    parity ^= 1;
  }
  for (int k = team.index; k < n_mine && !b.dead; k += team.n_teams) {
    for (int j = 1; j < a.n_ranks; j++) {
      const int peer = peer_at(a, j), row = (blockIdx.x + k * gridDim.x) * a.n_ranks + peer;
      if (row >= a.n_rows) continue;
      const int n = packets_of<NORM>(a, row);
      const uint4 *from = b.slot(a.second, a.rank, b.set, peer) + k * a.row_packets;
      uint4 sum[V], *residual = (uint4 *)a.residual + (int64_t)row * a.row_packets;
      b.wait(result_timeout_ns, [&] {
#pragma unroll
        for (int v = 0; v < V; v++) {
          if (team.at(v) < n) sum[v] = receive(from + team.at(v));
        }
        bool all = true;
#pragma unroll
        for (int v = 0; v < V; v++) all &= team.at(v) >= n || is_there(sum[v]);
        return all ? -1 : peer;
      });
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (team.at(v) < n) residual[team.at(v)] = sum[v];
      }
      b.dead = end_row<T, V, NORM>(a, team, row, sum, weights, scratch[parity], b.dead);
      parity ^= 1;
    }
  }
  b.end(n_mine * a.row_packets);
}

using kernel = void (*)(launch_args);

template <typename T, int N, bool NORM> kernel kernel_of(bool two_shot, int packets)
{
  switch (packets) {
  case 1: return two_shot ? two_shot_kernel<T, N, 1, NORM> : one_shot_kernel<T, N, 1, NORM>;
  case 2: return two_shot ? two_shot_kernel<T, N, 2, NORM> : one_shot_kernel<T, N, 2, NORM>;
  default: return two_shot ? two_shot_kernel<T, N, MAX_PACKETS, NORM> : one_shot_kernel<T, N, MAX_PACKETS, NORM>;
  }
}

/* packets: of a row that a thread holds. */
template <typename T, bool NORM> kernel kernel_for(int n_ranks, bool two_shot, int packets)
{
  if (n_ranks <= 2) return kernel_of<T, 2, NORM>(two_shot, packets);
  if (n_ranks <= 4) return kernel_of<T, 4, NORM>(two_shot, packets);
  return kernel_of<T, YK_MAX_RANKS, NORM>(two_shot, packets);
}

inline int team_threads(int row_packets, int packets)
{
  return ((row_packets + packets - 1) / packets + 31) / 32 * 32;
}

/* As few packets a thread as let a block have all its rows under way at once, if that can be. */
inline int packets_of_thread(int row_packets, int rows_of_block)
{
  if (rows_of_block == 1 && row_packets <= MAX_THREADS) return 1;
  return rows_of_block * team_threads(row_packets, 2) <= TEAM_BLOCK_THREADS ? 2 : MAX_PACKETS;
}

template <typename T, bool NORM> cudaError_t launch(const launch_args &args, bool two_shot, cudaStream_t stream)
{
  launch_args a = args;
  const int n_items = two_shot ? (a.n_rows + a.n_ranks - 1) / a.n_ranks : a.n_rows;
  const int n_blocks = std::min(n_items, MAX_BLOCKS), most_items = (n_items + n_blocks - 1) / n_blocks;
  const int packets = packets_of_thread(a.row_packets, most_items);
  a.team_threads = team_threads(a.row_packets, packets);
  const int most_teams = std::max(std::min(TEAM_BLOCK_THREADS / a.team_threads, MAX_TEAMS), 1);
  const int n_threads = std::min(most_items, most_teams) * a.team_threads;
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(n_blocks)), n_threads, 0, 1};
  return yk_ptx::launch_dependent(kernel_for<T, NORM>(a.n_ranks, two_shot, packets), shape, stream, a);
}

template <typename T, bool NORM> cudaError_t load(int n_ranks)
{
  cudaError_t rc = cudaSuccess;
  for (int packets : {1, 2, MAX_PACKETS}) {
    for (bool two_shot : {false, true}) {
      cudaFuncAttributes attributes;
      const kernel which = kernel_for<T, NORM>(n_ranks, two_shot, packets);
      if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, which);
      /* As the products around it, lest a multiprocessor be divided anew. */
      if (rc == cudaSuccess)
        rc =
            cudaFuncSetAttribute(which, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    }
  }
  return rc;
}

} // namespace yk_p2p_kernels

#endif
