/* summary.h - makes study.json from a study's records.
 *
 * { "yoke_study": 1, "version", "created", "command", "machine": {...}, "model": {...}, "repeats", "starts",
 *   "points": [{"ranks", "batch" (or "request_rate", "clients"), "input_len", "output_len", "options": {}, "n_runs",
 *     every metric of the runs (the median), "intervals": {metric: [low, high]},
 *     "speedup", "speedup_interval", "efficiency", "efficiency_interval",
 *     "limit": {"output_throughput", "share", "bound"; of a batch "decode_throughput"; else "running", and under a
 *       request rate "offered_throughput", "offered_share"},
 *     "losses": {...} (parts.h),
 *     "time_us": {"step", "n_steps", a part: us a step, ...} (decode steps, mean over ranks),
 *     "time_us_by_rank": [...], "slowest": [...], "rank_places": [...] (bench/times.h), "time_us_prefill": {...},
 *     "warnings": [...],
 *     "runs": [{"start", "repeat", metrics}]}],
 *   "skipped": [{"ranks", ..., "reason"}] }
 *
 * Points of a study over several processes have "processes" and "hosts", their numbers. The limit of CPU ranks on
 * several hosts counts each host's memory and cores; times of all-reduces are those of one host.
 * A point whose ranks hold whole experts has "expert_parallel": true. Runs of a mixture of experts also have
 * expert_busiest_share, the largest share of a layer's choices on one rank, which explains waiting in all-reduces.
 * The model has name, family, dtype, sizes, and n_heads, n_kv_heads, intermediate_size (of an expert, if there are
 * n_experts) and group_size, by which ranks shard it (split.h). Unknown values are left out: the limit of a model or a
 * machine without figures, times that an engine lacks. With clients or a request rate the limit is the machine's with
 * as many requests as were running (limits.h). A run of n requests reaches less than the throughput that its request
 * rate offers (rate times output_len), as its time lasts until the last request has ended. */
#ifndef YK_STUDY_SUMMARY_H
#define YK_STUDY_SUMMARY_H

#include "study/limits.h"
#include "study/records.h"

typedef struct yk_study_frame {
  const char *command; /* the command line */
  const char *model_name;
  const yk_model_shapes *shapes; /* or NULL */
  int n_repeats, n_starts;
  int32_t shared_prefix; /* tokens */
} yk_study_frame;

/* yk_study_summarise - *out belongs to the caller. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_study_summarise(const yk_study_frame *frame, const yk_study_records *records, json_t **out, yk_err *err);

/* yk_study_element_bytes - of a type by the engine's name: 4 for "float32", else 2. */
double yk_study_element_bytes(const char *dtype);

#endif
