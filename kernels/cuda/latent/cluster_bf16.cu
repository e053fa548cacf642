/* cluster_bf16.cu - latent attention of few decode rows in bfloat16. */
#include "kernels/cuda/latent/cluster.cuh"

template cudaError_t yk_latent::init_cluster<__nv_bfloat16>(int32_t *);
template cudaError_t yk_latent::launch_cluster<__nv_bfloat16>(void *, int, const params &, const new_rows &,
                                                              cudaStream_t);
