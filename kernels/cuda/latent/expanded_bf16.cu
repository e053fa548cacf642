/* expanded_bf16.cu - attention with keys and values of each head in bfloat16. */
#include "kernels/cuda/latent/expanded.cuh"

template cudaError_t yk_latent::launch_expanded<__nv_bfloat16>(const expanded_launch &, const params &, cudaStream_t);
