/* wgmma_bf16.cu - the wgmma kernels of latent attention in bfloat16. */
#include "kernels/cuda/latent/wgmma.cuh"

template cudaError_t yk_latent::launch_wgmma<__nv_bfloat16>(void *, int, const params &, cudaStream_t);
