#include "engine/machine/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "kernels/cuda/latent/scratch.h"
#include "kernels/cuda/layout/abilities.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/moe/scratch.h"
#include "model/model.h"
#include "parallel/comm_levels.h"

yk_status yk_gpus_measure(const yk_checkpoint *checkpoint, const yk_settings *settings, int rank, yk_model_memory *out,
                          yk_err *err)
{
  int64_t row_bytes = settings->hidden_size * (int64_t)yk_dtype_bytes(settings->dtype);
  const yk_rank_place place = yk_rank_place_in(&settings->world, rank);
  yk_model_device dev = {.dtype = settings->dtype,
                         .abilities = &yk_cuda_abilities,
                         .linear_bytes = yk_cuda_linear_bytes,
                         .linear_keeps = yk_cuda_linear_keeps,
                         .linear_divides = yk_cuda_linear_divides,
                         .mixture_scratch_bytes = yk_cuda_mixture_scratch_bytes,
                         .latent_scratch_bytes = yk_cuda_latent_scratch_bytes,
                         .needs_kv_staging = true};
  YK_TRY(yk_model_measure(checkpoint, &settings->limits, &dev, &place, out, err));
  if (place.stage > 0) out->workspace_bytes += settings->limits.step.max_tokens * row_bytes; /* parallel/stage_ends.h */
  out->workspace_bytes += yk_cuda_device_own_bytes(&settings->limits.step);
  if (!settings->nccl_only)
    out->workspace_bytes += yk_levels_device_bytes(place.n_ranks, !yk_world_is_whole(&settings->world),
                                                   settings->limits.step.max_tokens, row_bytes);
  return YK_OK;
}

yk_status yk_gpus_refuse(yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "device cuda: this build runs on CPU ranks only; use cpu or auto");
}

yk_status yk_gpus_check_list(const char *what, const int *ids, int n, yk_err *err)
{
  int n_gpus = yk_gpus_count();
  if (!yk_gpus_are_built()) return yk_err_set(err, YK_E_UNSUPPORTED, "%s: this build runs on CPU ranks only", what);
  if (n < 1 || n > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "%s: expected 1 to %d GPUs, found %d", what, YK_MAX_RANKS, n);
  YK_TRY(yk_check_array("device_ids", ids, (size_t)n, err));
  for (int i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= n_gpus)
      return yk_err_set(err, YK_E_INVAL, "%s: GPU %d: this machine has %d", what, ids[i], n_gpus);
    for (int j = 0; j < i; j++)
      if (ids[i] == ids[j]) return yk_err_set(err, YK_E_INVAL, "%s: GPU %d is named twice", what, ids[i]);
  }
  return YK_OK;
}

bool yk_gpus_may_be_shared(void)
{
  const char *value = getenv("YOKE_SHARED_GPUS");
  return value && strcmp(value, "1") == 0;
}

#ifdef YOKE_HAVE_CUDA

#include "kernels/cuda/cuda_device.h"
#ifdef YOKE_HAVE_NCCL
#include "parallel/comm_auto.h"
#endif

bool yk_gpus_are_built(void)
{
  return true;
}

int yk_gpus_count(void)
{
  return yk_cuda_device_count();
}

yk_status yk_gpus_describe(int ordinal, yk_device_info *out, yk_err *err)
{
  yk_cuda_device_info info;
  YK_TRY(yk_cuda_device_query(ordinal, &info, err));
  *out = (yk_device_info){
      .kind = YK_DEVICE_CUDA, .id = ordinal, .free_bytes = info.free_bytes, .total_bytes = info.total_bytes};
  snprintf(out->name, sizeof out->name, "%s", info.name);
  return YK_OK;
}

yk_status yk_gpus_uuid(int ordinal, char uuid[YK_GPU_UUID_BYTES], yk_err *err)
{
  yk_cuda_device_info info;
  YK_TRY(yk_cuda_device_query(ordinal, &info, err));
  snprintf(uuid, YK_GPU_UUID_BYTES, "%s", info.uuid);
  return YK_OK;
}

/* A plan may have more ranks than the machine has GPUs: the others are as the first. */
static yk_status query_of_rank(const yk_settings *settings, int rank, yk_cuda_device_info *out, yk_err *err)
{
  const int id = settings->device_ids[rank];
  return yk_cuda_device_query(id < yk_cuda_device_count() ? id : 0, out, err);
}

yk_status yk_gpus_check_hopper(const yk_settings *settings, const char *option, const char *supported, yk_err *err)
{
  for (int i = 0; i < settings->world.n_local; i++) {
    yk_cuda_device_info info;
    YK_TRY(query_of_rank(settings, settings->world.first_rank + i, &info, err));
    if (info.compute_major == 9 && info.compute_minor == 0) continue;
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: expected GPUs of compute capability 9.0, found %s (%d.%d); supported: %s", option, info.name,
                      info.compute_major, info.compute_minor, supported);
  }
  return YK_OK;
}

