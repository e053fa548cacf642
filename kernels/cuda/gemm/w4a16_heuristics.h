/* w4a16_heuristics.h - which tiles of the W4A16 GEMM are compiled, and every fitted constant of the estimates that
 * choose among them.
 *
 * The constants were fitted to the times of plans on an H200, in rows of equal GEMMs with cold weights. They are the
 * same on every machine, so that a plan is a function of the shape and the number of multiprocessors; taken one by one
 * they mean little. To time all plans, and to search constants whose choices are slower than the fastest plans by the
 * least, on average over shapes and numbers of tokens:
 *
 *   bench_linear --plans --m 1,2,4,8,16,24,32,48,64,96,128,192,256,512,1024,2048,4096               (on the GPU)
 *   bench_linear --fit bench/results/linear_plans_h200.txt --fit-steps 300000 --seed 8              (anywhere)
 *
 * The first command also prints how much slower a shape gets when a tile is left out: a tile stays while that is 2 %
 * at a number of tokens that a user meets. The second prints a table such as the one below; its file keeps the plans
 * within 30 % of the fastest. Constants are to be judged in a model (yoke bench), not by that search alone: the best
 * plan of a row of equal GEMMs can lose where other kernels stand between. So did the constants that the search finds
 * now: in isolation they choose plans closer to the fastest by 0.4 % on average, and prefill in steps of 2,048 tokens
 * is 2.7 % slower, for stream-K at the down projection (bench/LOG.md). */
#ifndef YK_KERNELS_CUDA_GEMM_W4A16_HEURISTICS_H
#define YK_KERNELS_CUDA_GEMM_W4A16_HEURISTICS_H

namespace yk_gemm {

/* What a thread block takes of its multiprocessor: half of it; so much that a norm or an all-reduce fits beside it,
 * but no other GEMM; all of it. */
enum class occupancy { HALF, MOST, ALL };

/* yk_w4a16_plan.kernel, and what its other fields mean. */
enum plan_kernel {
  PLAN_SMALL_BATCH, /* tile: of SMALL_BATCH_SHAPES; slice_warps: warps of a K slice; splits: blocks of a cluster */
  PLAN_WGMMA /* tile: of WGMMA_SHAPES; splits: of each tile along K (split-K), 1 for whole tiles, 0 for stream-K */
};

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* The groups of scales that a tile is compiled for. Groups of 128 and more, which nearly all AWQ models have, get every
 * tile that earns its place; groups of 64 and 32 do without those that are worth 7 % at most and 0.6 % on average. */
enum class scale_groups { ANY, FROM_128 };

/* Of the kernel for up to 32 tokens. */
struct small_batch_shape {
  int n;      /* tile N: tokens, a multiple of 8 */
  int panels; /* of 16 columns that a consumer warp holds */
  occupancy taken;
  scale_groups of;
};
constexpr small_batch_shape SMALL_BATCH_SHAPES[] = {
    {8, 1, occupancy::HALF, scale_groups::FROM_128}, {8, 2, occupancy::HALF, scale_groups::ANY},
    {8, 3, occupancy::HALF, scale_groups::ANY},      {16, 1, occupancy::HALF, scale_groups::FROM_128},
    {16, 2, occupancy::HALF, scale_groups::ANY},     {16, 3, occupancy::MOST, scale_groups::ANY},
    {24, 2, occupancy::HALF, scale_groups::ANY},     {24, 2, occupancy::MOST, scale_groups::FROM_128},
    {32, 1, occupancy::HALF, scale_groups::ANY},
};
constexpr int N_SMALL_BATCH_SHAPES = sizeof SMALL_BATCH_SHAPES / sizeof *SMALL_BATCH_SHAPES;

/* Of the wgmma kernel, by rising tile N. Tile M is 64 columns for each warpgroup and each of its wgmma.
 *
 * Tiles of up to 64 tokens take half of a multiprocessor even where a tile that takes all of it is faster in a row of
 * equal GEMMs: in a model, where other kernels stand between, the latter is slower. Three warpgroups or two wgmma
 * each do not fit in the registers of a half. Tiles of 192 columns fill the GPU where tiles of 128 leave a partial
 * wave. Multicast is for tiles of 256 tokens, which the bandwidth of x would bound; smaller ones lose by it. */
struct wgmma_shape {
  int n;          /* tile N: tokens */
  int warpgroups; /* consumers */
  int wgmma_m;    /* tiles of 64 columns that a warpgroup holds */
  int cluster;    /* thread blocks that share their tokens by multicast */
  occupancy taken;
  scale_groups of;

  constexpr int m() const
  {
    return 64 * warpgroups * wgmma_m;
  }
};
constexpr wgmma_shape WGMMA_SHAPES[] = {
    {16, 2, 1, 1, occupancy::HALF, scale_groups::FROM_128}, {32, 2, 1, 1, occupancy::HALF, scale_groups::ANY},
    {64, 2, 1, 1, occupancy::HALF, scale_groups::ANY},      {128, 2, 1, 1, occupancy::ALL, scale_groups::ANY},
    {128, 3, 1, 1, occupancy::ALL, scale_groups::ANY},      {128, 2, 2, 1, occupancy::ALL, scale_groups::FROM_128},
    {256, 2, 1, 2, occupancy::ALL, scale_groups::FROM_128},
};
constexpr int N_WGMMA_SHAPES = sizeof WGMMA_SHAPES / sizeof *WGMMA_SHAPES;

/* ---- Estimated microseconds -------------------------------------------------------------------------------------- */

struct small_batch_costs {
  double panel_us;                        /* the memory's time for one panel, where every multiprocessor asks for one */
  double token_us;                        /* and for the x of one token and K tile */
  double alone_us;                        /* where the next GEMM cannot begin early */
  double tile_end_us;                     /* end of an output tile, ... */
  double k_slice_us;                      /* ... for each K slice of its warps, ... */
  double panel_token_us;                  /* ... and for each panel and token */
  double exchange_us;                     /* of partial sums between the two thread blocks of a cluster */
  double k_tile_us[N_SMALL_BATCH_SHAPES]; /* a warp's time for one K tile */
};

struct wgmma_costs {
  double start_us;                      /* of any plan, against the estimates of the kernel for few tokens */
  double small_start_us;                /* more, for tiles of up to 64 tokens */
  double cluster_start_us;              /* more, where thread blocks share their tokens */
  double tile_end_byte_us;              /* for each byte of a tile's accumulators */
  double peer_us;                       /* for each thread block but one that shares a tile */
  double split_k_us, split_k_byte_us;   /* where every tile is split alike, and for each byte */
  double stream_k_us, stream_k_byte_us; /* where K ranges ignore the ends of tiles, and for each byte ... */
  double stream_k_peer_byte_us;         /* ... of each of up to two peers */
  double k_tile_us[N_WGMMA_SHAPES];     /* of one K tile of a tile */
};

struct gemm_costs {
  small_batch_costs small_batch;
  wgmma_costs wgmma;
};

constexpr gemm_costs GEMM_COSTS = {
    {0.0346, 0.98e-3, 1.0, 1.39, 0.105, 3.9e-3, 0.155, {0.330, 0.458, 0.470, 0.338, 0.558, 0.507, 0.747, 0.660, 0.448}},
    {1.20,
     0.17,
     0.64,
     25.8e-6,
     0.17,
     0.44,
     38e-6,
     0.49,
     75e-6,
     8e-6,
     {0.360, 0.418, 0.473, 0.613, 0.920, 1.187, 1.175}},
};

} // namespace yk_gemm

#endif
