/* grouped_tiles.h - the compiled tiles of the grouped W8A8 wgmma kernel, and the number of rows for each. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_TILES_H
#define YK_KERNELS_CUDA_W8A8_GROUPED_TILES_H

namespace yk_w8a8 {

constexpr int GROUPED_WARPGROUPS = 2; /* warpgroups of 64 rows of W each */

/* By rising most_rows: max_slots over the number of matrices. The rows of a matrix beyond whole tiles are loaded, and
 * multiplied by the narrowest instruction that holds them, in multiples of step. */
struct grouped_tile_shape {
  int n;    /* rows of x */
  int step; /* divides n */
  int most_rows;
};
constexpr grouped_tile_shape GROUPED_TILES[] = {{64, 32, 56}, {128, 64, 512}, {256, 256, 1 << 30}};
constexpr int N_GROUPED_TILES = sizeof GROUPED_TILES / sizeof *GROUPED_TILES;

} // namespace yk_w8a8

#endif
