/* output.cuh - from sums of products to results: the end of a tile on both paths of the W8A8 GEMM.
 *
 * Fragments are those of mma.cuh: a thread holds rows (columns of W) g and g + 8 of a panel, g = lane / 4, and of each
 * 8 tokens number 2 (lane % 4) and the next one. */
#ifndef YK_KERNELS_CUDA_W8A8_OUTPUT_CUH
#define YK_KERNELS_CUDA_W8A8_OUTPUT_CUH

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/w8a8/layout.cuh"

namespace yk_w8a8 {

struct output_params {
  const float *w_scales; /* [n_rows] */
  const int32_t *w_sums; /* [n_rows] */
  const float *bias;     /* [n] in the order of columns, or NULL */
  const float *x_scales;
  void *y;       /* NULL: sums is written instead */
  int32_t *sums; /* [m, n] */
  int64_t y_stride;
  int m, n, n_rows, zero;
  yk_activation activation;
  bool is_bf16;
  bool is_wide; /* y takes pieces of 8 columns */
};

/* The terms of a packed row; zeros for padding rows. */
struct row_terms {
  float scale = 0.0f, bias = 0.0f;
  int offset = 0;

  __device__ __forceinline__ row_terms(const output_params &o, int64_t row)
  {
    const int64_t column = yk_gemm::column_of_row(row, o.n, o.activation.is_gated);
    if (column >= o.n) return;
    scale = o.w_scales[row];
    offset = o.zero * o.w_sums[row];
    if (o.bias) bias = o.bias[column];
  }
};

/* The CPU device's operations in the same order; the compiler may contract none of them. */
__device__ __forceinline__ float scaled(const output_params &o, int sum, float x_scale, const row_terms &row)
{
  const float product = __fmul_rn(__fmul_rn(__int2float_rn(sum - row.offset), x_scale), row.scale);
  return o.bias ? __fadd_rn(product, row.bias) : product;
}

__device__ __forceinline__ uint32_t round_pair_to(bool is_bf16, float low, float high)
{
  const uint32_t f16 = yk_ptx::round_pair<__half>(low, high), bf16 = yk_ptx::round_pair<__nv_bfloat16>(low, high);
  return is_bf16 ? bf16 : f16;
}

/* Writes one element of y, or of sums. */
__device__ __forceinline__ void write_value(const output_params &o, int64_t token, int64_t column, float value)
{
  const uint32_t bits = round_pair_to(o.is_bf16, value, 0.0f);
  static_cast<uint16_t *>(o.y)[token * o.y_stride + column] = static_cast<uint16_t>(bits);
}

/* Writes the 4 sums of a thread in 16 rows by 8 tokens, element by element: for any n and stride, and for sums. */
__device__ __forceinline__ void write_fragment(const output_params &o, int64_t row0, int token0, int lane,
                                               const row_terms (&rows)[2], const int (&sum)[4])
{
  const int64_t row = row0 + lane / 4;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int token = token0 + lane % 4 * 2 + i;
    if (token >= o.m) continue;
    if (!o.y) {
#pragma unroll
      for (int upper = 0; upper < 2; upper++)
        if (row + upper * 8 < o.n)
          o.sums[static_cast<int64_t>(token) * o.n + row + upper * 8] = sum[i + upper * 2] - rows[upper].offset;
      continue;
    }
    const float x_scale = o.x_scales[token];
    const float low = scaled(o, sum[i], x_scale, rows[0]), high = scaled(o, sum[i + 2], x_scale, rows[1]);
    const int64_t column = yk_gemm::column_of_row(row, o.n, o.activation.is_gated);
    if (o.activation.is_gated) {
      if (column < o.n) write_value(o, token, column, yk_cuda::gated(o.activation, low, high));
      continue;
    }
    if (row < o.n) write_value(o, token, row, low);
    if (row + 8 < o.n) write_value(o, token, row + 8, high);
  }
}

} // namespace yk_w8a8

#endif
