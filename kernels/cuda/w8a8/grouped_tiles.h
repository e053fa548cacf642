/* grouped_tiles.h - which tiles of the grouped W8A8 wgmma kernel are compiled, and which serves how many rows. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_TILES_H
#define YK_KERNELS_CUDA_W8A8_GROUPED_TILES_H

namespace yk_w8a8 {

constexpr int GROUPED_WARPGROUPS = 2; /* of 64 rows of W each */

/* By rising most_rows: slots that there is room for, over matrices. The rows that a matrix has beyond whole tiles are
 * fetched, and multiplied by the narrowest instruction that holds them, in steps. */
struct grouped_tile_shape {
  int n;    /* rows of x */
  int step; /* divides n */
  int most_rows;
};
constexpr grouped_tile_shape GROUPED_TILES[] = {{64, 32, 56}, {128, 64, 512}, {256, 256, 1 << 30}};
constexpr int N_GROUPED_TILES = sizeof GROUPED_TILES / sizeof *GROUPED_TILES;

} // namespace yk_w8a8

#endif
