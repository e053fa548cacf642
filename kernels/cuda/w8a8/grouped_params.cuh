/* grouped_params.cuh - parameters of the kernels of the grouped W8A8 GEMM. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_PARAMS_CUH
#define YK_KERNELS_CUDA_W8A8_GROUPED_PARAMS_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/gemm/grouped/row_tile_table.cuh"
#include "kernels/cuda/w8a8/grouped_types.h"
#include "kernels/cuda/w8a8/output.cuh"

namespace yk_w8a8 {

struct grouped_params {
  yk_w8a8_grouped_call call;
  output_params out; /* output of matrix 0 */
  int k_tiles;
  int tiles_m, max_tiles, n_stages; /* wgmma: output tiles along rows of W, maximum number of row tiles, stages */
  yk_cuda::divider by_tiles_m;

  __device__ __forceinline__ const uint8_t *weights_of(int matrix) const
  {
    return static_cast<const uint8_t *>(call.packed) + matrix * call.matrix_bytes;
  }

  /* Output of a matrix, for slots before end. */
  __device__ __forceinline__ output_params out_of(int matrix, int end) const
  {
    const int64_t bytes = matrix * call.matrix_bytes;
    const auto moved = [=](auto pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<const char *>(pointer) + bytes);
    };
    output_params of_matrix = out;
    of_matrix.w_scales = moved(out.w_scales);
    of_matrix.w_sums = moved(out.w_sums);
    if (out.bias) of_matrix.bias = moved(out.bias);
    of_matrix.m = end;
    return of_matrix;
  }
};

cudaError_t grouped_mma_sm80_init();
cudaError_t grouped_mma_sm80_forward(const yk_w8a8_desc &desc, const grouped_params &params, cudaStream_t stream);

} // namespace yk_w8a8

#endif
