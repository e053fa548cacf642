/* packed_layout.cuh - the position of a weight in the packed copy, for the kernels that pack and that read it.
 *
 * Columns of W are the rows of the matrix instruction's A operand. A panel is 16 columns by a K tile of 128 inputs:
 *   1024 bytes of nibbles   [input half 2][lane 32][k16 step 4] words: one word holds a lane's A fragment of an m16k16
 *                           step
 *   or 2048 bytes           [input quarter 4][lane 32][k16 step 2][2] words: two words hold a lane's A fragment
 *   64 bytes per group      [row 8][upper 2] scale words (encoding_*.cuh)
 *   or per four groups      [row 8][groups 0 and 1; 2 and 3] words of four scale bytes (encoding_fp4.cuh)
 * Register j of a fragment holds row lane / 4 (+ 8 for odd j), inputs 2 (lane % 4) and the next one (+ 8 for j of 2 and
 * 3), in its two halves. Nibbles are the four bits of the word from bit 4j and from bit 4j + 16. Bytes of register j
 * are in word j / 2, at bytes 0 and 2 for even j, 1 and 3 for odd j. FP4, and FP8 for float16, have other bits of the
 * same words (encoding_fp4.cuh, encoding_fp8.cuh). Rows 8 to 15 of a panel are called upper rows. Panels are ordered [K
 * tile][panel], so that any run of panels of a K tile is one run of bytes and one bulk copy. Row scales, of encodings
 * that have them, follow all panels. With gates, the 16 columns of a panel are 8 gates and their 8 ups. */
#ifndef YK_KERNELS_CUDA_GEMM_PACKED_LAYOUT_CUH
#define YK_KERNELS_CUDA_GEMM_PACKED_LAYOUT_CUH

#include <cstdint>

#include "kernels/cuda/gemm/packed_sizes.h"

namespace yk_gemm {

constexpr int TILE_K = YK_GEMM_TILE_K;
constexpr int PANEL_COLUMNS = YK_GEMM_PANEL_COLUMNS;
constexpr int SCALE_BLOCK_BYTES = YK_GEMM_SCALE_BLOCK_BYTES;
constexpr int LANE_BYTES = 16;                    /* that a lane loads at once */
constexpr int PANEL_LOAD_BYTES = 32 * LANE_BYTES; /* that a warp loads at once */
constexpr int K_STEPS = TILE_K / 16;              /* k16 steps of a K tile: mma.sync and wgmma take 16 inputs each */

/* A panel, at compile time. */
template <yk_gemm_encoding ENCODING_, int GROUPS_> struct panel_layout {
  static constexpr yk_gemm_encoding ENCODING = ENCODING_;
  static constexpr int GROUPS = GROUPS_;                              /* groups of scales */
  static constexpr int SCALES = YK_GEMM_PANEL_WEIGHT_BYTES(ENCODING); /* offset of the scales, in bytes */
  static constexpr int BLOCK_GROUPS = YK_GEMM_BLOCK_GROUPS(ENCODING); /* groups whose scales are in one block */
  static constexpr int BYTES = SCALES + GROUPS / BLOCK_GROUPS * SCALE_BLOCK_BYTES;
  static constexpr int LOAD_STEPS = K_STEPS * PANEL_LOAD_BYTES / SCALES; /* k16 steps that a lane loads at once */
  static constexpr int GROUP_STEPS = K_STEPS / GROUPS;                   /* k16 steps that share a scale */
  static constexpr int SCALE_STEPS = GROUP_STEPS * BLOCK_GROUPS;         /* k16 steps whose scales are in one block */
};

inline int groups_per_k_tile(const yk_gemm_desc &desc)
{
  return yk_gemm_groups_per_k_tile(&desc);
}

inline int panel_bytes(const yk_gemm_desc &desc)
{
  return yk_gemm_panel_bytes(&desc);
}

inline int64_t n_k_tiles(const yk_gemm_desc &desc)
{
  return yk_gemm_n_k_tiles(&desc);
}

/* Panels of one K tile. */
inline int64_t n_panels(const yk_gemm_desc &desc)
{
  return yk_gemm_n_panels(&desc);
}

/* Addresses in shared memory, for a panel at address `panel`: the 16 bytes with a lane's words of a k16 step (and of
 * the other steps of the same load), and the lane's two scale words of the step's group, or of the step's block. */
template <typename PANEL> __device__ __forceinline__ uint32_t words_at(uint32_t panel, int step, int lane)
{
  return panel + step / PANEL::LOAD_STEPS * PANEL_LOAD_BYTES + lane * LANE_BYTES;
}

template <typename PANEL> __device__ __forceinline__ uint32_t scales_at(uint32_t panel, int step, int lane)
{
  return panel + PANEL::SCALES + step / PANEL::SCALE_STEPS * SCALE_BLOCK_BYTES + lane / 4 * 8;
}

__host__ __device__ constexpr bool has_row_scales(yk_gemm_encoding encoding)
{
  return yk_gemm_traits(encoding).has_row_scales;
}

/* The row scales, by packed row, within packed; NULL for an encoding without. */
inline const float *row_scales_of(const yk_gemm_desc &desc, const void *packed)
{
  if (!has_row_scales(desc.encoding)) return nullptr;
  return reinterpret_cast<const float *>(static_cast<const uint8_t *>(packed) + yk_gemm_panels_bytes(&desc));
}

/* The column of W that a packed row holds; n or more if the row is padding. Packed rows are counted over the panels of
 * a K tile, 16 per panel. */
__host__ __device__ inline int64_t column_of_row(int64_t row, int64_t n, bool is_gated)
{
  if (!is_gated) return row;
  int64_t pair = row / 16 * 8 + row % 8;
  if (pair >= n / 2) return n;
  return row % 16 < 8 ? pair : n / 2 + pair;
}

} // namespace yk_gemm

#endif
