/* w4a16_batch_bf16.cu - the kernels of up to 32 tokens for bfloat16 activations. */
#include "kernels/cuda/w4a16_batch.cuh"

namespace w4a16 {

variant_list<batch_variant> batch_variants_bf16()
{
  return batch_variant_table<YK_BF16>();
}

} // namespace w4a16
