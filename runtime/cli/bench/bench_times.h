/* bench_times.h - the time of steps by parts, in the report of `yoke bench`. */
#ifndef YK_CLI_BENCH_TIMES_H
#define YK_CLI_BENCH_TIMES_H

#include <jansson.h>

#include "yoke/yoke.h"

/* yk_bench_times_print - print a table for steps with prompt rows, and one for decode steps; none for a kind without
 *   timed steps. info: of the engine, whose stages, processes and hosts are named if there are several. */
void yk_bench_times_print(const yk_profile *profile, const yk_engine_info *info);

/* yk_bench_times_add - set "time_us", "time_us_prefill", "time_us_by_rank", "slowest" and "rank_places" in object (see
 *   bench/times.h). Errors: YK_E_NOMEM. */
yk_status yk_bench_times_add(const yk_profile *profile, const yk_engine_info *info, json_t *object, yk_err *err);

#endif
