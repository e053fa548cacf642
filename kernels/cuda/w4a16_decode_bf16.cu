/* w4a16_decode_bf16.cu - the kernels of up to 8 tokens for bfloat16 activations. */
#include "kernels/cuda/w4a16_decode.cuh"

namespace w4a16 {

variant_list<decode_variant> decode_variants_bf16()
{
  return decode_variant_table<YK_BF16>();
}

} // namespace w4a16
