/* gpu_places.h - the host and the GPU of each rank of a run on GPUs: which ranks may use each other's memory, and
 * whether NCCL can connect them all. */
#ifndef YK_PARALLEL_GPU_PLACES_H
#define YK_PARALLEL_GPU_PLACES_H

#include <stdbool.h>

#include "kernels/device.h"
#include "parallel/exchange.h"
#include "parallel/world.h"

typedef struct yk_gpu_place {
  char host[64]; /* the host's identity as in NCCL: NCCL_HOSTID, else the host's boot */
  char gpu[48];  /* as nvidia-smi prints it */
} yk_gpu_place;

typedef struct yk_gpu_places {
  int n_ranks;
  bool has_nccl; /* every process can load NCCL */
  yk_gpu_place of_rank[YK_MAX_RANKS];
} yk_gpu_places;

/* yk_gpu_places_gather - every process calls it. devs [n_local] CUDA devices. Errors: YK_E_DEVICE, YK_E_NOMEM, those of
 *   the exchange. */
yk_status yk_gpu_places_gather(const yk_world *world, const yk_exchange *exchange, yk_device *const *devs,
                               yk_gpu_places *out, yk_err *err);

/* yk_gpu_places_host_ranks - number of ranks per host, if each host has the same number of consecutive ranks among the
 *   n ranks from `first` on; n if all are on one host; 0 if hosts have different numbers. */
int yk_gpu_places_host_ranks(const yk_gpu_places *places, int first, int n);

/* yk_gpu_places_share_gpus - whether two ranks of a host have the same GPU, which NCCL refuses. */
bool yk_gpu_places_share_gpus(const yk_gpu_places *places);

#endif
