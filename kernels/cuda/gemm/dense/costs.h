/* costs.h - costs of parts of the WNA16 GEMM. The estimate of a plan's time is a sum of them.
 *
 * The costs of a GPU type are a data file for each width of weights, costs/<type>_<bits>_bits.inc, of lines
 *
 *   COST(field, value)     COSTS(field, a value for each tile)
 *
 * and a line in costs.cu, which also selects the costs for GPUs that have not been fitted. To fit the costs of a GPU
 * type, time all plans on a GPU of that type, as series of equal GEMMs whose weights are not in the cache. Then search
 * for costs: the plans with the lowest estimates must be as little slower as possible than the fastest plans, on
 * average over shapes and numbers of tokens:
 *
 *   bench_linear --plans --m 1,2,4,8,16,24,32,48,64,96,128,192,256,512,1024,2048,4096               (on the GPU)
 *   bench_linear --fit bench/results/linear_plans_h200.txt --fit-steps 300000 --seed 8              (anywhere)
 *
 * The first command also prints, for each tile, how much slower the best plan without this tile is: a tile stays if
 * that is 2 % or more for a number of tokens that occurs in use. The second prints the data file; its input file holds
 * the plans within 30 % of the fastest, except those whose split of K uses a cluster of thread blocks.
 * linear_plans_clusters_h200.txt includes those, but holds only the fastest few plans of more shapes.
 *
 * A plan is a function of the GPU's type, the shape, the number of multiprocessors and the number of clusters that run
 * at once; single costs have little meaning. Costs must be judged in a model (yoke bench), not by that search alone:
 * the best plan of a row of equal GEMMs can lose if other kernels run between the GEMMs (bench/log). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_COSTS_H
#define YK_KERNELS_CUDA_GEMM_DENSE_COSTS_H

#include "kernels/cuda/gemm/encodings.h"
#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* Terms of small_batch_us. */
struct small_batch_costs {
  double panel_us;                        /* memory time of one panel, if every multiprocessor loads one */
  double token_us;                        /* memory time of the x of one token in one K tile */
  double alone_us;                        /* extra, if no block of the next GEMM fits on the same multiprocessor:
                                           * occupancy MOST */
  double tile_end_us;                     /* end of an output tile, ... */
  double k_slice_us;                      /* ... for each K slice of its warps, ... */
  double panel_token_us;                  /* ... and for each panel and token */
  double exchange_us;                     /* exchange of partial sums between the two thread blocks of a cluster */
  double k_tile_us[N_SMALL_BATCH_SHAPES]; /* a warp's time for one K tile */
};

/* Terms of wgmma_us. */
struct wgmma_costs {
  double start_us;                         /* start of any plan, relative to the small-batch kernel */
  double small_start_us;                   /* extra, for tiles of up to 64 tokens */
  double cluster_start_us;                 /* extra, if thread blocks share their tokens by multicast */
  double tile_end_byte_us;                 /* for each byte of a tile's accumulators */
  double peer_us;                          /* for each further thread block that shares a tile */
  double split_k_us, split_k_byte_us;      /* if every tile is split equally, and for each byte */
  double cluster_peer_us, cluster_byte_us; /* if the peers are a cluster, and for each byte that a block sends */
  double stream_k_us, stream_k_byte_us;    /* if K ranges ignore the ends of tiles, and for each byte ... */
  double stream_k_peer_byte_us;            /* ... of each of up to two peers */
  double k_tile_us[N_WGMMA_SHAPES];        /* one K tile of a tile */
};

struct gemm_costs {
  small_batch_costs small_batch;
  wgmma_costs wgmma;
};

/* Costs for a GPU, by its name, and an encoding of weights. */
const gemm_costs &costs_of(const yk_gemm_gpu &gpu, yk_gemm_encoding encoding);

} // namespace yk_gemm

#endif
