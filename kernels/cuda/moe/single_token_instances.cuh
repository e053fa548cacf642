/* single_token_instances.cuh - instances of the single-token kernel, for one encoding and type. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_INSTANCES_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_INSTANCES_CUH

#include "kernels/cuda/moe/single_token_kernel.cuh"

namespace yk_moe {

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, int PER_LANE> const void *single_token_kernel_of()
{
  if constexpr (!has_groups(ENCODING, GROUPS))
    return nullptr;
  else
    return reinterpret_cast<const void *>(single_token_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, PER_LANE>);
}

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int PER_LANE> tile_kernels single_token_kernels_of_groups()
{
  return {
      {single_token_kernel_of<ENCODING, DTYPE, 1, PER_LANE>(), single_token_kernel_of<ENCODING, DTYPE, 2, PER_LANE>(),
       single_token_kernel_of<ENCODING, DTYPE, 4, PER_LANE>(), single_token_kernel_of<ENCODING, DTYPE, 8, PER_LANE>()}};
}

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> tile_kernels single_token_kernels(int n_experts)
{
  return n_experts <= FEW_EXPERTS ? single_token_kernels_of_groups<ENCODING, DTYPE, FEW_EXPERTS / WARP>()
                                  : single_token_kernels_of_groups<ENCODING, DTYPE, ROUTED_EXPERTS / WARP>();
}

} // namespace yk_moe

#define YK_INSTANCE(ENCODING, DTYPE)                                                                                   \
  template yk_gemm::tile_kernels yk_moe::single_token_kernels<ENCODING, DTYPE>(int n_experts);

#endif
