/* w4a16_layout.cuh - where a weight lies in the packed copy, for the kernel that packs and for those that read it.
 *
 * Columns of W are the rows of the matrix instruction's A operand. A panel is 16 columns by a K tile of 128 inputs:
 *   1024 bytes of nibbles   [input half 2][lane 32][k16 step 4] words: a lane's A fragment of one m16k16 step a word
 *   64 bytes a group        [row 8][upper 2] scale words (w4a16_dequant.cuh)
 * In a word, the four bits from bit 4j and those from bit 4j + 16 are the two halves of register j of the fragment:
 * row lane / 4 (+ 8 for odd j), inputs 2 (lane % 4) and the next one (+ 8 for j of 2 and 3). Rows 8 to 15 of a panel
 * are called upper rows. Panels lie as [K tile][panel], so that any run of panels of a K tile is one run
 * of bytes and one bulk copy.
 * With gate_up, the 16 columns of a panel are 8 gates and their 8 ups. */
#ifndef YK_KERNELS_CUDA_GEMM_W4A16_LAYOUT_CUH
#define YK_KERNELS_CUDA_GEMM_W4A16_LAYOUT_CUH

#include <cstdint>

#include "kernels/cuda/gemm/w4a16_sizes.h"

namespace yk_gemm {

constexpr int TILE_K = YK_W4A16_TILE_K;
constexpr int PANEL_COLUMNS = YK_W4A16_PANEL_COLUMNS;
constexpr int PANEL_NIBBLE_BYTES = YK_W4A16_PANEL_NIBBLE_BYTES;
constexpr int PANEL_HALF_BYTES = PANEL_NIBBLE_BYTES / 2; /* nibbles of 64 inputs */
constexpr int PANEL_SCALE_BYTES = YK_W4A16_PANEL_SCALE_BYTES;

inline int groups_per_k_tile(const yk_w4a16_desc &desc)
{
  return yk_w4a16_groups_per_k_tile(&desc);
}

__host__ __device__ constexpr int panel_bytes_of(int groups)
{
  return PANEL_NIBBLE_BYTES + groups * PANEL_SCALE_BYTES;
}

inline int panel_bytes(const yk_w4a16_desc &desc)
{
  return yk_w4a16_panel_bytes(&desc);
}

inline int64_t n_k_tiles(const yk_w4a16_desc &desc)
{
  return yk_w4a16_n_k_tiles(&desc);
}

/* Of a K tile. */
inline int64_t n_panels(const yk_w4a16_desc &desc)
{
  return yk_w4a16_n_panels(&desc);
}

/* The column of W that a row of the packed copy holds, counted over all panels; n where it holds none. */
__host__ __device__ inline int64_t column_of_row(int64_t row, int64_t n, bool gate_up)
{
  if (!gate_up) return row;
  int64_t pair = row / 16 * 8 + row % 8;
  if (pair >= n / 2) return n;
  return row % 16 < 8 ? pair : n / 2 + pair;
}

} // namespace yk_gemm

#endif