yk_status yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err)
{
  const int64_t n_sharing =
      yk_gpus_may_be_shared() ? yk_ceil_div_i64(settings->world.n_ranks, yk_cuda_device_count()) : 1;
  *n_bytes = INT64_MAX;
  for (int i = 0; i < settings->world.n_local; i++) {
    yk_cuda_device_info info;
    YK_TRY(query_of_rank(settings, settings->world.first_rank + i, &info, err));
    int64_t kept_free = (int64_t)((double)info.total_bytes * (1 - utilization));
    *n_bytes = yk_min_i64(*n_bytes, yk_max_i64(0, info.free_bytes - kept_free) / n_sharing);
  }
  return YK_OK;
}

static int stage_of(const yk_settings *s, int i)
{
  return yk_world_stage_of(&s->world, s->world.first_rank + i);
}

/* Kernels of one group's ranks wait for each other: on a GPU that both ranks share, one may keep the other out. Between
 * processes the GPU takes turns. */
static yk_status check_ordinals(const yk_settings *s, yk_err *err)
{
  int n_gpus = yk_cuda_device_count();
  const int *ids = s->device_ids + s->world.first_rank;
  const bool is_shared = yk_gpus_may_be_shared();
  if (s->world.n_local > n_gpus && !is_shared)
    return yk_err_set(err, YK_E_CAPACITY, "%d ranks need as many GPUs, this machine has %d", s->world.n_local, n_gpus);
  for (int i = 0; i < s->world.n_local; i++) {
    if (ids[i] < 0 || ids[i] >= n_gpus)
      return yk_err_set(err, YK_E_INVAL, "devices: expected ordinals 0 to %d, found %d", n_gpus - 1, ids[i]);
    for (int other = 0; other < i; other++)
      if (ids[other] == ids[i] && !(is_shared && stage_of(s, i) != stage_of(s, other)))
        return yk_err_set(err, YK_E_INVAL, "devices: GPU %d is named twice; name a different GPU for each rank",
                          ids[i]);
  }
  return YK_OK;
}

yk_status yk_gpus_open(const yk_settings *settings, yk_device **devs, yk_err *err)
{
  const int *ids = settings->device_ids + settings->world.first_rank;
  YK_TRY(check_ordinals(settings, err));
  for (int i = 0; i < settings->world.n_local; i++)
    YK_TRY(yk_cuda_device_create(ids[i], settings->dtype, &settings->limits.step, &devs[i], err));
  return YK_OK;
}

yk_status yk_gpus_connect(const yk_settings *settings, const yk_exchange *exchange, const yk_wires *wires,
                          yk_device *const *devs, yk_comm **comms, yk_err *err)
{
#ifdef YOKE_HAVE_NCCL
  yk_comm_auto_options options = {.max_rows = settings->limits.step.max_tokens,
                                  .hidden = settings->hidden_size,
                                  .step_limit_s = settings->step_timeout_s,
                                  .nccl_only = settings->nccl_only};
  return yk_comm_auto_create(&settings->world, exchange, wires, devs, &options, comms, err);
#else
  (void)exchange, (void)wires;
  if (settings->world.n_ranks > 1)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%d ranks on GPUs need NCCL, which this build was made without",
                      settings->world.n_ranks);
  return yk_comm_local_create(&settings->world, devs, comms, err);
#endif
}

const char *yk_gpus_all_reduce_route(const yk_comm *comm, int32_t n_rows)
{
  if (comm->n_ranks == 1) return "local";
#ifdef YOKE_HAVE_NCCL
  if (yk_comm_auto_levels_route(comm, n_rows) != YK_LEVELS_NONE) return "two-level";
  switch (yk_comm_auto_route(comm, n_rows)) {
  case YK_P2P_ONE_SHOT: return "one-shot";
  case YK_P2P_TWO_SHOT: return "two-shot";
  case YK_P2P_NONE: break;
  }
#endif
  (void)n_rows;
  return "nccl";
}

#else

bool yk_gpus_are_built(void)
{
  return false;
}

int yk_gpus_count(void)
{
  return 0;
}

yk_status yk_gpus_describe(int ordinal, yk_device_info *out, yk_err *err)
{
  (void)ordinal, (void)out;
  return yk_gpus_refuse(err);
}

yk_status yk_gpus_uuid(int ordinal, char uuid[YK_GPU_UUID_BYTES], yk_err *err)
{
  (void)ordinal;
  uuid[0] = '\0';
  return yk_gpus_refuse(err);
}

yk_status yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err)
{
  (void)settings, (void)utilization;
  *n_bytes = 0;
  return yk_gpus_refuse(err);
}

yk_status yk_gpus_check_hopper(const yk_settings *settings, const char *option, const char *supported, yk_err *err)
{
  (void)settings, (void)option, (void)supported;
  return yk_gpus_refuse(err);
}

yk_status yk_gpus_open(const yk_settings *settings, yk_device **devs, yk_err *err)
{
  (void)settings, (void)devs;
  return yk_gpus_refuse(err);
}

yk_status yk_gpus_connect(const yk_settings *settings, const yk_exchange *exchange, const yk_wires *wires,
                          yk_device *const *devs, yk_comm **comms, yk_err *err)
{
  (void)settings, (void)exchange, (void)wires, (void)devs, (void)comms;
  return yk_gpus_refuse(err);
}

const char *yk_gpus_all_reduce_route(const yk_comm *comm, int32_t n_rows)
{
  (void)comm, (void)n_rows;
  return "local";
}

#endif
