#include "kernels/cuda/attention/prefill_wgmma_kernel.cuh"

namespace yk_attn {
template cudaError_t launch_prefill_wgmma<__half>(const yk_cuda_attention &, const params &, cudaStream_t);
}
