/* pack.cuh - common parts of packing for all sources: the columns of the packed panels (packed_layout.cuh) to fill, the
 * assignment of threads to panels, and the checks. */
#ifndef YK_KERNELS_CUDA_GEMM_PACK_PACK_CUH
#define YK_KERNELS_CUDA_GEMM_PACK_PACK_CUH

#include "kernels/cuda/gemm/common.cuh"

namespace yk_gemm {

/* Columns first_column .. first_column + n_columns - 1 of a GEMM's packed weights. */
struct pack_target {
  uint8_t *packed;
  int64_t k, n, first_column, n_columns, panels;
  int groups; /* groups of scales in a K tile */
  int panel_bytes;
  bool is_gated, is_bf16;

  pack_target(const yk_gemm_desc &desc, void *to, int64_t first, int64_t count)
      : packed(static_cast<uint8_t *>(to)), k(desc.k), n(desc.n), first_column(first), n_columns(count),
        panels(n_panels(desc)), groups(groups_per_k_tile(desc)), panel_bytes(yk_gemm::panel_bytes(desc)),
        is_gated(desc.activation.is_gated), is_bf16(desc.dtype == YK_BF16)
  {
  }

  /* The column of the source that a packed row holds, or -1 if this part does not own the row. */
  __device__ int64_t source_column(int64_t row) const
  {
    int64_t column = column_of_row(row, n, is_gated) - first_column;
    return column >= 0 && column < n_columns ? column : -1;
  }
};

/* Rows of bytes to pack. */
struct rows_params {
  yk_gemm_rows source;
  pack_target to;
  float *row_scales; /* of packed */
  bool is_int8;
};

/* Index into scales and zeros for a column and the group of input k. */
__device__ inline int64_t scale_index(const rows_params &p, int64_t column, int64_t k)
{
  return column * p.source.n_groups + (p.source.k_phase + min(k, p.to.k - 1)) / p.source.group;
}

/* yk_gemm_pack_rows for FP4 (pack_fp4.cu). */
cudaError_t pack_fp4(const yk_gemm_desc &desc, const rows_params &p, cudaStream_t stream);

/* The panel that a thread packs. A thread block packs PANELS neighbouring panels of one K tile, with THREADS threads
 * each; panel may be past the last one. */
template <int THREADS, int PANELS> struct packed_panel {
  int64_t k_tile, panel;
  int thread; /* number of the thread within the panel */
  uint8_t *packed;

  __device__ explicit packed_panel(const pack_target &t) : thread(threadIdx.x % THREADS)
  {
    int64_t row_blocks = (t.panels + PANELS - 1) / PANELS;
    k_tile = blockIdx.x / row_blocks;
    panel = blockIdx.x % row_blocks * PANELS + threadIdx.x / THREADS;
    packed = t.packed + (k_tile * t.panels + panel) * t.panel_bytes;
  }
  /* Thread blocks of the grid. */
  static unsigned blocks(const pack_target &t, const yk_gemm_desc &desc)
  {
    return static_cast<unsigned>(ceil_div(t.panels, PANELS) * n_k_tiles(desc));
  }
};

/* Returns YK_E_INVAL unless the columns are multiples of 8 within desc's, and desc.group divides the source's group and
 * k_phase or one group covers all of k. group, k_phase: of the source, as in yk_gemm_source. */
inline yk_status pack_check(const yk_gemm_desc &desc, int64_t first_column, int64_t n_columns, int64_t group,
                            int64_t k_phase, yk_err *err)
{
  if (first_column < 0 || n_columns < 0 || first_column % 8 || n_columns % 8 || first_column + n_columns > desc.n)
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: columns %lld + %lld must be multiples of 8 within %lld",
                      (long long)first_column, (long long)n_columns, (long long)desc.n);
  if (group <= 0 || k_phase < 0 || k_phase >= group)
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: group %lld with %lld inputs before the range", (long long)group,
                      (long long)k_phase);
  bool one_group = k_phase + desc.k <= group;
  if (!one_group && (group % desc.group || k_phase % desc.group))
    return yk_err_set(err, YK_E_INVAL, "GEMM pack: group %lld must divide the source's %lld and its phase %lld",
                      (long long)desc.group, (long long)group, (long long)k_phase);
  return YK_OK;
}

} // namespace yk_gemm

#endif
