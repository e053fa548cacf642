/* costs.h - what the estimates add up that choose among plans of the WNA16 GEMM.
 *
 * The costs of a GPU type are a data file for each width of weights, costs/<type>_<bits>_bits.inc, of lines
 *
 *   COST(field, value)     COSTS(field, a value for each tile)
 *
 * and a line in costs.cu, which also says whose costs serve GPUs that nobody has fitted. To fit a type: time all plans
 * on such a GPU, in rows of equal GEMMs with cold weights, then search costs whose choices are slower than the fastest
 * plans by the least, on average over shapes and numbers of tokens:
 *
 *   bench_linear --plans --m 1,2,4,8,16,24,32,48,64,96,128,192,256,512,1024,2048,4096               (on the GPU)
 *   bench_linear --fit bench/results/linear_plans_h200.txt --fit-steps 300000 --seed 8              (anywhere)
 *
 * The first command also prints how much slower a shape gets when a tile is left out: a tile stays while that is 2 %
 * at a number of tokens that a user meets. The second prints the data file; the file that it reads keeps the plans
 * within 30 % of the fastest, without the plans whose peers are a cluster. linear_plans_clusters_h200.txt has those
 * too, but only the fastest few plans of more shapes.
 *
 * A plan is a function of the GPU's type, the shape, the number of multiprocessors and how many clusters run at once;
 * taken one by one costs mean little. Costs are to be judged in a model (yoke bench), not by that search alone: the
 * best plan of a row of equal GEMMs can lose where other kernels stand between (bench/log). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_COSTS_H
#define YK_KERNELS_CUDA_GEMM_DENSE_COSTS_H

#include "kernels/cuda/gemm/encodings.h"
#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/gemm/types.h"

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

/* Costs of a GPU by its name, and of an encoding of weights. */
const gemm_costs &costs_of(const yk_wna16_gpu &gpu, yk_wna16_encoding encoding);

} // namespace yk_gemm

#endif
