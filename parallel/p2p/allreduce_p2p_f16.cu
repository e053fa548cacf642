#include "parallel/p2p/allreduce_p2p_kernels.cuh"

namespace yk_p2p_kernels {
template cudaError_t launch<__half, true>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<__half, true>(int);
template cudaError_t launch<__half, false>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<__half, false>(int);
} // namespace yk_p2p_kernels
