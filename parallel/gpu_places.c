#include "parallel/gpu_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_device.h"
#include "parallel/nccl_functions.h"

/* One process's message. */
typedef struct own_places {
  int32_t first, n;
  int32_t has_nccl;
  yk_gpu_place ranks[YK_MAX_RANKS];
} own_places;

static void name_host(char *host, size_t n_bytes)
{
  const char *id = getenv("NCCL_HOSTID");
  snprintf(host, n_bytes, "%s", id ? id : "");
  FILE *file = id ? NULL : fopen("/proc/sys/kernel/random/boot_id", "r");
  if (!file) return;
  if (fgets(host, (int)n_bytes, file)) host[strcspn(host, "\n")] = '\0';
  fclose(file);
}

static yk_status find_own(const yk_world *world, yk_device *const *devs, own_places *own, yk_err *err)
{
  yk_nccl_functions functions;
  own->first = world->first_rank;
  own->n = world->n_local;
  own->has_nccl = yk_nccl_load(&functions, NULL) == YK_OK;
  for (int i = 0; i < world->n_local; i++) {
    yk_cuda_device_info info;
    YK_TRY(yk_cuda_device_query(yk_cuda_device_ordinal(devs[i]), &info, err));
    name_host(own->ranks[i].host, sizeof own->ranks[i].host);
    snprintf(own->ranks[i].gpu, sizeof own->ranks[i].gpu, "%s", info.uuid);
  }
  return YK_OK;
}

static yk_status merge(const own_places *all, int n_processes, yk_gpu_places *out, yk_err *err)
{
  out->has_nccl = true;
  for (int p = 0; p < n_processes; p++) {
    const own_places *o = &all[p];
    if (o->first < 0 || o->n < 0 || o->n > out->n_ranks || o->first > out->n_ranks - o->n)
      return yk_err_set(err, YK_E_COMM, "process %d: places of ranks %d and following: expected %d ranks in all", p,
                        o->first, out->n_ranks);
    out->has_nccl = out->has_nccl && o->has_nccl;
    memcpy(out->of_rank + o->first, o->ranks, (size_t)o->n * sizeof *o->ranks);
  }
  return YK_OK;
}

yk_status yk_gpu_places_gather(const yk_world *world, const yk_exchange *exchange, yk_device *const *devs,
                               yk_gpu_places *out, yk_err *err)
{
  const size_t n_processes = (size_t)exchange->n_processes;
  own_places *own = calloc(1, sizeof *own), *all = calloc(n_processes, sizeof *all);
  *out = (yk_gpu_places){.n_ranks = world->n_ranks};
  yk_status status = own && all ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the places of ranks");
  if (status == YK_OK) status = find_own(world, devs, own, err);
  if (status == YK_OK) status = exchange->all_gather(exchange, own, sizeof *own, all, err);
  if (status == YK_OK) status = merge(all, exchange->n_processes, out, err);
  free(own);
  free(all);
  return status;
}

static bool share_host(const yk_gpu_places *places, int a, int b)
{
  return strcmp(places->of_rank[a].host, places->of_rank[b].host) == 0;
}

int yk_gpu_places_host_ranks(const yk_gpu_places *places, int first, int n)
{
  int n_local = 1;
  while (n_local < n && share_host(places, first, first + n_local)) n_local++;
  if (n % n_local != 0) return 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (share_host(places, first + i, first + j) != (i / n_local == j / n_local)) return 0;
  return n_local;
}

bool yk_gpu_places_share_gpus(const yk_gpu_places *places)
{
  for (int i = 0; i < places->n_ranks; i++)
    for (int j = 0; j < i; j++)
      if (share_host(places, i, j) && strcmp(places->of_rank[i].gpu, places->of_rank[j].gpu) == 0) return true;
  return false;
}
