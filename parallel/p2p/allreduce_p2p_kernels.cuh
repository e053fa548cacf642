/* allreduce_p2p_kernels.cuh - the one-shot and the two-shot all-reduce kernels. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "parallel/p2p/allreduce_p2p_launch.cuh"
#include "parallel/p2p/allreduce_p2p_rows.cuh"

namespace yk_p2p_kernels {

/* Number of items of this thread block. An item is a row (one-shot), or n_ranks consecutive rows, of which each rank
 * reduces one (two-shot). The packets of the thread block's item k are in its slots from k * row_packets on. */
__device__ __forceinline__ int items_of_block(int n_items)
{
  return (n_items - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
}

/* The number, within the launch, of the thread block's item k. */
__device__ __forceinline__ int item_of_block(int k)
{
  return static_cast<int>(blockIdx.x + k * gridDim.x);
}

template <typename T, int N, typename G, norms NORMS, bool COMBINES>
__global__ void __launch_bounds__(most_threads(G::V, G::MANY, COMBINES))
    one_shot_kernel(const __grid_constant__ launch_args a)
{
  constexpr int V = G::V;
  __shared__ float scratch[2][32];
  const G group(a);
  const int n_mine = G::MANY ? items_of_block(a.n_rows) : 1;
  uint4 weights[V], result_weights[V]; /* loaded before griddepcontrol.wait: no kernel writes w */
  yk_cuda::few_choices chosen;
  const bool is_settled = COMBINES && G::HOLDS && a.combine.choices_are_settled;
  load_weights<G, NORMS>(a, group, weights);
  if constexpr (NORMS == norms::BOTH) load_result_weights(a, group, result_weights);
  if (is_settled) chosen = first_choices<COMBINES>(a, item_of_block(group.index));
  fetch_parameters(a);
  if (!a.late_next) yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (a.late_next) yk_ptx::let_next_kernel_start();
  block_view b(a);
  row_so_far<V> held = {};
  group.for_items(n_mine, [&](int k) {
    const int row = item_of_block(k), n = packets_of<NORMS>(a, row);
    if (!is_settled) chosen = first_choices<COMBINES>(a, row);
    load_row<T, G, NORMS, COMBINES>(a, group, row, chosen, held);
#pragma unroll
    for (int j = 1; j < N; j++) {
      if (j >= a.n_ranks) continue;
      uint4 *to = b.slot(a.first, peer_at(a, j), a.rank) + k * a.row_packets;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), sendable(held.partial[v]));
      }
    }
  });
  b.count_launch();
  int parity = 0;
  group.for_items(n_mine, [&](int k) {
    if (b.stopped) return;
    const int row = item_of_block(k);
    uint4 sum[V];
    reduce_row<T, N, G, NORMS>(
        b, group, row, held, sum, [&](int r) { return b.slot(a.first, a.rank, r) + k * a.row_packets; },
        [](int, uint4) {});
    if constexpr (NORMS == norms::BOTH)
      b.stopped = finish_row<T>(a, group, row, sum, G::HOLDS, held.residual, result_weights, weights, scratch, parity,
                                b.stopped);
    else
      b.stopped = norm_row<T, G, NORMS>(a, group, row, sum, weights, scratch[parity], b.stopped);
    parity ^= 1;
  });
}

/* Waits until the row that peer has reduced is in the slots of the thread block's item k. Writes the row to sum, and to
 * residual unless the sum itself is normalised (result_w). */
