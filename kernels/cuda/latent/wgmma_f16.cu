/* wgmma_f16.cu - the wgmma kernels of latent attention in float16. */
#include "kernels/cuda/latent/wgmma.cuh"

template cudaError_t yk_latent::count_pairs<__half>(int32_t *);
template cudaError_t yk_latent::launch_decode<__half>(const yk_cuda_latent &, const params &, const new_rows &,
                                                      cudaStream_t);
template cudaError_t yk_latent::launch_many<__half>(void *, int, const params &, cudaStream_t);
