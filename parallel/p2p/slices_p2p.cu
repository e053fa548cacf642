/* slices_p2p.cu - the two halves of the two-shot all-reduce as separate kernels, between which another communicator
 * reduces this rank's slice further (comm_levels.h). They use the slots, and count launches, as two_shot_kernel does:
 * in either a thread block's launch ends only after packets of every other rank's same thread block have arrived. */
#include "parallel/p2p/slices_p2p.cuh"

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "parallel/p2p/allreduce_p2p_kernels.cuh"

namespace yk_p2p_kernels {

namespace {

/* A row of the slice of `peer`. */
__device__ __forceinline__ uint4 *row_of_slice(const launch_args &a, int peer, int row)
{
  const int64_t slice = static_cast<int64_t>(peer - a.rank) * a.n_packets;
  return static_cast<uint4 *>(a.x) + slice + static_cast<int64_t>(row) * a.row_packets;
}

/* Start of either kernel. */
__device__ __forceinline__ void begin(const launch_args &a)
{
  fetch_parameters(a);
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
}

/* Sends the other ranks their slices of this rank's array, and reduces this rank's slice. */
template <typename T, typename G>
__global__ void __launch_bounds__(GROUP_BLOCK_THREADS) reduce_scatter_kernel(const __grid_constant__ launch_args a)
{
  constexpr int V = G::V, N = YK_P2P_MAX_RANKS;
  const G group(a);
  const int n_mine = items_of_block(a.n_rows);
  begin(a);
  block_view b(a);
  row_so_far<V> held = {};
  group.for_items(n_mine, [&](int k) {
    const int row = item_of_block(k), n = packets_of<norms::NONE>(a, row);
#pragma unroll 1
    for (int j = 1; j < a.n_ranks; j++) {
      const int peer = peer_at(a, j);
      uint4 x[V], *to = b.slot(a.first, peer, a.rank) + k * a.row_packets;
      group.load(row_of_slice(a, peer, row), n, x);
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), sendable(x[v]));
      }
    }
    if (G::HOLDS) group.load(row_of_slice(a, a.rank, row), n, held.partial);
  });
  b.count_launch();
  group.for_items(n_mine, [&](int k) {
    if (b.stopped) return;
    uint4 sum[V];
    reduce_row<T, N, G, norms::NONE>(
        b, group, item_of_block(k), held, sum, [&](int r) { return b.slot(a.first, a.rank, r) + k * a.row_packets; },
        [](int, uint4) {});
    b.stopped = group.any(b.stopped);
  });
}

/* Waits for a row of the slice of `peer`, in slots of the thread block's item k, and writes it to its position. The
 * limit is that of two-shot results: `peer` may itself wait for a rank of another host. */
template <typename G>
__device__ __forceinline__ void receive_slice_row(block_view &b, const G &group, int row, int k, int peer)
{
  constexpr int V = G::V;
  const launch_args &a = b.a;
  const int n = packets_of<norms::NONE>(a, row);
  const uint64_t result_timeout_ns = a.timeout_ns + (a.timeout_ns == UINT64_MAX ? 0 : a.timeout_ns / 4);
  uint4 x[V], *from = b.slot(a.second, a.rank, peer) + k * a.row_packets, *to = row_of_slice(a, peer, row);
  b.wait(result_timeout_ns, [&] {
    bool all = true;
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (group.at(v) < n) x[v] = yk_ptx::load_relaxed_sys16(from + group.at(v));
    }
#pragma unroll
    for (int v = 0; v < V; v++) all &= group.at(v) >= n || has_arrived(x[v]);
    return all ? -1 : peer;
  });
#pragma unroll
  for (int v = 0; v < V; v++) {
    if (group.at(v) >= n) continue;
    to[group.at(v)] = x[v];
    empty_slot(from + group.at(v));
  }
}

/* Sends this rank's slice to the other ranks, and receives theirs. This rank keeps its slice in the form that is sent,
 * so that all ranks hold the same bits. */
template <typename G>
__global__ void __launch_bounds__(GROUP_BLOCK_THREADS) all_gather_kernel(const __grid_constant__ launch_args a)
{
  constexpr int V = G::V;
  const G group(a);
  const int n_mine = items_of_block(a.n_rows);
  begin(a);
  block_view b(a);
  group.for_items(n_mine, [&](int k) {
    const int row = item_of_block(k), n = packets_of<norms::NONE>(a, row);
    uint4 x[V], *own = row_of_slice(a, a.rank, row);
    group.load(own, n, x);
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (group.at(v) >= n) continue;
      x[v] = sendable(x[v]);
      own[group.at(v)] = x[v];
    }
#pragma unroll 1
    for (int j = 1; j < a.n_ranks; j++) {
      uint4 *to = b.slot(a.second, peer_at(a, j), a.rank) + k * a.row_packets;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (group.at(v) < n) yk_ptx::store_relaxed_sys16(to + group.at(v), x[v]);
      }
    }
  });
  b.count_launch();
  group.for_items(n_mine, [&](int k) {
#pragma unroll 1
    for (int j = 1; j < a.n_ranks && !b.stopped; j++) {
      receive_slice_row(b, group, item_of_block(k), k, peer_at(a, j));
      b.stopped = group.any(b.stopped);
    }
  });
}

/* Processes a thread block's rows in parallel, one per thread group and one packet per thread; or one after the other,
 * with most packets per thread. */
using few_rows = thread_group<1, true>;
using many_rows = thread_group<MAX_PACKETS, true>;

cudaError_t launch_slices(const launch_args &args, kernel few, kernel many, cudaStream_t stream)
{
  launch_args a = args;
  const int n_blocks = std::min(a.n_rows, MAX_BLOCKS), most_items = (a.n_rows + n_blocks - 1) / n_blocks;
  const bool has_few = most_items <= most_groups(a.row_packets, few_rows::V);
  const int packets = has_few ? few_rows::V : many_rows::V;
  a.group_threads = group_threads(a.row_packets, packets);
  const int n_groups = std::clamp(most_groups(a.row_packets, packets), 1, most_items);
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(n_blocks)), n_groups * a.group_threads, 0, 1};
  return yk_ptx::launch_dependent(has_few ? few : many, shape, stream, a);
}

} // namespace

cudaError_t launch_reduce_scatter(const launch_args &args, yk_dtype dtype, cudaStream_t stream)
{
  if (dtype == YK_F16)
    return launch_slices(args, reduce_scatter_kernel<__half, few_rows>, reduce_scatter_kernel<__half, many_rows>,
                         stream);
  return launch_slices(args, reduce_scatter_kernel<__nv_bfloat16, few_rows>,
                       reduce_scatter_kernel<__nv_bfloat16, many_rows>, stream);
}

cudaError_t launch_all_gather(const launch_args &args, cudaStream_t stream)
{
  return launch_slices(args, all_gather_kernel<few_rows>, all_gather_kernel<many_rows>, stream);
}

cudaError_t load_slices()
{
  const kernel all[] = {reduce_scatter_kernel<__half, few_rows>,
                        reduce_scatter_kernel<__half, many_rows>,
                        reduce_scatter_kernel<__nv_bfloat16, few_rows>,
                        reduce_scatter_kernel<__nv_bfloat16, many_rows>,
                        all_gather_kernel<few_rows>,
                        all_gather_kernel<many_rows>};
  for (kernel each : all) {
    const cudaError_t rc = load(each);
    if (rc != cudaSuccess) return rc;
  }
  return cudaSuccess;
}

} // namespace yk_p2p_kernels
