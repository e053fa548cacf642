/* w4a16_sizes.h - what the packed copy of a weight (w4a16_layout.cuh) consists of, as far as its size depends on it.
 * For kernels, and for the host, which plans with it where there is no CUDA.                                         */
#ifndef YK_KERNELS_CUDA_W4A16_SIZES_H
#define YK_KERNELS_CUDA_W4A16_SIZES_H

#include "kernels/cuda/w4a16.h"

enum {
  YK_W4A16_TILE_K = 128,
  YK_W4A16_UNIT_COLUMNS = 16,
  YK_W4A16_UNIT_NIBBLE_BYTES = YK_W4A16_UNIT_COLUMNS * YK_W4A16_TILE_K / 2,
  YK_W4A16_UNIT_SCALE_BYTES = YK_W4A16_UNIT_COLUMNS * 4 /* of a group */
};

/* Groups in 128 inputs: longer groups repeat their scale, so that a unit is complete in itself. */
static inline int yk_w4a16_groups_per_tile(const yk_w4a16_desc *desc)
{
  if (desc->group >= desc->k || desc->group % 128 == 0) return 1;
  return desc->group % 64 == 0 ? 2 : 4;
}

static inline int yk_w4a16_unit_bytes(const yk_w4a16_desc *desc)
{
  return YK_W4A16_UNIT_NIBBLE_BYTES + yk_w4a16_groups_per_tile(desc) * YK_W4A16_UNIT_SCALE_BYTES;
}

static inline int64_t yk_w4a16_n_k_tiles(const yk_w4a16_desc *desc)
{
  return (desc->k + YK_W4A16_TILE_K - 1) / YK_W4A16_TILE_K;
}

/* Of a K tile. */
static inline int64_t yk_w4a16_n_units(const yk_w4a16_desc *desc)
{
  return (desc->n + YK_W4A16_UNIT_COLUMNS - 1) / YK_W4A16_UNIT_COLUMNS;
}

#endif
