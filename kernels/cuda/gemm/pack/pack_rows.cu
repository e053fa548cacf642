/* pack_rows.cu - from rows of bytes to packed panels (packed_layout.cuh): INT8 and FP8 here. Runs once, at load. */
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/pack/pack.cuh"

namespace yk_gemm {
namespace {

/* A row scale is the largest magnitude of the row's scales. One warp per packed row, eight per thread block. */
__global__ void __launch_bounds__(256) row_scales_kernel(rows_params p)
{
  int64_t row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= p.to.panels * PANEL_COLUMNS) return;
  int64_t column = p.to.source_column(row);
  if (column < 0) return;
  int64_t first = scale_index(p, column, 0), last = scale_index(p, column, p.to.k - 1);
  float largest = 0.0f;
  for (int64_t i = first + threadIdx.x % 32; i <= last; i += 32) largest = fmaxf(largest, fabsf(p.source.scales[i]));
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  if (threadIdx.x % 32 == 0) p.row_scales[row] = largest;
}

/* Two inputs of a row at bytes 0 and 2. Inputs past k become 0; x is zero there. */
__device__ uint32_t row_bytes(const rows_params &p, int64_t column, int64_t k)
{
  uint32_t word = 0;
  for (int i = 0; i < 2; i++)
    if (k + i < p.to.k) word |= static_cast<uint32_t>(p.source.bytes[column * p.source.row_bytes + k + i]) << 16 * i;
  return p.is_int8 ? word ^ 0x00800080u : word;
}

/* The scale word of encoding_int8.cuh. */
__device__ uint32_t int8_scale_word(float ratio, float zero)
{
  int fixed = max(-128 * 256, min(128 * 256 - 1, __float2int_rn(zero * 256.0f)));
  return __half_as_ushort(__float2half_rn(ratio)) | static_cast<uint32_t>(fixed + 128 * 256) % 256u << 16 |
         static_cast<uint32_t>(fixed + 128 * 256) / 256u << 24;
}

constexpr int ROWS_PANEL_THREADS = 128, ROWS_BLOCK_PANELS = 2;

/* A thread block packs two panels of a K tile, one thread for the 16 bytes that a lane loads at once. Two parts of a
 * layer may share a panel, 8 columns each: a word keeps the bytes that the other part's call wrote. */
__global__ void __launch_bounds__(ROWS_PANEL_THREADS *ROWS_BLOCK_PANELS) pack_rows_kernel(rows_params p)
{
  const packed_panel<ROWS_PANEL_THREADS, ROWS_BLOCK_PANELS> to(p.to);
  if (to.panel >= p.to.panels) return;
  const int quarter = to.thread / 32, lane = to.thread % 32;
  const bool is_spread = !p.is_int8 && !p.to.is_bf16; /* bits in the order of encoding_fp8.cuh for float16 */
  const uint32_t even_bits = is_spread ? dequant<YK_GEMM_FP8, YK_F16>::EVEN_BITS : 0x00FF00FFu;
  uint32_t *words = reinterpret_cast<uint32_t *>(to.packed) + to.thread * 4;
  for (int upper = 0; upper < 2; upper++) {
    int64_t column = p.to.source_column(to.panel * PANEL_COLUMNS + lane / 4 + 8 * upper);
    if (column < 0) continue;
    for (int i = 0; i < 4; i++) {
      int64_t k = to.k_tile * TILE_K + quarter * 32 + i / 2 * 16 + i % 2 * 8 + lane % 4 * 2;
      uint32_t word = row_bytes(p, column, k) << 8 * upper, bits = upper ? ~even_bits : even_bits;
      if (is_spread) word = dequant<YK_GEMM_FP8, YK_F16>::packed_word(word);
      words[i] = (words[i] & ~bits) | (word & bits);
    }
  }
  if (to.thread >= p.to.groups * PANEL_COLUMNS) return;
  int group = to.thread / PANEL_COLUMNS, at = to.thread % PANEL_COLUMNS;
  int64_t row = to.panel * PANEL_COLUMNS + at / 2 + 8 * (at % 2), column = p.to.source_column(row);
  if (column < 0) return;
  int64_t index = scale_index(p, column, to.k_tile * TILE_K + group * (TILE_K / p.to.groups));
  float largest = p.row_scales[row], ratio = largest > 0.0f ? p.source.scales[index] / largest : 0.0f;
  reinterpret_cast<uint32_t *>(to.packed + YK_GEMM_PANEL_WEIGHT_BYTES(YK_GEMM_INT8))[to.thread] =
      p.is_int8 ? int8_scale_word(ratio, p.source.zeros ? p.source.zeros[index] : 0.0f) : __float_as_uint(ratio);
}

} // namespace
} // namespace yk_gemm

extern "C" yk_status yk_gemm_pack_rows(const yk_gemm_desc *desc, void *packed, const yk_gemm_rows *source,
                                       int64_t first_column, int64_t n_columns, struct CUstream_st *stream, yk_err *err)
{
  using namespace yk_gemm;
  YK_TRY(yk_gemm_desc_check(desc, err));
  if (desc->encoding == YK_GEMM_INT4)
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: rows of bytes: expected INT8, FP8 or FP4, found INT4");
  YK_TRY(pack_check(*desc, first_column, n_columns, source->group, source->k_phase, err));
  if (n_columns == 0) return YK_OK;
  const rows_params p = {*source,
                         {*desc, packed, first_column, n_columns},
                         const_cast<float *>(row_scales_of(*desc, packed)),
                         desc->encoding == YK_GEMM_INT8};
  if (desc->encoding == YK_GEMM_FP4) return cuda_status(pack_fp4(*desc, p, stream), "GEMM pack", err);
  const unsigned row_blocks = static_cast<unsigned>(ceil_div(p.to.panels * PANEL_COLUMNS, 8));
  row_scales_kernel<<<row_blocks, 256, 0, stream>>>(p);
  const unsigned blocks = packed_panel<ROWS_PANEL_THREADS, ROWS_BLOCK_PANELS>::blocks(p.to, *desc);
  pack_rows_kernel<<<blocks, ROWS_PANEL_THREADS * ROWS_BLOCK_PANELS, 0, stream>>>(p);
  return cuda_status(cudaGetLastError(), "GEMM pack", err);
}
