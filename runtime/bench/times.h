/* times.h - where an engine's time went. */
#ifndef YK_BENCH_TIMES_H
#define YK_BENCH_TIMES_H

#include "base/json_tree.h"
#include "yoke/yoke.h"

/* yk_bench_times_json - {"decode": {"n_steps", "step": us, each part: us a step, mean over ranks}, "prefill": the same,
 *   "by_rank": [{each part} of decode steps], "slowest": [share of all-reduces, of either kind of step, for which each
 *   rank was last]}. Kinds without steps, "by_rank" of none and "slowest" without all-reduces are null. NULL where
 *   memory is short. The caller's. */
json_t *yk_bench_times_json(const yk_profile *profile);

#endif
