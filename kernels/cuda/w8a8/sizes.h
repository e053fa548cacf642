/* sizes.h - a W8A8 GEMM, and the sizes of its packed weights (layout.cuh): for kernels, and for plans on the host, with
 * or without CUDA. */
#ifndef YK_KERNELS_CUDA_W8A8_SIZES_H
#define YK_KERNELS_CUDA_W8A8_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/activation.h"

/* One GEMM on a rank. */
typedef struct yk_w8a8_desc {
  int64_t k;                /* inputs, may be 0 */
  int64_t n;                /* columns of W; with gates gate and up together */
  int32_t zero;             /* zero point of the inputs */
  yk_activation activation; /* gated or none; gated, columns [0, n/2) are gates, [n/2, n) ups, and y has n/2 */
} yk_w8a8_desc;

enum {
  YK_W8A8_TILE_K = 128,       /* inputs, or bytes, of a row of a K tile */
  YK_W8A8_PANEL_ROWS = 16,    /* packed rows come in panels */
  YK_W8A8_ROW_MULTIPLE = 256, /* the scales of x are padded to a multiple of this */
  YK_W8A8_ALIGNMENT_BYTES = 256
};

/* At least one K tile, so that an empty k gives zeros. */
static inline int64_t yk_w8a8_n_k_tiles(int64_t k)
{
  return k > 0 ? (k + YK_W8A8_TILE_K - 1) / YK_W8A8_TILE_K : 1;
}

static inline int64_t yk_w8a8_k_padded(int64_t k)
{
  return yk_w8a8_n_k_tiles(k) * YK_W8A8_TILE_K;
}

/* Rows of the packed weights: with gates the 16 of a panel are 8 gates and their 8 ups. */
static inline int64_t yk_w8a8_n_rows(const yk_w8a8_desc *desc)
{
  const int64_t columns = desc->activation.is_gated ? desc->n / 2 : desc->n,
                of_panel = desc->activation.is_gated ? 8 : 16;
  return (columns + of_panel - 1) / of_panel * YK_W8A8_PANEL_ROWS;
}

/* Bytes, f32 scales and i32 sums of rows follow each other. */
static inline int64_t yk_w8a8_scales_at(const yk_w8a8_desc *desc)
{
  return yk_w8a8_n_rows(desc) * yk_w8a8_k_padded(desc->k);
}

static inline int64_t yk_w8a8_sums_at(const yk_w8a8_desc *desc)
{
  return yk_w8a8_scales_at(desc) + yk_w8a8_n_rows(desc) * 4;
}

static inline int64_t yk_w8a8_packed_bytes(const yk_w8a8_desc *desc)
{
  return yk_w8a8_sums_at(desc) + yk_w8a8_n_rows(desc) * 4;
}

#endif
