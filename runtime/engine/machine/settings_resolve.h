/* settings_resolve.h - from an engine's options to its settings. */
#ifndef YK_ENGINE_MACHINE_SETTINGS_RESOLVE_H
#define YK_ENGINE_MACHINE_SETTINGS_RESOLVE_H

#include "engine/machine/settings.h"

/* yk_engine_options_defaults - of our size. */
yk_engine_options yk_engine_options_defaults(void);

/* yk_engine_options_read - a program's options, with defaults for what its version lacks. Errors: yk_struct_read's. */
yk_status yk_engine_options_read(const yk_engine_options *options, yk_engine_options *out, yk_err *err);

/* yk_settings_config_changes - the changes of a checkpoint's JSON files that the options ask for; points into the
 *   options. */
yk_config_changes yk_settings_config_changes(const yk_engine_options *options);

/* yk_settings_resolve - check the options and plan the memory.
 *   device_memory_bytes: per device of another machine (see yk_plan_make), 0: this one. plan: filled also where the
 *   answer is that it does not fit (then the return value is YK_E_CAPACITY and the message plan->reason). Reads no
 *   weights; a remark (a lowered limit, idle ranks) stands in plan->reason.
 *   Errors: YK_E_INVAL (an option, named with its legal range), YK_E_CAPACITY, and those of reading the checkpoint. */
yk_status yk_settings_resolve(const yk_engine_options *options, const yk_checkpoint *checkpoint,
                              int64_t device_memory_bytes, yk_settings *settings, yk_plan *plan, yk_err *err);

#endif
