/* bench_machine_json.h - a machine's measurement as JSON, from which studies take their limits. */
#ifndef YK_CLI_BENCH_MACHINE_JSON_H
#define YK_CLI_BENCH_MACHINE_JSON_H

#include <jansson.h>

#include "yoke/tools.h"
#include "yoke/yoke.h"

/* yk_machine_json - *out belongs to the caller:
 *   {"yoke_machine": 1, "version": "0.2.0", "device": "cuda", "devices": ["NVIDIA H200", ...],
 *    "memory_bytes_per_s", "gemm_flops", "link_bytes_per_s": numbers, null if not measured,
 *    "all_reduce": [{"ranks", "bytes", "us"}],
 *    "rows": [{"kind", "method", "device", "to", "ranks", "threads", "bytes", "m", "k", "n", "us", "us_low", "us_high",
 *              "rate", "rate_unit", "bus_rate", "error"}]}, null for a field that does not apply.
 *   Errors: YK_E_NOMEM. */
yk_status yk_machine_json(const yk_machine_report *report, json_t **out, yk_err *err);

#endif
