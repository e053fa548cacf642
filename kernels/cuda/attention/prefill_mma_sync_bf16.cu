#include "kernels/cuda/attention/prefill_mma_sync_kernel.cuh"

namespace yk_attn {
template cudaError_t launch_prefill_mma_sync<__nv_bfloat16>(const yk_cuda_attention &, const params &, cudaStream_t);
}
