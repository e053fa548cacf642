/* cluster_f16.cu - latent attention of few decode rows in float16. */
#include "kernels/cuda/latent/cluster.cuh"

template cudaError_t yk_latent::init_cluster<__half>(int32_t *);
template cudaError_t yk_latent::launch_cluster<__half>(void *, int, const params &, const new_rows &, cudaStream_t);
