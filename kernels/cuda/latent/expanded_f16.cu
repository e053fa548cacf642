/* expanded_f16.cu - attention with keys and values of each head in float16. */
#include "kernels/cuda/latent/expanded.cuh"

template cudaError_t yk_latent::launch_expanded<__half>(const expanded_launch &, const params &, cudaStream_t);
