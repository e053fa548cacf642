/* tiles.h - the compiled tiles of the W8A8 wgmma kernel, and the constants of the estimate that chooses among them
 * and among splits of K. The constants were fitted to times on an H100 (bench/log); single constants have little
 * meaning. */
#ifndef YK_KERNELS_CUDA_W8A8_TILES_H
#define YK_KERNELS_CUDA_W8A8_TILES_H

namespace yk_w8a8 {

/* By rising n. Tiles of 64 rows give few tokens twice as many thread blocks, so that K seldom needs a split; tiles of
 * 192 rows fill the GPU where tiles of 128 leave a partial wave. */
struct tile_shape {
  int n;            /* tokens */
  int warpgroups;   /* warpgroups of 64 rows each */
  int cluster;      /* thread blocks with neighbouring rows that share their tokens by multicast */
  double k_tile_us; /* time of one K tile */
};
constexpr tile_shape TILES[] = {
    {16, 1, 1, 0.147}, {32, 1, 1, 0.134},  {64, 1, 1, 0.167},  {64, 2, 1, 0.277},
    {64, 3, 1, 0.598}, {128, 2, 1, 0.507}, {128, 3, 1, 0.686}, {256, 2, 2, 0.849},
};
constexpr int N_TILES = sizeof TILES / sizeof *TILES;

/* Tiles of fewer tokens are split along K only if one tile holds all tokens. */
constexpr int LEAST_SPLIT_TOKENS = 64;

/* Cost of the end of a tile, for each of its tokens. */
constexpr double END_TOKEN_US = 0.0116;
/* Costs of a split of K: for each range, and for each token of each warpgroup. */
constexpr double RANGE_US = 0.342, EXCHANGE_TOKEN_US = 0.01245;
constexpr double BYTES_PER_US = 4.35e6;

/* A tile, and the number of equal ranges into which the K of each tile is split; 1: no split. */
struct gemm_plan {
  int tile, splits;
};

} // namespace yk_w8a8

#endif
