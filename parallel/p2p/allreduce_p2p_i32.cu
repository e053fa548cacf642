#include "parallel/p2p/allreduce_p2p_kernels.cuh"

namespace yk_p2p_kernels {
template cudaError_t launch<int32_t, false>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<int32_t, false>(int);
} // namespace yk_p2p_kernels
