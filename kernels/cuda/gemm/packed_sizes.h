/* packed_sizes.h - sizes of the packed weights (packed_layout.cuh): for kernels, and for plans on the host, with or
 * without CUDA. */
#ifndef YK_KERNELS_CUDA_GEMM_PACKED_SIZES_H
#define YK_KERNELS_CUDA_GEMM_PACKED_SIZES_H

#include <stddef.h>

#include "kernels/cuda/gemm/types.h"

enum {
  YK_GEMM_TILE_K = 128,
  YK_GEMM_PANEL_COLUMNS = 16,
  YK_GEMM_SCALE_BLOCK_BYTES = YK_GEMM_PANEL_COLUMNS * 4 /* of a group's scales, or of four groups' 8-bit scales */
};

/* Bytes of a panel without its scales. */
#define YK_GEMM_PANEL_WEIGHT_BYTES(encoding)                                                                           \
  (YK_GEMM_PANEL_COLUMNS * YK_GEMM_TILE_K * yk_gemm_traits(encoding).bits / 8)

/* Groups whose scales are in one block. */
#define YK_GEMM_BLOCK_GROUPS(encoding) (32 / yk_gemm_traits(encoding).scale_bits)

/* Inputs of a group are a multiple of this number. */
#define YK_GEMM_GROUP_UNIT(encoding) (yk_gemm_traits(encoding).layouts >= 8 ? 16 : 32)

/* Groups of scales in a K tile: longer groups repeat their scale, so that a panel is complete in itself. */
static inline int yk_gemm_groups_per_k_tile(const yk_gemm_desc *desc)
{
  const int layouts = yk_gemm_traits(desc->encoding).layouts;
  int groups = 1;
  for (; groups * 2 <= layouts; groups *= 2)
    if ((layouts & groups) && (desc->group >= desc->k || desc->group % (YK_GEMM_TILE_K / groups) == 0)) break;
  return groups;
}

static inline int yk_gemm_panel_bytes(const yk_gemm_desc *desc)
{
  return YK_GEMM_PANEL_WEIGHT_BYTES(desc->encoding) +
         yk_gemm_groups_per_k_tile(desc) / YK_GEMM_BLOCK_GROUPS(desc->encoding) * YK_GEMM_SCALE_BLOCK_BYTES;
}

/* Whether a kernel that reads the panels of one GEMM can also read those of the other. Equal groups are not sufficient:
 * a GEMM with no more inputs than a group has one group in each K tile. */
static inline bool yk_gemm_has_panels_of(const yk_gemm_desc *desc, const yk_gemm_desc *other)
{
  return desc->encoding == other->encoding && yk_gemm_groups_per_k_tile(desc) == yk_gemm_groups_per_k_tile(other);
}

static inline int64_t yk_gemm_n_k_tiles(const yk_gemm_desc *desc)
{
  return (desc->k + YK_GEMM_TILE_K - 1) / YK_GEMM_TILE_K;
}

/* Panels of one K tile: n in panels of 16 columns, the last one padded. */
static inline int64_t yk_gemm_n_panels(const yk_gemm_desc *desc)
{
  return (desc->n + YK_GEMM_PANEL_COLUMNS - 1) / YK_GEMM_PANEL_COLUMNS;
}

/* All panels of all K tiles. */
static inline int64_t yk_gemm_panels_bytes(const yk_gemm_desc *desc)
{
  return yk_gemm_n_panels(desc) * yk_gemm_n_k_tiles(desc) * yk_gemm_panel_bytes(desc);
}

/* The float32 row scales after the panels, for encodings with row scales. */
static inline int64_t yk_gemm_row_scale_bytes(const yk_gemm_desc *desc)
{
  return yk_gemm_traits(desc->encoding).has_row_scales ? yk_gemm_n_panels(desc) * YK_GEMM_PANEL_COLUMNS * 4 : 0;
}

/* yk_gemm_packed_bytes - device memory of the repacked weights of a valid desc. */
static inline size_t yk_gemm_packed_bytes(const yk_gemm_desc *desc)
{
  return (size_t)(yk_gemm_panels_bytes(desc) + yk_gemm_row_scale_bytes(desc));
}

#endif
