/* tiles.h - the compiled tiles of the grouped GEMM, and the condition for each. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_TILES_H
#define YK_KERNELS_CUDA_GEMM_GROUPED_TILES_H

#include "kernels/cuda/gemm/tiles.h"

namespace yk_gemm {

/* Tiles of the kernel for fewer rows than matrices. */
struct grouped_few_shape {
  int n;      /* tile N: rows */
  int panels; /* panels of 16 columns per consumer warp */
  occupancy taken;
};
constexpr grouped_few_shape GROUPED_FEW_SHAPES[] = {{8, 3, occupancy::HALF}};
constexpr int N_GROUPED_FEW_SHAPES = sizeof GROUPED_FEW_SHAPES / sizeof *GROUPED_FEW_SHAPES;

/* Tiles of the wgmma kernel: all have 256 columns, in GROUPED_WARPGROUPS * GROUPED_WGMMA_M * 64. The rows of a matrix
 * beyond whole tiles are multiplied by the narrowest instruction that holds them. Two panels per warp halve the cost of
 * a K tile other than its products, and leave registers for more producer warps. most_rows: maximum average number of
 * rows per matrix for the tile: hardly any matrix has a second tile then, which would read weights again. */
struct grouped_wgmma_shape {
  int n; /* tile N: rows */
  int most_rows;
};
constexpr grouped_wgmma_shape GROUPED_WGMMA_SHAPES[] = {{16, 5}, {48, 36}, {80, 64}, {160, 1 << 30}};
constexpr int N_GROUPED_WGMMA_SHAPES = sizeof GROUPED_WGMMA_SHAPES / sizeof *GROUPED_WGMMA_SHAPES;
constexpr int GROUPED_WARPGROUPS = 2, GROUPED_WGMMA_M = 2;

} // namespace yk_gemm

#endif
