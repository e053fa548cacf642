#include "parallel/p2p/allreduce_p2p_kernels.cuh"

namespace yk_p2p_kernels {
template cudaError_t launch<float, false>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<float, false>(int);
} // namespace yk_p2p_kernels
