/* w4a16_layout.cuh - where a weight lies in the packed copy, for the repacking kernel and for those that read it.
 *
 * Columns of W are the rows of the matrix instruction's A operand, tokens its columns. A unit is 16 columns by 128 inputs:
 *   1024 bytes of nibbles   [input half 2][lane 32][k16 4] words: the A fragment of one m16k16 step a word
 *   64 bytes a group        [row 8][upper 2] scale words (w4a16_dequant.cuh)
 * In a word, bits 4j.. and 4j+16.. are the two halves of register j of the fragment: row lane/4 (+8 for odd j), inputs
 * 2 (lane%4) and the next (+8 for j >= 2). Units lie as [K tile][unit]: what a block takes of a K tile is one run of
 * bytes, wherever it begins. With gate_up, the 16 columns of a unit are 8 gates and their 8 ups.                      */
#ifndef YK_KERNELS_CUDA_W4A16_LAYOUT_CUH
#define YK_KERNELS_CUDA_W4A16_LAYOUT_CUH

#include <cstdint>

#include "kernels/cuda/w4a16_sizes.h"

namespace w4a16 {

constexpr int TILE_K = YK_W4A16_TILE_K;
constexpr int UNIT_COLUMNS = YK_W4A16_UNIT_COLUMNS;
constexpr int UNIT_NIBBLE_BYTES = YK_W4A16_UNIT_NIBBLE_BYTES;
constexpr int UNIT_HALF_BYTES = UNIT_NIBBLE_BYTES / 2; /* nibbles of 64 inputs */
constexpr int UNIT_SCALE_BYTES = YK_W4A16_UNIT_SCALE_BYTES;

inline int groups_per_tile(const yk_w4a16_desc &desc)
{
  return yk_w4a16_groups_per_tile(&desc);
}

__host__ __device__ constexpr int unit_bytes_of(int groups)
{
  return UNIT_NIBBLE_BYTES + groups * UNIT_SCALE_BYTES;
}

inline int unit_bytes(const yk_w4a16_desc &desc)
{
  return yk_w4a16_unit_bytes(&desc);
}

inline int64_t n_k_tiles(const yk_w4a16_desc &desc)
{
  return yk_w4a16_n_k_tiles(&desc);
}

/* Of a K tile. */
inline int64_t n_units(const yk_w4a16_desc &desc)
{
  return yk_w4a16_n_units(&desc);
}

/* The column of W that a row of the packed copy holds, counted over all units; n where it holds none. */
__host__ __device__ inline int64_t column_of_row(int64_t row, int64_t n, bool gate_up)
{
  if (!gate_up) return row;
  int64_t pair = row / 16 * 8 + row % 8;
  if (pair >= n / 2) return n;
  return row % 16 < 8 ? pair : n / 2 + pair;
}

} // namespace w4a16

#endif
