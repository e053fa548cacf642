/* tiles.h - the compiled tiles of the WNA16 GEMM. */
#ifndef YK_KERNELS_CUDA_GEMM_TILES_H
#define YK_KERNELS_CUDA_GEMM_TILES_H

namespace yk_gemm {

/* The part of a multiprocessor's shared memory and registers that a thread block takes (occupancy.cuh): half; most, so
 * that a norm or an all-reduce still fits, but no other GEMM; all. */
enum class occupancy { HALF, MOST, ALL };

/* Values of yk_gemm_plan.kernel, and the meaning of the plan's other fields with each. */
enum plan_kernel {
  /* tile: index into SMALL_BATCH_SHAPES; slice_warps: warps of a K slice; splits: thread blocks of a cluster, which
   * split K */
  PLAN_SMALL_BATCH,
  /* tile: index into WGMMA_SHAPES; splits: K ranges of each tile (split-K), 1 for whole tiles, 0 for stream-K */
  PLAN_WGMMA,
  /* The same, but the thread blocks that share a tile are a cluster; splits: 2 and more */
  PLAN_WGMMA_CLUSTER,
  /* tile: index into SLICED_SHAPES; splits: K ranges of each tile, whole slices of K (dense/sliced.cuh) */
  PLAN_SLICED
};

/* The sizes of scale groups, in inputs, that a tile is compiled for: all; multiples of 128 (or one group for all of k),
 * and all of 4-bit floats; none. Groups of 128 and more, which nearly all AWQ models have, get every tile with a
 * gain; groups of 64 and 32 omit tiles with small gains (bench_linear --plans prints the gains). */
enum class scale_groups { ANY, FROM_128, NONE };

/* Operations that the kernel for up to 32 tokens may fuse with the GEMM (dense/small_batch_fusions.cuh). */
enum class fusion { NONE, NORM, SUM };

/* Tiles of the kernel for up to 32 tokens. */
struct small_batch_shape {
  int n;      /* tile N: tokens, a multiple of 8 */
  int panels; /* panels of 16 columns per consumer warp */
  occupancy taken;
  scale_groups int4_groups; /* with weights of 4 bits */
  scale_groups byte_groups; /* with weights of 8 bits */
};
constexpr small_batch_shape SMALL_BATCH_SHAPES[] = {
    {8, 1, occupancy::HALF, scale_groups::FROM_128, scale_groups::FROM_128},
    {8, 2, occupancy::HALF, scale_groups::ANY, scale_groups::ANY},
    {8, 3, occupancy::HALF, scale_groups::ANY, scale_groups::FROM_128},
    {16, 1, occupancy::HALF, scale_groups::FROM_128, scale_groups::FROM_128},
    {16, 2, occupancy::HALF, scale_groups::ANY, scale_groups::ANY},
    {16, 3, occupancy::MOST, scale_groups::ANY, scale_groups::FROM_128},
    {24, 2, occupancy::HALF, scale_groups::ANY, scale_groups::FROM_128},
    {24, 2, occupancy::MOST, scale_groups::FROM_128, scale_groups::NONE},
    {32, 1, occupancy::HALF, scale_groups::ANY, scale_groups::FROM_128},
};
constexpr int N_SMALL_BATCH_SHAPES = sizeof SMALL_BATCH_SHAPES / sizeof *SMALL_BATCH_SHAPES;

/* Tiles of the wgmma kernel, by rising tile N. Tile M is 64 columns for each warpgroup and each of its wgmma.
 *
 * Tiles of up to 64 tokens take half of a multiprocessor even if a tile that takes all of it is faster in a row of
 * equal GEMMs: in a model, with other kernels between the GEMMs, the latter is slower. Three warpgroups or two wgmma
 * each do not fit in the registers of a half. Weights of 8 bits also have tiles of 64 tokens that take all of it: a
 * half holds too few of their stages to keep the memory busy. Tiles of 192 columns fill the GPU where tiles of 128
 * leave a partial wave. Multicast is for tiles of 256 tokens, which the bandwidth of x would bound; smaller tiles lose
 * by it. */
struct wgmma_shape {
  int n;          /* tile N: tokens */
  int warpgroups; /* consumers */
  int wgmma_m;    /* tiles of 64 columns that a warpgroup holds */
  int cluster;    /* thread blocks that share their tokens by multicast */
  occupancy taken;
  scale_groups int4_groups; /* with weights of 4 bits */
  scale_groups byte_groups; /* with weights of 8 bits */

  constexpr int m() const
  {
    return 64 * warpgroups * wgmma_m;
  }
};
constexpr wgmma_shape WGMMA_SHAPES[] = {
    {16, 2, 1, 1, occupancy::HALF, scale_groups::FROM_128, scale_groups::NONE},
    {32, 2, 1, 1, occupancy::HALF, scale_groups::ANY, scale_groups::ANY},
    {64, 2, 1, 1, occupancy::HALF, scale_groups::ANY, scale_groups::FROM_128},
    {64, 2, 1, 1, occupancy::ALL, scale_groups::NONE, scale_groups::FROM_128},
    {128, 2, 1, 1, occupancy::ALL, scale_groups::ANY, scale_groups::ANY},
    {128, 3, 1, 1, occupancy::ALL, scale_groups::ANY, scale_groups::FROM_128},
    {128, 2, 2, 1, occupancy::ALL, scale_groups::FROM_128, scale_groups::NONE},
    {256, 2, 1, 2, occupancy::ALL, scale_groups::FROM_128, scale_groups::FROM_128},
};
constexpr int N_WGMMA_SHAPES = sizeof WGMMA_SHAPES / sizeof *WGMMA_SHAPES;

/* Tiles of the kernel with a fixed division of K (dense/sliced_kernel.cuh), of 64 columns for each warpgroup. */
struct sliced_shape {
  int n;          /* tile N: tokens */
  int warpgroups; /* consumers */
  occupancy taken;
};
constexpr sliced_shape SLICED_SHAPES[] = {
    {16, 2, occupancy::HALF}, {32, 2, occupancy::HALF}, {64, 2, occupancy::HALF}, {16, 3, occupancy::MOST},
    {32, 3, occupancy::MOST}, {64, 3, occupancy::MOST}, {128, 2, occupancy::ALL},
};
constexpr int N_SLICED_SHAPES = sizeof SLICED_SHAPES / sizeof *SLICED_SHAPES;

} // namespace yk_gemm

#endif
