/* study_machine.h - the machine that a study runs on, as study.json describes it. */
#ifndef YK_CLI_STUDY_MACHINE_H
#define YK_CLI_STUDY_MACHINE_H

#include "base/json_tree.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* yk_study_machine - {"device", "devices", "cpu", "n_cpus"} and what the machine can do: "memory_bytes_per_s",
 *   "gemm_flops", "link_bytes_per_s", "all_reduce". limits: a file that holds the latter, as `yoke bench machine`
 *   writes them; "none": they are left out; NULL: they are measured, on the devices of engine and over up to as many
 *   ranks as it has. *out is the caller's.
 *   Errors: YK_E_IO, YK_E_FORMAT naming the file and what it lacks, those of yk_machine_measure, YK_E_NOMEM. */
yk_status yk_study_machine(const yk_engine_options *engine, const char *limits, const yk_log *log, json_t **out,
                           yk_err *err);

#endif
