/* gpus.h - the GPUs that an engine's ranks run on. A build without CUDA has none. */
#ifndef YK_ENGINE_MACHINE_GPUS_H
#define YK_ENGINE_MACHINE_GPUS_H

#include "engine/machine/settings.h"
#include "parallel/comm.h"
#include "parallel/exchange.h"
#include "yoke/machine.h"

/* yk_gpus_are_built - whether this build includes the CUDA device. */
bool yk_gpus_are_built(void);

/* yk_gpus_refuse - the error of a build without CUDA. Errors: YK_E_UNSUPPORTED. */
yk_status yk_gpus_refuse(yk_err *err);

/* yk_gpus_count - GPUs that this process may use. Thread: any. */
int yk_gpus_count(void);

/* yk_gpus_may_be_shared - whether ranks of several processes, or of several stages, may have the same GPU: with
 *   YOKE_SHARED_GPUS=1, for tests. Thread: any. */
bool yk_gpus_may_be_shared(void);

/* yk_gpus_check_list - check a caller's list of GPUs: 1 to YK_MAX_RANKS GPUs, each present and listed once. what: named
 *   in messages.
 *   Errors: YK_E_UNSUPPORTED (a build without CUDA), YK_E_INVAL. */
yk_status yk_gpus_check_list(const char *what, const int *ids, int n, yk_err *err);

/* yk_gpus_describe - one GPU, for yk_device_list. Errors: YK_E_DEVICE. */
yk_status yk_gpus_describe(int ordinal, yk_device_info *out, yk_err *err);

enum { YK_GPU_UUID_BYTES = 48 };

/* yk_gpus_uuid - the name of one GPU among all GPUs, as nvidia-smi prints it. Errors: YK_E_DEVICE. */
yk_status yk_gpus_uuid(int ordinal, char uuid[YK_GPU_UUID_BYTES], yk_err *err);

/* yk_gpus_budget - bytes that a rank of this process may take: the minimum, over these ranks' GPUs, of the free memory
 *   minus the share of the total memory that utilization reserves for other programs. Ranks beyond the GPUs of this
 *   machine count like its own GPUs. Ranks that share GPUs divide them evenly. Errors: YK_E_DEVICE. */
yk_status yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err);

/* yk_gpus_check_hopper - whether the GPUs of this process's ranks have compute capability 9.0, which the option needs.
 *   option, supported: for the message, which ends with what these GPUs support instead.
 *   Errors: YK_E_UNSUPPORTED, YK_E_DEVICE. */
yk_status yk_gpus_check_hopper(const yk_settings *settings, const char *option, const char *supported, yk_err *err);

/* yk_gpus_measure - yk_model_measure for a rank on a GPU, plus the bytes of its device and of its communicator's slots
 *   (NCCL's own memory is not counted). Works without a GPU and without CUDA in the build. */
yk_status yk_gpus_measure(const yk_checkpoint *checkpoint, const yk_settings *settings, int rank, yk_model_memory *out,
                          yk_err *err);

/* yk_gpus_open - the device of every rank of this process, devs [world.n_local]. After a failure devices already open
 *   stay in devs; the caller destroys them.
 *   Errors: YK_E_CAPACITY for more ranks than GPUs, YK_E_INVAL for a GPU that is missing or listed twice,
 *   YK_E_DEVICE. */
yk_status yk_gpus_open(const yk_settings *settings, yk_device **devs, yk_err *err);

/* yk_gpus_connect - the communicator of the devices, for steps within the settings' limits.
 *   exchange: of the processes that have the world's ranks; wires: their transport, which outlives the ends, NULL if
 *   there is one process.
 *   Errors: YK_E_UNSUPPORTED (several ranks without NCCL), YK_E_COMM, YK_E_TIMEOUT, YK_E_CAPACITY. */
yk_status yk_gpus_connect(const yk_settings *settings, const yk_exchange *exchange, const yk_wires *wires,
                          yk_device *const *devs, yk_comm **comms, yk_err *err);

/* yk_gpus_all_reduce_route - the algorithm of an all_reduce_add_norm of n_rows rows: "one-shot", "two-shot", "nccl";
 *   "two-level" over several hosts; "local" for a single rank. */
const char *yk_gpus_all_reduce_route(const yk_comm *comm, int32_t n_rows);

#endif
