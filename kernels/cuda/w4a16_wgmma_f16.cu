/* w4a16_wgmma_f16.cu - the Hopper kernels for float16 activations. */
#include "kernels/cuda/w4a16_wgmma.cuh"
#include "kernels/cuda/w4a16_wgmma_table.cuh"

namespace w4a16 {

variant_list<wgmma_variant> wgmma_variants_f16()
{
  return variant_table<YK_F16>();
}

} // namespace w4a16
