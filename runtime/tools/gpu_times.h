/* gpu_times.h - measurements of GPUs: memory, links, and a communicator for comparison. Builds without CUDA refuse. */
#ifndef YK_TOOLS_GPU_TIMES_H
#define YK_TOOLS_GPU_TIMES_H

#include "base/spread.h"
#include "engine/machine/settings.h"
#include "parallel/comm.h"
#include "yoke/machine.h"

/* yk_gpu_times_connect_nccl - a communicator that uses NCCL only, warmed up, to compare with that of yk_gpus_connect.
 *   Needs separate devices, since a device belongs to one communicator. Errors: as yk_gpus_connect. */
yk_status yk_gpu_times_connect_nccl(const yk_settings *settings, yk_device *const *devs, yk_comm **comms, yk_err *err);

/* yk_gpu_times_memory - microseconds of a read or copy of n_bytes in the GPU's own memory: see yk_cuda_bandwidth_time.
 */
yk_status yk_gpu_times_memory(int ordinal, int64_t n_bytes, bool copies, int n_repeats, yk_spread *us, yk_err *err);

typedef struct yk_link_times {
  int64_t n_bytes;               /* of a copy */
  yk_spread copy_us, latency_us; /* latency_us: one way */
} yk_link_times;

/* yk_gpu_times_link - copies from one GPU to another, at most 100 repeats; both_ways: in both directions at
 *   once. Errors: see yk_p2p_link_test. */
yk_status yk_gpu_times_link(int from, int to, int n_repeats, yk_link_times *out, yk_err *err);
yk_status yk_gpu_times_both_ways(int one, int other, int n_repeats, yk_link_times *out, yk_err *err);

/* yk_gpu_times_describe_link - peer access from GPU `from` to GPU `to`; with `measures`, bandwidth and latency
 *   too. Failures are reported in out->error. */
void yk_gpu_times_describe_link(int from, int to, bool measures, yk_link *out);

#endif
