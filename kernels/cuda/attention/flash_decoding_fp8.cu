#include "kernels/cuda/attention/flash_decoding_kernel.cuh"

namespace yk_attn {
template cudaError_t launch_flash_decoding<codes<YK_KV_FP8>>(const yk_cuda_attention &, const params &, cudaStream_t);
}
