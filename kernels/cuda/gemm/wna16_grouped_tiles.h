/* wna16_grouped_tiles.h - which tiles of the grouped GEMM are compiled, and when each is taken. */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_TILES_H
#define YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_TILES_H

#include "kernels/cuda/gemm/wna16_tiles.h"

namespace yk_gemm {

/* Of the kernel for matrices of few rows. most_rows: of a matrix on average, for the tile to be taken. */
struct grouped_few_shape {
  int n;      /* tile N: rows */
  int panels; /* of 16 columns that a consumer warp holds */
  occupancy taken;
  int most_rows;
};
constexpr grouped_few_shape GROUPED_FEW_SHAPES[] = {{8, 3, occupancy::HALF, 7}};
constexpr int N_GROUPED_FEW_SHAPES = sizeof GROUPED_FEW_SHAPES / sizeof *GROUPED_FEW_SHAPES;

/* Of the wgmma kernel: all have tiles of 256 columns, in warpgroups * wgmma_m * 64. The rows that a matrix has beyond
 * whole tiles are multiplied by the narrowest instruction that holds them, in steps of step_n rows from least_n on.
 * Two panels a warp halve what a K tile costs beside its products, and leave registers for more producer warps. */
struct grouped_wgmma_shape {
  int n; /* tile N: rows */
  int warpgroups, wgmma_m;
  int least_n, step_n;
  int most_rows;
};
constexpr grouped_wgmma_shape GROUPED_WGMMA_SHAPES[] = {
    {32, 2, 2, 16, 16, 24}, {64, 4, 1, 64, 64, 56}, {128, 2, 2, 32, 32, 1 << 30}};
constexpr int N_GROUPED_WGMMA_SHAPES = sizeof GROUPED_WGMMA_SHAPES / sizeof *GROUPED_WGMMA_SHAPES;

} // namespace yk_gemm

#endif
