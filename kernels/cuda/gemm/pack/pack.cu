/* pack.cu - from AWQ tensors to packed panels (packed_layout.cuh). Runs once, at load. */
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/pack/pack.cuh"

namespace yk_gemm {
namespace {

struct repack_params {
  yk_gemm_source source;
  pack_target to;
};

/* The bit position of a column within AWQ's word of eight. */
__device__ int awq_shift(int64_t column)
{
  return static_cast<int>(0x73625140u >> (column % 8 * 4) & 0xFu) * 4;
}

__device__ uint32_t awq_nibble(const int32_t *words, const repack_params &p, int64_t row, int64_t column)
{
  int64_t at = p.source.first_column + column;
  uint32_t word = static_cast<uint32_t>(words[row * p.source.words_per_row + at / 8]);
  return word >> awq_shift(at) & 0xFu;
}

/* The four nibbles of one row of W in a lane's word of a k16 step: at even nibbles of the word, for an upper row at odd
 * ones. k0: the lane's first input of the step. Inputs past k get q = 0; x is zero there. */
__device__ uint32_t row_nibbles(const repack_params &p, int64_t column, int64_t k0, bool upper)
{
  uint32_t word = 0;
  for (int j = 0; j < 4; j++) {
    int64_t k = k0 + (j / 2) * 8 + j % 2;
    if (k >= p.to.k) continue;
    int nibble = (j / 2) * 2 + (upper ? 1 : 0) + (j % 2) * 4;
    word |= awq_nibble(p.source.qweight, p, k, column) << (nibble * 4);
  }
  return word;
}

/* The scale word of a column, for the group of input k. */
__device__ uint32_t scale_word_of(const repack_params &p, int64_t column, int64_t k, bool upper)
{
  int64_t group = (p.source.k_phase + (k < p.to.k ? k : p.to.k - 1)) / p.source.group;
  int64_t at = group * p.source.words_per_row * 8 + p.source.first_column + column;
  float scale = p.source.scales_dtype == YK_F16
                    ? __half2float(static_cast<const __half *>(p.source.scales)[at])
                    : __bfloat162float(static_cast<const __nv_bfloat16 *>(p.source.scales)[at]);
  uint32_t zero = awq_nibble(p.source.qzeros, p, group, column);
  return p.to.is_bf16 ? dequant<YK_GEMM_INT4, YK_BF16>::scale_word(scale, zero, upper)
                      : dequant<YK_GEMM_INT4, YK_F16>::scale_word(scale, zero, upper);
}

/* A thread block packs four panels of a K tile, one thread for each lane of each input half. Two parts of a layer may
 * share a panel, 8 columns each: a word keeps the nibbles that the other part's call wrote. */
constexpr int REPACK_PANEL_THREADS = 64, REPACK_BLOCK_PANELS = 4;

__global__ void __launch_bounds__(REPACK_PANEL_THREADS *REPACK_BLOCK_PANELS) repack_kernel(repack_params p)
{
  const packed_panel<REPACK_PANEL_THREADS, REPACK_BLOCK_PANELS> to(p.to);
  if (to.panel >= p.to.panels) return;
  const int half = to.thread / 32, lane = to.thread % 32;
  int64_t columns[2];
  for (int upper = 0; upper < 2; upper++)
    columns[upper] = p.to.source_column(to.panel * PANEL_COLUMNS + lane / 4 + 8 * upper);
  if (columns[0] >= 0 || columns[1] >= 0) {
    uint32_t *words = reinterpret_cast<uint32_t *>(to.packed) + to.thread * 4;
    for (int step = 0; step < 4; step++) {
      int64_t k0 = to.k_tile * TILE_K + half * 64 + step * 16 + lane % 4 * 2;
      uint32_t word = words[step];
      if (columns[0] >= 0) word = (word & 0xF0F0F0F0u) | row_nibbles(p, columns[0], k0, false);
      if (columns[1] >= 0) word = (word & 0x0F0F0F0Fu) | row_nibbles(p, columns[1], k0, true);
      words[step] = word;
    }
  }
  if (to.thread >= p.to.groups * PANEL_COLUMNS) return;
  const int group = to.thread / PANEL_COLUMNS, at = to.thread % PANEL_COLUMNS;
  const bool upper = at % 2;
  const int64_t column = p.to.source_column(to.panel * PANEL_COLUMNS + at / 2 + 8 * upper);
  if (column < 0) return;
  reinterpret_cast<uint32_t *>(to.packed + YK_GEMM_PANEL_WEIGHT_BYTES(YK_GEMM_INT4))[to.thread] =
      scale_word_of(p, column, to.k_tile * TILE_K + group * (TILE_K / p.to.groups), upper);
}

yk_status source_check(const yk_gemm_desc &desc, const yk_gemm_source &source, int64_t first_column, int64_t n_columns,
                       yk_err *err)
{
  YK_TRY(pack_check(desc, first_column, n_columns, source.group, source.k_phase, err));
  if (source.first_column < 0 || source.first_column + n_columns > source.words_per_row * 8)
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: columns %lld + %lld of a source with %lld",
                      (long long)source.first_column, (long long)n_columns, (long long)source.words_per_row * 8);
  if (source.scales_dtype != YK_F16 && source.scales_dtype != YK_BF16)
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: scales must be float16 or bfloat16, found %s",
                      yk_dtype_name(source.scales_dtype));
  return YK_OK;
}

} // namespace
} // namespace yk_gemm

extern "C" yk_status yk_gemm_pack(const yk_gemm_desc *desc, void *packed, const yk_gemm_source *source,
                                  int64_t first_column, int64_t n_columns, struct CUstream_st *stream, yk_err *err)
{
  using namespace yk_gemm;
  YK_TRY(yk_gemm_desc_check(desc, err));
  YK_TRY(source_check(*desc, *source, first_column, n_columns, err));
  if (n_columns == 0) return YK_OK;
  const repack_params p = {*source, {*desc, packed, first_column, n_columns}};
  const unsigned blocks = packed_panel<REPACK_PANEL_THREADS, REPACK_BLOCK_PANELS>::blocks(p.to, *desc);
  repack_kernel<<<blocks, REPACK_PANEL_THREADS * REPACK_BLOCK_PANELS, 0, stream>>>(p);
  return cuda_status(cudaGetLastError(), "GEMM pack", err);
}
