/* w8a8_tiles.h - which tiles of the W8A8 wgmma kernel are compiled, and the constants of the estimate that chooses
 * among them and among splits of K. The constants were read off times on an H200 (bench/LOG.md); taken one by one they
 * mean little. */
#ifndef YK_KERNELS_CUDA_W8A8_W8A8_TILES_H
#define YK_KERNELS_CUDA_W8A8_W8A8_TILES_H

namespace yk_w8a8 {

/* By rising n. Tiles of 64 rows give few tokens twice as many thread blocks, so that K need seldom be split. */
struct tile_shape {
  int n;            /* tokens */
  int warpgroups;   /* of 64 rows each */
  int cluster;      /* thread blocks with neighbouring rows that share their tokens by multicast */
  double k_tile_us; /* of one K tile */
};
constexpr tile_shape TILES[] = {
    {16, 1, 1, 0.149},  {32, 1, 1, 0.161},  {64, 1, 1, 0.186},  {64, 2, 1, 0.332},
    {128, 2, 1, 0.468}, {192, 2, 1, 0.704}, {256, 2, 2, 0.878},
};
constexpr int N_TILES = sizeof TILES / sizeof *TILES;

/* Up to so many tokens one tile holds all, so that weights are read once. */
constexpr int ONE_TILE_TOKENS = 64;

/* Of a split of K: for each range, and for each token of the tile. */
constexpr double RANGE_US = 0.355, EXCHANGE_TOKEN_US = 0.019;
constexpr double BYTES_PER_US = 4.35e6;

/* A tile, and the ranges into which the K of each tile is split alike; 1: not at all. */
struct gemm_plan {
  int tile, splits;
};

} // namespace yk_w8a8

#endif
