/* gpus.h - the GPUs that an engine's ranks run on. A build without CUDA has none. */
#ifndef YK_ENGINE_GPUS_H
#define YK_ENGINE_GPUS_H

#include "engine/settings.h"
#include "parallel/comm.h"

/* yk_gpus_are_built - whether this build has the CUDA device at all. */
bool yk_gpus_are_built(void);

/* yk_gpus_count - GPUs that this process may use. Thread: any. */
int yk_gpus_count(void);

/* yk_gpus_describe - one of them, for yk_device_list. Errors: YK_E_DEVICE. */
yk_status yk_gpus_describe(int ordinal, yk_device_info *out, yk_err *err);

/* yk_gpus_budget - bytes that a rank may take: the smallest over the ranks' GPUs of what is free, less the share of the
 *   whole that utilization leaves to others. Ranks beyond the GPUs of this machine count as one of those that it has.
 *   Errors: YK_E_DEVICE.                                                                                             */
yk_status yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err);

/* yk_gpus_measure - yk_model_measure for a rank on a GPU, with what its device and its communicator's slots take
 *   (NCCL's own memory is not counted). Needs no GPU, and no CUDA in the build.                                      */
yk_status yk_gpus_measure(const yk_checkpoint *checkpoint, const yk_settings *settings, int rank, yk_model_memory *out,
                          yk_err *err);

/* yk_gpus_open - the device of every rank. On failure those already open stay in devs, for the caller to destroy.
 *   Errors: YK_E_CAPACITY for more ranks than GPUs, YK_E_INVAL for a GPU that is not there or named twice,
 *   YK_E_DEVICE. */
yk_status yk_gpus_open(const yk_settings *settings, yk_device **devs, yk_err *err);

/* yk_gpus_connect - their communicator, for steps as the settings limit them. Errors: YK_E_UNSUPPORTED for several
 *   ranks without NCCL, YK_E_COMM, YK_E_TIMEOUT, YK_E_CAPACITY. */
yk_status yk_gpus_connect(const yk_settings *settings, yk_device *const *devs, yk_comm **comms, yk_err *err);

/* yk_gpus_all_reduce_route - how an all_reduce_add_norm of n_rows rows goes: "one-shot", "two-shot", "nccl"; "local"
 *   for one rank alone. */
const char *yk_gpus_all_reduce_route(const yk_comm *comm, int32_t n_rows);

/* yk_gpus_link - peer access from GPU `from` to GPU `to`, and where `measures` bandwidth and latency. What fails is
 *   told in out->error. */
void yk_gpus_link(int from, int to, bool measures, yk_link *out);

#endif
