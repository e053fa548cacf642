/* allreduce_p2p_launch.cuh - host side: the choice of all-reduce kernel, and the division of rows among thread
 * blocks. */
#ifndef YK_PARALLEL_P2P_ALLREDUCE_P2P_LAUNCH_CUH
#define YK_PARALLEL_P2P_ALLREDUCE_P2P_LAUNCH_CUH

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "parallel/p2p/allreduce_p2p_params.cuh"

namespace yk_p2p_kernels {

/* Maximum threads of a thread block whose threads have `packets` packets of a row. Several rows (has_many), or
 * combining, need more than the 64 registers per thread that 1024 threads allow. */
constexpr int most_threads(int packets, bool has_many, bool combines)
{
  return packets == 1 && !has_many && !combines ? MAX_THREADS : GROUP_BLOCK_THREADS;
}

/* The division of a thread block's rows among its threads. */
struct division {
  int packets;   /* packets of a row per thread */
  bool has_many; /* several thread groups, one row each; false: the thread block has one row */
};

using kernel = void (*)(launch_args);

/* The kernel for up to N ranks. NORMS: see launch. Defined in allreduce_p2p_kernels.cuh. */
template <typename T, int N, norms NORMS> kernel kernel_of(bool two_shot, bool combines, division d);

/* Sums of floats without a norm do not occur in a step of a model: one kernel serves any number of ranks. */
template <typename T, norms NORMS> kernel kernel_for(int n_ranks, bool two_shot, bool combines, division d)
{
  if constexpr (NORMS != norms::NONE || std::is_same_v<T, int32_t>) {
    if (n_ranks <= 2) return kernel_of<T, 2, NORMS>(two_shot, combines, d);
    if (n_ranks <= 4) return kernel_of<T, 4, NORMS>(two_shot, combines, d);
  }
  return kernel_of<T, YK_P2P_MAX_RANKS, NORMS>(two_shot, combines, d);
}

inline int group_threads(int row_packets, int packets)
{
  return ((row_packets + packets - 1) / packets + 31) / 32 * 32;
}

/* Maximum number of thread groups of a thread block. */
inline int most_groups(int row_packets, int packets)
{
  return std::min(GROUP_BLOCK_THREADS / group_threads(row_packets, packets), MAX_GROUPS);
}

/* The fewest packets per thread with which a thread block processes all its rows at once, one in each thread group;
 * MAX_PACKETS if there are too many rows for that. Combining changes the division only of a thread block with a single
 * long row. In all other cases the sums of squares are added in the same order, with the same bits, as without. */
inline division division_of(int row_packets, int rows_of_block, bool combines)
{
  if (rows_of_block == 1 && row_packets <= most_threads(1, false, combines)) return {1, false};
  for (int packets : {1, 2})
    if (rows_of_block <= most_groups(row_packets, packets)) return {packets, true};
  return {MAX_PACKETS, true};
}

/* All-reduce of x [n_rows, ..]. With norms the sum is added to residual and normalised into y (w NULL: not normalised);
 * otherwise it is written to residual, which is then x itself. Integers (int32_t) have neither norms nor two-shot.
 * norms::BOTH does not combine. */
template <typename T, norms NORMS> cudaError_t launch(const launch_args &args, bool two_shot, cudaStream_t stream)
{
  launch_args a = args;
  const bool combines = a.combine.y != nullptr;
  const int n_items = two_shot ? (a.n_rows + a.n_ranks - 1) / a.n_ranks : a.n_rows;
  const int n_blocks = std::min(n_items, MAX_BLOCKS), most_items = (n_items + n_blocks - 1) / n_blocks;
  const division d = division_of(a.row_packets, most_items, combines);
  a.group_threads = group_threads(a.row_packets, d.packets);
  const int n_groups = std::clamp(most_groups(a.row_packets, d.packets), 1, most_items);
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(n_blocks)), n_groups * a.group_threads, 0, 1};
  return yk_ptx::launch_dependent(kernel_for<T, NORMS>(a.n_ranks, two_shot, combines, d), shape, stream, a);
}

/* Loads a kernel, with the shared memory carveout of the GEMMs before and after: a multiprocessor changes the carveout
 * only when it is empty. */
inline cudaError_t load(kernel which)
{
  cudaFuncAttributes attributes;
  const cudaError_t rc = cudaFuncGetAttributes(&attributes, which);
  return rc != cudaSuccess ? rc
                           : cudaFuncSetAttribute(which, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                  cudaSharedmemCarveoutMaxShared);
}

/* Loads the kernels that launch may choose onto the current device. Loading a kernel later could wait for a running
 * kernel that itself waits for a peer. */
template <typename T, norms NORMS> cudaError_t load(int n_ranks)
{
  for (division d : {division{1, false}, division{1, true}, division{2, true}, division{MAX_PACKETS, true}})
    for (bool two_shot : {false, true})
      for (bool combines : {false, true}) {
        const cudaError_t rc = load(kernel_for<T, NORMS>(n_ranks, two_shot, combines, d));
        if (rc != cudaSuccess) return rc;
      }
  return cudaSuccess;
}

} // namespace yk_p2p_kernels

#endif
