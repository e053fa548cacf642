/* wgmma_bf16.cu - the wgmma kernels of latent attention in bfloat16. */
#include "kernels/cuda/latent/wgmma.cuh"

template cudaError_t yk_latent::count_pairs<__nv_bfloat16>(int32_t *);
template cudaError_t yk_latent::launch_decode<__nv_bfloat16>(const yk_cuda_latent &, const params &, const new_rows &,
                                                             cudaStream_t);
template cudaError_t yk_latent::launch_many<__nv_bfloat16>(void *, int, const params &, cudaStream_t);
