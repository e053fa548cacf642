/* pack.cu - repacks weights into the packed form, once, at load: one thread block for each column of W. */
#include <cuda_runtime.h>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/w8a8/layout.cuh"
#include "kernels/cuda/w8a8/w8a8.h"

using namespace yk_w8a8;

namespace {

constexpr int THREADS = 128;

struct pack_params {
  int8_t *packed;
  float *scales;
  int32_t *sums;
  yk_w8a8_source source;
  int64_t n_rows, k, n, first_column;
  bool is_gated;
};

__global__ void pack_kernel(const pack_params p)
{
  __shared__ int warp_sums[THREADS / 32];
  const int64_t row = row_of_column(p.first_column + blockIdx.x, p.n, p.is_gated);
  const int8_t *from = p.source.weights + blockIdx.x * p.k;
  int sum = 0;
  for (int64_t k = threadIdx.x; k < p.k; k += THREADS) {
    const int8_t w = from[k];
    p.packed[byte_at(p.n_rows, row, k)] = w;
    sum += w;
  }
  sum = yk_cuda::warp_sum(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int warp = 1; warp < THREADS / 32; warp++) sum += warp_sums[warp];
  p.sums[row] = sum;
  p.scales[row] = p.source.scales[blockIdx.x];
}

} // namespace

extern "C" yk_status yk_w8a8_pack(const yk_w8a8_desc *desc, void *packed, const yk_w8a8_source *source,
                                  int64_t first_column, int64_t n_columns, cudaStream_t stream, yk_err *err)
{
  if (n_columns == 0) return YK_OK;
  char *at = static_cast<char *>(packed);
  pack_params p = {};
  p.packed = reinterpret_cast<int8_t *>(at);
  p.scales = reinterpret_cast<float *>(at + yk_w8a8_scales_at(desc));
  p.sums = reinterpret_cast<int32_t *>(at + yk_w8a8_sums_at(desc));
  p.source = *source;
  p.n_rows = yk_w8a8_n_rows(desc);
  p.k = desc->k;
  p.n = desc->n;
  p.first_column = first_column;
  p.is_gated = desc->activation.is_gated;
  pack_kernel<<<static_cast<unsigned>(n_columns), THREADS, 0, stream>>>(p);
  return yk_gemm::cuda_status(cudaGetLastError(), "packing of W8A8 weights", err);
}
