/* w4a16_wgmma_bf16.cu - the Hopper kernels for bfloat16 activations. */
#include "kernels/cuda/w4a16_wgmma.cuh"
#include "kernels/cuda/w4a16_wgmma_table.cuh"

namespace w4a16 {

variant_list<wgmma_variant> wgmma_variants_bf16()
{
  return variant_table<YK_BF16>();
}

} // namespace w4a16
