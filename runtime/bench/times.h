/* times.h - the times of an engine's steps by parts, as JSON. */
#ifndef YK_BENCH_TIMES_H
#define YK_BENCH_TIMES_H

#include "base/json_tree.h"
#include "yoke/yoke.h"

/* yk_bench_times_json - {"decode": {"n_steps", "step": us, each part: us a step, mean over ranks}, "prefill": the same,
 *   "by_rank": [{each part} of decode steps], "slowest": [share of all-reduces, of either kind of step, for which each
 *   rank was last], "places": [{"stage", "process", "host"} of each rank]}. Kinds without steps, "by_rank" without
 *   decode steps, "slowest" without all-reduces and "places" with one stage and one process are null; a single process
 *   has no "host". info: of the engine. The result belongs to the caller; NULL: no memory. */
json_t *yk_bench_times_json(const yk_profile *profile, const yk_engine_info *info);

#endif
