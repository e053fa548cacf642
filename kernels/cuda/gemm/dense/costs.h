/* heuristics.h - every fitted constant of the estimates that choose among plans of the WNA16 GEMM.
 *
 * The constants were fitted to the times of plans on an H200, in rows of equal GEMMs with cold weights. They are the
 * same on every machine, so that a plan is a function of the shape, the number of multiprocessors and how many clusters
 * run at once; taken one by one they mean little. To time all plans, and to search constants whose choices are slower
 * than the fastest plans by the least, on average over shapes and numbers of tokens:
 *
 *   bench_linear --plans --m 1,2,4,8,16,24,32,48,64,96,128,192,256,512,1024,2048,4096               (on the GPU)
 *   bench_linear --fit bench/results/linear_plans_h200.txt --fit-steps 300000 --seed 8              (anywhere)
 *
 * The first command also prints how much slower a shape gets when a tile is left out: a tile stays while that is 2 %
 * at a number of tokens that a user meets. The second prints a table such as the one below; its file keeps the plans
 * within 30 % of the fastest, without the plans whose peers are a cluster. linear_plans_clusters_h200.txt has those
 * too, but only the fastest few plans of more shapes. Of the 4-bit constants, start_us, small_start_us,
 * cluster_start_us, cluster_peer_us, cluster_byte_us and k_tile_us of the first three wgmma tiles were fitted to both
 * files.
 *
 * Constants are to be judged in a model (yoke bench), not by that search alone: the best plan of a row of equal GEMMs
 * can lose where other kernels stand between (bench/log). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_HEURISTICS_H
#define YK_KERNELS_CUDA_GEMM_DENSE_HEURISTICS_H

#include "kernels/cuda/gemm/tiles.h"

namespace yk_gemm {

/* What small_batch_us adds up. */
struct small_batch_costs {
  double panel_us;                        /* the memory's time for one panel, where every multiprocessor asks for one */
  double token_us;                        /* the memory's time for the x of one token in one K tile */
  double alone_us;                        /* more, where the next GEMM cannot begin early: occupancy MOST */
  double tile_end_us;                     /* end of an output tile, ... */
  double k_slice_us;                      /* ... for each K slice of its warps, ... */
  double panel_token_us;                  /* ... and for each panel and token */
  double exchange_us;                     /* of partial sums between the two thread blocks of a cluster */
  double k_tile_us[N_SMALL_BATCH_SHAPES]; /* a warp's time for one K tile */
};

/* What wgmma_us adds up. */
struct wgmma_costs {
  double start_us;                         /* of any plan, relative to the small-batch kernel's */
  double small_start_us;                   /* more, for tiles of up to 64 tokens */
  double cluster_start_us;                 /* more, where thread blocks share their tokens by multicast */
  double tile_end_byte_us;                 /* for each byte of a tile's accumulators */
  double peer_us;                          /* for each thread block but one that shares a tile */
  double split_k_us, split_k_byte_us;      /* where every tile is split alike, and for each byte */
  double cluster_peer_us, cluster_byte_us; /* where the peers are a cluster, and for each byte that a block sends */
  double stream_k_us, stream_k_byte_us;    /* where K ranges ignore the ends of tiles, and for each byte ... */
  double stream_k_peer_byte_us;            /* ... of each of up to two peers */
  double k_tile_us[N_WGMMA_SHAPES];        /* of one K tile of a tile */
};

struct gemm_costs {
  small_batch_costs small_batch;
  wgmma_costs wgmma;
};

/* Of weights of 4 bits. */
constexpr gemm_costs GEMM_COSTS = {
    {0.0346, 0.98e-3, 1.0, 1.39, 0.105, 3.9e-3, 0.155, {0.330, 0.458, 0.470, 0.338, 0.558, 0.507, 0.747, 0.660, 0.448}},
    {1.08,
     0.134,
     0.64,
     25.8e-6,
     0.17,
     0.44,
     38e-6,
     0.155,
     29e-6,
     0.49,
     75e-6,
     8e-6,
     {0.382, 0.411, 0.480, 0.473, 0.613, 0.920, 1.187, 1.175}},
};

/* Of weights of 8 bits: fitted to bench/results/linear_plans_int8_h200.txt. */
constexpr gemm_costs BYTES_GEMM_COSTS = {
    {0.0535,
     0.735e-3,
     0.906,
     1.52,
     0.109,
     3.3e-3,
     0.234,
     {0.441, 0.507, 0.446, 0.387, 0.794, 0.796, 1.23, 0.726, 0.473}},
    {0.793,
     0.143,
     0.758,
     29.9e-6,
     0.332,
     0.366,
     20.9e-6,
     0.28,
     14e-6,
     0.311,
     116e-6,
     10.4e-6,
     {0.335, 0.566, 0.668, 0.55, 0.645, 0.955, 1.26, 1.23}},
};

} // namespace yk_gemm

#endif
