/* wna16_pack_rows.cu - from rows of bytes, INT8 or FP8, to packed panels (wna16_layout.cuh). Runs once, at load. */
#include "kernels/cuda/gemm/wna16.h"
#include "kernels/cuda/gemm/wna16_common.cuh"

namespace yk_gemm {
namespace {

struct rows_params {
  yk_wna16_rows source;
  uint8_t *packed;
  float *row_scales;
  int64_t k, n, first_column, n_columns, panels;
  int groups; /* of scales in a K tile */
  int panel_bytes;
  bool gate_up, is_int8, is_bf16;
};

/* The column of the source that a packed row holds, or -1 where this part does not own the row. */
__device__ int64_t source_column(const rows_params &p, int64_t row)
{
  int64_t column = column_of_row(row, p.n, p.gate_up) - p.first_column;
  return column >= 0 && column < p.n_columns ? column : -1;
}

__device__ int64_t scale_index(const rows_params &p, int64_t column, int64_t k)
{
  return column * p.source.n_groups + (p.source.k_phase + min(k, p.k - 1)) / p.source.group;
}

/* A row scale is the largest magnitude of a scale of the row. One warp a packed row. */
__global__ void __launch_bounds__(256) row_scales_kernel(rows_params p)
{
  int64_t row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= p.panels * PANEL_COLUMNS) return;
  int64_t column = source_column(p, row);
  if (column < 0) return;
  int64_t first = scale_index(p, column, 0), last = scale_index(p, column, p.k - 1);
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
    if (k + i < p.k) word |= static_cast<uint32_t>(p.source.bytes[column * p.source.row_bytes + k + i]) << 16 * i;
  return p.is_int8 ? word ^ 0x00800080u : word;
}

/* See wna16_dequant_int8.cuh. */
__device__ uint32_t int8_scale_word(float ratio, float zero)
{
  int fixed = max(-128 * 256, min(128 * 256 - 1, __float2int_rn(zero * 256.0f)));
  return __half_as_ushort(__float2half_rn(ratio)) | static_cast<uint32_t>(fixed + 128 * 256) % 256u << 16 |
         static_cast<uint32_t>(fixed + 128 * 256) / 256u << 24;
}

constexpr int PANEL_THREADS = 128, BLOCK_PANELS = 2;

/* Two panels of a K tile a block, one thread for what a lane loads at once. A word that two parts share (8 columns
 * each) keeps what the other part wrote. */
__global__ void __launch_bounds__(PANEL_THREADS *BLOCK_PANELS) pack_rows_kernel(rows_params p)
{
  int64_t row_blocks = (p.panels + BLOCK_PANELS - 1) / BLOCK_PANELS, k_tile = blockIdx.x / row_blocks;
  int64_t panel = blockIdx.x % row_blocks * BLOCK_PANELS + threadIdx.x / PANEL_THREADS;
  if (panel >= p.panels) return;
  uint8_t *packed = p.packed + (k_tile * p.panels + panel) * p.panel_bytes;
  int thread = threadIdx.x % PANEL_THREADS, quarter = thread / 32, lane = thread % 32;
  const bool is_moved = !p.is_int8 && !p.is_bf16;
  const uint32_t even_bits = is_moved ? dequant<YK_WNA16_FP8, YK_F16>::EVEN_BITS : 0x00FF00FFu;
  uint32_t *words = reinterpret_cast<uint32_t *>(packed) + thread * 4;
  for (int upper = 0; upper < 2; upper++) {
    int64_t column = source_column(p, panel * PANEL_COLUMNS + lane / 4 + 8 * upper);
    if (column < 0) continue;
    for (int i = 0; i < 4; i++) {
      int64_t k = k_tile * TILE_K + quarter * 32 + i / 2 * 16 + i % 2 * 8 + lane % 4 * 2;
      uint32_t word = row_bytes(p, column, k) << 8 * upper, bits = upper ? ~even_bits : even_bits;
      if (is_moved) word = dequant<YK_WNA16_FP8, YK_F16>::packed_word(word);
      words[i] = (words[i] & ~bits) | (word & bits);
    }
  }
  if (thread >= p.groups * PANEL_COLUMNS) return;
  int group = thread / PANEL_COLUMNS, at = thread % PANEL_COLUMNS;
  int64_t row = panel * PANEL_COLUMNS + at / 2 + 8 * (at % 2), column = source_column(p, row);
  if (column < 0) return;
  int64_t index = scale_index(p, column, k_tile * TILE_K + group * (TILE_K / p.groups));
  float largest = p.row_scales[row], ratio = largest > 0.0f ? p.source.scales[index] / largest : 0.0f;
  reinterpret_cast<uint32_t *>(packed + YK_WNA16_PANEL_WEIGHT_BYTES(YK_WNA16_INT8))[thread] =
      p.is_int8 ? int8_scale_word(ratio, p.source.zeros ? p.source.zeros[index] : 0.0f) : __float_as_uint(ratio);
}

yk_status rows_check(const yk_wna16_desc &desc, const yk_wna16_rows &source, int64_t first_column, int64_t n_columns,
                     yk_err *err)
{
  if (desc.encoding == YK_WNA16_INT4)
    return yk_err_set(err, YK_E_INVAL, "wna16 pack: rows of bytes for a GEMM of 4 bits");
  if (first_column < 0 || n_columns < 0 || first_column % 8 || n_columns % 8 || first_column + n_columns > desc.n)
    return yk_err_set(err, YK_E_INVAL, "wna16 pack: columns %lld + %lld must be multiples of 8 within %lld",
                      (long long)first_column, (long long)n_columns, (long long)desc.n);
  if (source.group <= 0 || source.k_phase < 0 || source.k_phase >= source.group)
    return yk_err_set(err, YK_E_INVAL, "wna16 pack: group %lld with %lld inputs before the range",
                      (long long)source.group, (long long)source.k_phase);
  bool one_group = source.k_phase + desc.k <= source.group;
  if (!one_group && (source.group % desc.group || source.k_phase % desc.group))
    return yk_err_set(err, YK_E_INVAL, "wna16 pack: group %lld must divide the source's %lld and its phase %lld",
                      (long long)desc.group, (long long)source.group, (long long)source.k_phase);
  return YK_OK;
}

} // namespace
} // namespace yk_gemm

