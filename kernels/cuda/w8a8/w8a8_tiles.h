/* w8a8_tiles.h - which tiles of the W8A8 wgmma kernel are compiled, and the constants of the estimate that chooses
 * among them and among splits of K. The constants were read off times on an H200 (bench/LOG.md); taken one by one they
 * mean little. */
#ifndef YK_KERNELS_CUDA_W8A8_W8A8_TILES_H
#define YK_KERNELS_CUDA_W8A8_W8A8_TILES_H

#include "kernels/cuda/gemm/wna16_heuristics.h"

namespace yk_w8a8 {

/* Tiles of few tokens leave room for the kernel that quantises x: it starts while the GEMM before still runs. */
struct tile_shape {
  int n;       /* tokens */
  int cluster; /* thread blocks with neighbouring rows that share their tokens by multicast */
  yk_gemm::occupancy taken;
  double k_tile_us; /* of one K tile */
};
constexpr tile_shape TILES[] = {
    {16, 1, yk_gemm::occupancy::MOST, 0.38},
    {64, 1, yk_gemm::occupancy::MOST, 0.30},
    {128, 1, yk_gemm::occupancy::ALL, 0.40},
    {256, 2, yk_gemm::occupancy::ALL, 0.75},
};
constexpr int N_TILES = sizeof TILES / sizeof *TILES;

/* Of a split of K: for each range, and for each token of the tile. */
constexpr double RANGE_US = 0.4, EXCHANGE_TOKEN_US = 0.03;
constexpr double BYTES_PER_US = 4.35e6;

/* A tile, and the ranges into which the K of each tile is split alike; 1: not at all. */
struct gemm_plan {
  int tile, splits;
};

} // namespace yk_w8a8

#endif