template <typename G, norms NORMS>
__device__ __forceinline__ void receive_row(block_view &b, const G &group, int row, int k, int peer,
                                            uint64_t timeout_ns, uint4 (&sum)[G::V])
{
  constexpr int V = G::V;
  const launch_args &a = b.a;
  const int n = packets_of<NORMS>(a, row);
  uint4 *from = b.slot(a.second, a.rank, peer) + k * a.row_packets;
  uint4 *residual = static_cast<uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets;
  b.wait(timeout_ns, [&] {
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
    if (group.at(v) >= n) continue;
    if (!norms_sum<NORMS>(a)) residual[group.at(v)] = sum[v];
    empty_slot(from + group.at(v));
  }
}

/* Reduce-scatter, then all-gather: of every n_ranks consecutive rows, rank r reduces row r. */
template <typename T, int N, typename G, norms NORMS, bool COMBINES>
__global__ void __launch_bounds__(most_threads(G::V, G::MANY, COMBINES))
    two_shot_kernel(const __grid_constant__ launch_args a)
{
  constexpr int V = G::V;
  __shared__ float scratch[2][32];
  const G group(a);
  const int n_mine = G::MANY ? items_of_block((a.n_rows + a.n_ranks - 1) / a.n_ranks) : 1;
  const auto row_of = [&](int k, int rank) { return item_of_block(k) * a.n_ranks + rank; };
  uint4 weights[V], result_weights[V];
  load_weights<G, NORMS>(a, group, weights);
  if constexpr (NORMS == norms::BOTH) load_result_weights(a, group, result_weights);
  fetch_parameters(a);
  if (!a.late_next) yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (a.late_next) yk_ptx::let_next_kernel_start();
  block_view b(a);
  row_so_far<V> held = {};
  /* A rank whose result is missing may itself wait for a third rank. The wait for results is longer, so that ranks that
   * wait for packets of the third rank report it first. */
  const uint64_t result_timeout_ns = a.timeout_ns + (a.timeout_ns == UINT64_MAX ? 0 : a.timeout_ns / 4);
  group.for_items(n_mine, [&](int k) {
#pragma unroll(COMBINES ? 1 : N)
    for (int j = 1; j < N; j++) {
      const int peer = peer_at(a, j), row = row_of(k, peer);
      if (j >= a.n_ranks || row >= a.n_rows) continue;
      const int n = packets_of<NORMS>(a, row);
      uint4 x[V], *to = b.slot(a.first, peer, a.rank) + k * a.row_packets;
      load_partial<T, G, NORMS, COMBINES>(a, group, row, first_choices<COMBINES>(a, row), x);
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), sendable(x[v]));
      }
    }
    const int own = row_of(k, a.rank);
    if (own >= a.n_rows || (!G::HOLDS && !COMBINES)) return;
    load_row<T, G, NORMS, COMBINES>(a, group, own, first_choices<COMBINES>(a, own), held);
  });
  b.count_launch();
  int parity = 0;
  group.for_items(n_mine, [&](int k) {
    const int row = row_of(k, a.rank);
    if (b.stopped || row >= a.n_rows) return;
    uint4 sum[V], *to[N];
#pragma unroll
    for (int j = 1; j < N; j++) to[j] = b.slot(a.second, peer_at(a, j), a.rank) + k * a.row_packets;
    reduce_row<T, N, G, NORMS>(
        b, group, row, held, sum, [&](int r) { return b.slot(a.first, a.rank, r) + k * a.row_packets; },
        [&](int at, uint4 &packet) {
          packet = sendable(packet);
#pragma unroll
          for (int j = 1; j < N; j++) {
            if (j < a.n_ranks) yk_ptx::store_relaxed_sys16(to[j] + at, packet);
          }
        });
    if constexpr (NORMS == norms::BOTH)
      b.stopped = finish_row<T>(a, group, row, sum, G::HOLDS, held.residual, result_weights, weights, scratch, parity,
                                b.stopped);
    else
      b.stopped = norm_row<T, G, NORMS>(a, group, row, sum, weights, scratch[parity], b.stopped);
    parity ^= 1;
  });
  group.for_items(n_mine, [&](int k) {
    for (int j = 1; j < a.n_ranks && !b.stopped; j++) {
      const int peer = peer_at(a, j), row = row_of(k, peer);
      if (row >= a.n_rows) continue;
      uint4 sum[V];
      receive_row<G, NORMS>(b, group, row, k, peer, result_timeout_ns, sum);
      if constexpr (NORMS == norms::BOTH)
        b.stopped = finish_row<T>(a, group, row, sum, false, held.residual, result_weights, weights, scratch, parity,
                                  b.stopped);
      else
        b.stopped = norm_row<T, G, NORMS>(a, group, row, sum, weights, scratch[parity], b.stopped);
      parity ^= 1;
    }
  });
}

template <typename T, int N, typename G, norms NORMS, bool COMBINES> kernel kernel_with(bool two_shot)
{
  if constexpr (!std::is_same_v<T, int32_t>)
    if (two_shot) return two_shot_kernel<T, N, G, NORMS, COMBINES>;
  return one_shot_kernel<T, N, G, NORMS, COMBINES>;
}

template <typename T, int N, typename G, norms NORMS> kernel kernel_with(bool two_shot, bool combines)
{
  if constexpr (NORMS == norms::RESIDUAL)
    if (combines) return kernel_with<T, N, G, NORMS, true>(two_shot);
  return kernel_with<T, N, G, NORMS, false>(two_shot);
}

template <typename T, int N, norms NORMS> kernel kernel_of(bool two_shot, bool combines, division d)
{
  switch (d.packets) {
  case 1:
    return d.has_many ? kernel_with<T, N, thread_group<1, true>, NORMS>(two_shot, combines)
                      : kernel_with<T, N, thread_group<1, false>, NORMS>(two_shot, combines);
  case 2: return kernel_with<T, N, thread_group<2, true>, NORMS>(two_shot, combines);
  default: return kernel_with<T, N, thread_group<MAX_PACKETS, true>, NORMS>(two_shot, combines);
  }
}

} // namespace yk_p2p_kernels

#endif
