/* few_outputs.cu - see few_outputs.h. A thread block computes 8 or 16 columns of 8 or 16 rows. */
#include "kernels/cuda/gemm/dense/few_outputs.h"

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

/* Every thread block reads its rows of x and columns of W from memory, so larger GEMMs would read too much. */
constexpr int64_t MOST_ROWS = 256, MOST_PRODUCTS = 1 << 26, MOST_WEIGHTS = 1 << 24;
/* up to this number of rows a thread block has 8 rows, so that there are more thread blocks */
constexpr int64_t MOST_ROWS_BY_8 = 64;
/* with fewer blocks of 16 columns, blocks have 8 columns, so that there are more, and prefetch */
constexpr int64_t FEW_BLOCKS = 64;

template <typename T, int ROWS, int COLUMNS> using tile_of = few_outputs_tile<T, ROWS, COLUMNS, COLUMNS == 8>;

template <typename T, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(tile_of<T, ROWS, COLUMNS>::THREADS)
    few_outputs_kernel(const __grid_constant__ yk_plain_gemm p)
{
  using tile = tile_of<T, ROWS, COLUMNS>;
  __shared__ typename tile::sums sums;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int column0 = blockIdx.x * tile::COLUMNS, row0 = blockIdx.y * ROWS;
  tile t;
  t.read_ahead(p.w, n, k, column0);
  if constexpr (COLUMNS == 8) t.prefetch_rest(p.w, n, k, column0);
  let_next_kernel_start();
  wait_for_previous_kernel();
  t.multiply(p.w, n, p.x, m, k, column0, row0, sums);
  __syncthreads();
  const int column = threadIdx.x % tile::COLUMNS, row = threadIdx.x / tile::COLUMNS;
  if (row >= ROWS || row0 + row >= m || column0 + column >= n) return;
  const float sum = tile::sum_of(sums, column, row);
  const int64_t at = (row0 + row) * p.y_stride + column0 + column;
  if (p.y_dtype == YK_F32)
    static_cast<float *>(p.y)[at] = sum;
  else
    static_cast<T *>(p.y)[at] = from_float<T>(sum);
}

template <typename T, int ROWS, int COLUMNS> cudaError_t launch(const yk_plain_gemm &gemm, cudaStream_t stream)
{
  constexpr int THREADS = tile_of<T, ROWS, COLUMNS>::THREADS;
  const dim3 grid(static_cast<unsigned>(ceil_div(gemm.n, COLUMNS)), static_cast<unsigned>(ceil_div(gemm.m, ROWS)));
  const auto kernel = few_outputs_kernel<T, ROWS, COLUMNS>;
  const cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return launch_dependent(kernel, {grid, THREADS, 0, 1}, stream, gemm);
}

template <typename T, int ROWS> cudaError_t launch(const yk_plain_gemm &gemm, cudaStream_t stream)
{
  return ceil_div(gemm.n, 16) * ceil_div(gemm.m, ROWS) < FEW_BLOCKS ? launch<T, ROWS, 8>(gemm, stream)
                                                                    : launch<T, ROWS, 16>(gemm, stream);
}

} // namespace

extern "C" bool yk_few_outputs_takes(const yk_plain_gemm *gemm)
{
  return gemm->m <= MOST_ROWS && gemm->m * gemm->n * gemm->k <= MOST_PRODUCTS && gemm->n * gemm->k <= MOST_WEIGHTS &&
         gemm->k % 8 == 0 && is_aligned(gemm->x, 16) && is_aligned(gemm->w, 16);
}

extern "C" cudaError_t yk_few_outputs_launch(const yk_plain_gemm *gemm, cudaStream_t stream)
{
  if (gemm->m <= 0 || gemm->n <= 0) return cudaSuccess;
  return with_act_type(gemm->dtype, [&](auto type) {
    using T = decltype(type);
    return gemm->m <= MOST_ROWS_BY_8 ? launch<T, 8>(*gemm, stream) : launch<T, 16>(*gemm, stream);
  });
}
