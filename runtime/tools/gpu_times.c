#include "tools/gpu_times.h"

#include <stdio.h>

#include "engine/machine/gpus.h"

#ifdef YOKE_HAVE_CUDA

#include "kernels/cuda/device/bandwidth.h"
#include "parallel/p2p/links_p2p.h"
#ifdef YOKE_HAVE_NCCL
#include "parallel/comm_nccl.h"
#include "parallel/comm_warm_up.h"
#endif

yk_status yk_gpu_times_connect_nccl(const yk_settings *settings, yk_device *const *devs, yk_comm **comms, yk_err *err)
{
#ifdef YOKE_HAVE_NCCL
  const double warm_up_timeout_s = 60;
  yk_comm *ends[YK_MAX_RANKS] = {NULL};
  const yk_exchange alone = yk_exchange_alone();
  YK_TRY(yk_comm_nccl_create(&settings->world, YK_NCCL_ALL, &alone, NULL, devs, ends, err));
  yk_status status = yk_comm_warm_up(ends, settings->world.n_ranks, warm_up_timeout_s, err);
  for (int rank = 0; rank < settings->world.n_ranks && status != YK_E_TIMEOUT;
       rank++) /* after a timeout the ends must not be touched */
    if (status == YK_OK)
      comms[rank] = ends[rank];
    else
      ends[rank]->ops->destroy(ends[rank]);
  return status;
#else
  (void)devs, (void)comms;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%d ranks: this build was made without NCCL", settings->world.n_ranks);
#endif
}

yk_status yk_gpu_times_memory(int ordinal, int64_t n_bytes, bool copies, int n_repeats, yk_spread *us, yk_err *err)
{
  double repeats[YK_P2P_LINK_MAX_REPEATS];
  YK_TRY(yk_cuda_bandwidth_time(ordinal, n_bytes, copies, n_repeats, repeats, err));
  *us = yk_spread_of(repeats, n_repeats);
  return YK_OK;
}

yk_status yk_gpu_times_link(int from, int to, int n_repeats, yk_link_times *out, yk_err *err)
{
  yk_p2p_link_times times;
  YK_TRY(yk_p2p_link_test(from, to, n_repeats, &times, err));
  *out = (yk_link_times){.n_bytes = YK_P2P_LINK_BYTES, .copy_us = times.copy_us, .latency_us = times.latency_us};
  return YK_OK;
}

yk_status yk_gpu_times_both_ways(int one, int other, int n_repeats, yk_link_times *out, yk_err *err)
{
  *out = (yk_link_times){.n_bytes = YK_P2P_LINK_BYTES};
  return yk_p2p_link_both_ways(one, other, n_repeats, &out->copy_us, err);
}

void yk_gpu_times_describe_link(int from, int to, bool measures, yk_link *out)
{
  enum { N_REPEATS = 1 };
  yk_err err = YK_ERR_INIT;
  yk_link_times times;
  *out = (yk_link){.from = from, .to = to};
  yk_status status = yk_p2p_link_query(from, to, &out->peer_access, &err);
  if (status == YK_OK && measures) {
    status = yk_gpu_times_link(from, to, N_REPEATS, &times, &err);
    out->is_measured = status == YK_OK;
  }
  if (out->is_measured) {
    out->copy_gb_s = (double)times.n_bytes / times.copy_us.median * 1e-3;
    out->latency_us = times.latency_us.median;
  }
  snprintf(out->error, sizeof out->error, "%s", err.message);
}

#else

yk_status yk_gpu_times_connect_nccl(const yk_settings *settings, yk_device *const *devs, yk_comm **comms, yk_err *err)
{
  (void)settings, (void)devs, (void)comms;
  return yk_gpus_refuse(err);
}

yk_status yk_gpu_times_memory(int ordinal, int64_t n_bytes, bool copies, int n_repeats, yk_spread *us, yk_err *err)
{
  (void)ordinal, (void)n_bytes, (void)copies, (void)n_repeats, (void)us;
  return yk_gpus_refuse(err);
}

yk_status yk_gpu_times_link(int from, int to, int n_repeats, yk_link_times *out, yk_err *err)
{
  (void)from, (void)to, (void)n_repeats, (void)out;
  return yk_gpus_refuse(err);
}

yk_status yk_gpu_times_both_ways(int one, int other, int n_repeats, yk_link_times *out, yk_err *err)
{
  (void)one, (void)other, (void)n_repeats, (void)out;
  return yk_gpus_refuse(err);
}

void yk_gpu_times_describe_link(int from, int to, bool measures, yk_link *out)
{
  yk_err err = YK_ERR_INIT;
  (void)measures;
  yk_gpus_refuse(&err);
  *out = (yk_link){.from = from, .to = to};
  snprintf(out->error, sizeof out->error, "%s", err.message);
}

#endif
