/* tiles.h - the compiled tiles of the W4A8 kernel, and the constants of the estimate that chooses among them. */
#ifndef YK_KERNELS_CUDA_W4A8_TILES_H
#define YK_KERNELS_CUDA_W4A8_TILES_H

namespace yk_w4a8 {

/* By rising n. A thread block has two warpgroups of 64 columns of W each. */
struct tile_shape {
  int n;            /* tile N: tokens */
  int wgmma_n;      /* tokens of one matrix instruction, and of a chunk: registers hold the sums of two chunks */
  int cluster;      /* thread blocks with neighbouring columns that share their tokens by multicast */
  bool ahead;       /* weights of the next K tile are expanded while the tensor cores work */
  double k_tile_us; /* time of one K tile */
};
constexpr tile_shape TILES[] = {{64, 64, 1, true, 0.49}, {128, 64, 1, true, 0.62}, {256, 64, 2, false, 0.97}};
constexpr int N_TILES = sizeof TILES / sizeof *TILES;

/* Cost of the end of a tile, for each of its tokens; of K ranges: once, and for each token. */
constexpr double END_TOKEN_US = 0.0112, RANGES_US = 7.0, RANGES_TOKEN_US = 0.0227;

/* A tile, and the number of K ranges of each tile: 1 for whole tiles, 0 for stream-K (gemm/schedule.cuh). */
struct gemm_plan {
  int tile, splits;
};

} // namespace yk_w4a8

#endif
