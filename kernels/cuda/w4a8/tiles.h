/* tiles.h - the compiled tiles of the W4A8 kernel. */
#ifndef YK_KERNELS_CUDA_W4A8_TILES_H
#define YK_KERNELS_CUDA_W4A8_TILES_H

namespace yk_w4a8 {

/* By rising n. A thread block has two warpgroups of 64 columns of W each. */
struct tile_shape {
  int n;       /* tile N: tokens */
  int wgmma_n; /* tokens of one matrix instruction: n, or half of it if registers do not hold two sets of sums */
  int cluster; /* thread blocks with neighbouring columns that share their tokens by multicast */
};
constexpr tile_shape TILES[] = {{64, 64, 1}, {128, 128, 1}, {256, 128, 2}};
constexpr int N_TILES = sizeof TILES / sizeof *TILES;

} // namespace yk_w4a8

#endif
