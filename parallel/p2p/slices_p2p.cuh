/* slices_p2p.cuh - the launches of the two halves of an all-reduce: see yk_p2p_reduce_scatter and yk_p2p_all_gather. */
#ifndef YK_PARALLEL_P2P_SLICES_P2P_CUH
#define YK_PARALLEL_P2P_SLICES_P2P_CUH

#include "parallel/p2p/allreduce_p2p_params.cuh"

namespace yk_p2p_kernels {

/* args.x, args.residual: this rank's slice, of n_packets packets, cut into n_rows rows of row_packets. The slice of
 * rank r lies (r - args.rank) * n_packets packets after it. */
cudaError_t launch_reduce_scatter(const launch_args &args, yk_dtype dtype, cudaStream_t stream);
cudaError_t launch_all_gather(const launch_args &args, cudaStream_t stream);

/* Loads the kernels onto the current device. */
cudaError_t load_slices();

} // namespace yk_p2p_kernels

#endif