extern "C" yk_status yk_wna16_pack_rows(const yk_wna16_desc *desc, void *packed, const yk_wna16_rows *source,
                                        int64_t first_column, int64_t n_columns, struct CUstream_st *stream,
                                        yk_err *err)
{
  using namespace yk_gemm;
  YK_TRY(yk_wna16_desc_check(desc, err));
  YK_TRY(rows_check(*desc, *source, first_column, n_columns, err));
  if (n_columns == 0) return YK_OK;
  rows_params p = {*source,
                   static_cast<uint8_t *>(packed),
                   const_cast<float *>(row_scales_of(*desc, packed)),
                   desc->k,
                   desc->n,
                   first_column,
                   n_columns,
                   n_panels(*desc),
                   groups_per_k_tile(*desc),
                   panel_bytes(*desc),
                   desc->gate_up,
                   desc->encoding == YK_WNA16_INT8,
                   desc->dtype == YK_BF16};
  unsigned blocks = static_cast<unsigned>(ceil_div(p.panels, BLOCK_PANELS) * n_k_tiles(*desc));
  row_scales_kernel<<<static_cast<unsigned>(ceil_div(p.panels * PANEL_COLUMNS, 8)), 256, 0, stream>>>(p);
  pack_rows_kernel<<<blocks, PANEL_THREADS * BLOCK_PANELS, 0, stream>>>(p);
  return cuda_status(cudaGetLastError(), "wna16 pack", err);
}
