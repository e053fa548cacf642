#include "parallel/p2p/allreduce_p2p_kernels.cuh"

namespace yk_p2p_kernels {
template cudaError_t launch<__nv_bfloat16, true>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<__nv_bfloat16, true>(int);
template cudaError_t launch<__nv_bfloat16, false>(const launch_args &, bool, cudaStream_t);
template cudaError_t load<__nv_bfloat16, false>(int);
} // namespace yk_p2p_kernels
