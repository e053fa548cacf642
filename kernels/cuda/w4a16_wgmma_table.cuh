/* w4a16_wgmma_table.cuh - which tiles are compiled. Those of up to 64 tokens leave half of a multiprocessor to the next
 * product, whose first weights arrive while this one finishes; larger ones need all. */
#ifndef YK_KERNELS_CUDA_W4A16_WGMMA_TABLE_CUH
#define YK_KERNELS_CUDA_W4A16_WGMMA_TABLE_CUH

#include "kernels/cuda/w4a16_wgmma.cuh"

namespace w4a16 {

template <yk_dtype DTYPE, int N, int G, int C, place PLACE, int CLUSTER> wgmma_variant variant(double unit_us)
{
  return {N,
          G,
          C,
          CLUSTER,
          PLACE,
          unit_us,
          {reinterpret_cast<const void *>(wgmma_kernel<DTYPE, 1, G, C, N, PLACE, CLUSTER>),
           reinterpret_cast<const void *>(wgmma_kernel<DTYPE, 2, G, C, N, PLACE, CLUSTER>),
           reinterpret_cast<const void *>(wgmma_kernel<DTYPE, 4, G, C, N, PLACE, CLUSTER>)}};
}

template <yk_dtype DTYPE> variant_list<wgmma_variant> variant_table()
{
  static const wgmma_variant table[] = {
      variant<DTYPE, 16, 2, 1, place::SHARED, 1>(0.360), variant<DTYPE, 32, 2, 1, place::SHARED, 1>(0.418),
      variant<DTYPE, 64, 2, 1, place::SHARED, 1>(0.473), variant<DTYPE, 128, 2, 1, place::WHOLE, 1>(0.613),
      variant<DTYPE, 128, 3, 1, place::WHOLE, 1>(0.920), variant<DTYPE, 128, 2, 2, place::WHOLE, 1>(1.187),
      variant<DTYPE, 256, 2, 1, place::WHOLE, 2>(1.175),
  };
  return list_of(table);
}

} // namespace w4a16

#endif
