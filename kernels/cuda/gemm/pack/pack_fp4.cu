/* pack_fp4.cu - from rows of bytes with a code of FP4 in each to packed panels: see encoding_fp4.cuh. */
#include "kernels/cuda/gemm/pack/pack.cuh"

namespace yk_gemm {
namespace {

/* The factor that a row's scales have in common: NVFP4's, times a power of two, or the largest of MXFP4's scales. The
 * checkpoint's factor is not available here. With that factor every scale, the largest included, has 4 significant
 * bits. Each of the eight possible mantissas of the largest scale is tried, and the mantissa with the smallest rounding
 * error over all scales is used. One warp per packed row, eight per thread block. */
__global__ void __launch_bounds__(256) fp4_row_scales_kernel(rows_params p)
{
  const int64_t row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= p.to.panels * PANEL_COLUMNS) return;
  const int64_t column = p.to.source_column(row);
  if (column < 0) return;
  const int64_t first = scale_index(p, column, 0) + threadIdx.x % 32, last = scale_index(p, column, p.to.k - 1);
  float largest = 0.0f, errors[FP4_MANTISSAS] = {};
  for (int64_t i = first; i <= last; i += 32) largest = fmaxf(largest, p.source.scales[i]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  for (int64_t i = first; i <= last && largest > 0.0f; i += 32)
    for (int c = 0; c < FP4_MANTISSAS; c++)
      errors[c] =
          fmaxf(errors[c], fp4_scale_error(p.source.scales[i] / fp4_row_scale(largest, FP4_FIRST_MANTISSA + c)));
  int best = 0;
  for (int c = 0; c < FP4_MANTISSAS; c++) {
    for (int step = 16; step > 0; step /= 2) errors[c] = fmaxf(errors[c], __shfl_xor_sync(~0u, errors[c], step));
    if (errors[c] < errors[best]) best = c;
  }
  if (threadIdx.x % 32 == 0) p.row_scales[row] = fp4_row_scale(largest, FP4_FIRST_MANTISSA + best);
}

/* The scale byte of input k's group; 0: all weights of the group are 0. */
__device__ uint32_t scale_byte(const rows_params &p, int64_t row, int64_t column, int64_t k)
{
  const float row_scale = p.row_scales[row];
  if (row_scale == 0.0f) return 0;
  return fp4_scale(p.source.scales[scale_index(p, column, k)] / row_scale);
}

/* The code of an input; 0 past k, and in groups whose scale is 0. */
__device__ uint32_t code_of(const rows_params &p, int64_t row, int64_t column, int64_t k)
{
  if (k >= p.to.k || scale_byte(p, row, column, k) == 0) return 0;
  return p.source.bytes[column * p.source.row_bytes + k] & 0xFu;
}

/* A scale word with the scales of a row of the panel, of an even group and the next one, if this part owns the row. */
template <yk_dtype DTYPE, typename PANEL>
__device__ uint32_t with_scales(const rows_params &p, const PANEL &to, uint32_t word, int row, int upper, int group)
{
  const int64_t packed_row = to.panel * PANEL_COLUMNS + row + 8 * upper, column = p.to.source_column(packed_row);
  if (column < 0) return word;
  for (int i = 0; i < 2; i++) {
    const int64_t k = to.k_tile * TILE_K + (group + i) * (TILE_K / p.to.groups);
    const uint32_t byte = scale_byte(p, packed_row, column, k);
    word &= ~fp4_packed_scale<DTYPE>(0xFF, i, upper);
    word |= fp4_packed_scale<DTYPE>(byte ? byte : FP4_LEAST_SCALE, i, upper);
  }
  return word;
}

/* A thread block packs four panels of a K tile, one thread for each lane of each input half. Two parts of a layer may
 * share a panel, 8 columns each: a word keeps the bits that the other part's call wrote. */
constexpr int FP4_PANEL_THREADS = 64, FP4_BLOCK_PANELS = 4;

template <yk_dtype DTYPE>
__global__ void __launch_bounds__(FP4_PANEL_THREADS *FP4_BLOCK_PANELS) pack_fp4_kernel(rows_params p)
{
  const packed_panel<FP4_PANEL_THREADS, FP4_BLOCK_PANELS> to(p.to);
  if (to.panel >= p.to.panels) return;
  const int half = to.thread / 32, lane = to.thread % 32;
  uint32_t *words = reinterpret_cast<uint32_t *>(to.packed) + to.thread * 4;
  for (int upper = 0; upper < 2; upper++) {
    const int64_t row = to.panel * PANEL_COLUMNS + lane / 4 + 8 * upper, column = p.to.source_column(row);
    if (column < 0) continue;
    for (int step = 0; step < 4; step++) {
      const int64_t k = to.k_tile * TILE_K + half * 64 + step * 16 + lane % 4 * 2;
      uint32_t word = words[step] & (upper ? FP4_EVEN_BITS<DTYPE> : ~FP4_EVEN_BITS<DTYPE>);
      for (int i = 0; i < 4; i++)
        word |= fp4_bits<DTYPE>::packed(code_of(p, row, column, k + i / 2 * 8 + i % 2), i / 2 * 2 + upper, i % 2);
      words[step] = word;
    }
  }
  uint32_t *scales = reinterpret_cast<uint32_t *>(to.packed + YK_GEMM_PANEL_WEIGHT_BYTES(YK_GEMM_FP4));
  for (int i = to.thread; i < p.to.groups / 2 * 8; i += FP4_PANEL_THREADS) {
    const int row = i / 2 % 8, group = i / 16 * 4 + i % 2 * 2;
    uint32_t word = scales[i];
    for (int upper = 0; upper < 2; upper++) word = with_scales<DTYPE>(p, to, word, row, upper, group);
    scales[i] = word;
  }
}

} // namespace

cudaError_t pack_fp4(const yk_gemm_desc &desc, const rows_params &p, cudaStream_t stream)
{
  const unsigned row_blocks = static_cast<unsigned>(ceil_div(p.to.panels * PANEL_COLUMNS, 8));
  fp4_row_scales_kernel<<<row_blocks, 256, 0, stream>>>(p);
  const unsigned blocks = packed_panel<FP4_PANEL_THREADS, FP4_BLOCK_PANELS>::blocks(p.to, desc);
  if (desc.dtype == YK_F16)
    pack_fp4_kernel<YK_F16><<<blocks, FP4_PANEL_THREADS * FP4_BLOCK_PANELS, 0, stream>>>(p);
  else
    pack_fp4_kernel<YK_BF16><<<blocks, FP4_PANEL_THREADS * FP4_BLOCK_PANELS, 0, stream>>>(p);
  return cudaGetLastError();
}

} // namespace yk_gemm
