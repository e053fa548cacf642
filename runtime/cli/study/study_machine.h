/* study_machine.h - the description of the machine in study.json. */
#ifndef YK_CLI_STUDY_MACHINE_H
#define YK_CLI_STUDY_MACHINE_H

#include "base/json_tree.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* yk_study_machine - {"device", "devices", "cpu", "n_cpus"} and the machine's limits: "memory_bytes_per_s",
 *   "gemm_flops", "link_bytes_per_s", "all_reduce". limits: a file with the limits, from `yoke bench machine`; "none":
 *   they are left out; NULL: they are measured, on the devices of engine and over up to as many ranks as it has. *out
 *   belongs to the caller.
 *   Errors: YK_E_IO, YK_E_FORMAT naming the file and the missing value, those of yk_machine_measure, YK_E_NOMEM. */
yk_status yk_study_machine(const yk_engine_options *engine, const char *limits, const yk_log *log, json_t **out,
                           yk_err *err);

#endif
