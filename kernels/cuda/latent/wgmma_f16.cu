/* wgmma_f16.cu - the wgmma kernels of latent attention in float16. */
#include "kernels/cuda/latent/wgmma.cuh"

template cudaError_t yk_latent::launch_wgmma<__half>(void *, int, const params &, cudaStream_t);
