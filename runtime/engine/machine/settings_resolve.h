/* settings_resolve.h - resolve an engine's options to settings. */
#ifndef YK_ENGINE_MACHINE_SETTINGS_RESOLVE_H
#define YK_ENGINE_MACHINE_SETTINGS_RESOLVE_H

#include "engine/machine/settings.h"
#include "parallel/cluster/cluster.h"

/* yk_engine_options_defaults - with struct_size of this build. */
yk_engine_options yk_engine_options_defaults(void);

/* yk_engine_options_read - a program's options, with defaults for fields that its version lacks. Errors: those of
 *   yk_struct_read. */
yk_status yk_engine_options_read(const yk_engine_options *options, yk_engine_options *out, yk_err *err);

/* yk_settings_config_changes - the requested changes of a checkpoint's JSON files; points into the options. */
yk_config_changes yk_settings_config_changes(const yk_engine_options *options);

/* yk_settings_devices - check the options; choose the device kind, the ranks and GPUs of this process, and the time
 *   limit of a step. is_elsewhere: the devices are of another machine. Errors: as yk_settings_resolve; YK_E_CAPACITY if
 *   the processes of this host need more GPUs than there are. */
yk_status yk_settings_devices(const yk_engine_options *options, bool is_elsewhere, yk_settings *settings, yk_err *err);

/* yk_settings_resolve - check the options and plan the memory.
 *   cluster: the processes of the run, which all call this function together and get the same limits; NULL: one
 *   process.
 *   device_memory_bytes: per device of another machine (see yk_plan_make), 0: this machine. plan: filled also if the
 *   model does not fit (then the function returns YK_E_CAPACITY with plan->reason as the message). Reads no weights.
 *   plan->reason holds remarks (a lowered limit, idle ranks).
 *   Errors: YK_E_INVAL (an option, named with its legal range), YK_E_CAPACITY, and those of reading the checkpoint. */
yk_status yk_settings_resolve(const yk_engine_options *options, const yk_checkpoint *checkpoint,
                              int64_t device_memory_bytes, yk_cluster *cluster, yk_settings *settings, yk_plan *plan,
                              yk_err *err);

#endif
