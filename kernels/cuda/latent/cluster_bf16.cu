/* cluster_bf16.cu - latent attention of few decode rows in bfloat16. */
#include "kernels/cuda/latent/cluster.cuh"

template cudaError_t yk_latent::launch_cluster<__nv_bfloat16>(void *, const params &, cudaStream_t);
