#include "bench/times.h"

/* The parts of ranks first to last - 1, mean over them, in us a step. */
static json_t *parts_json(const yk_step_times *times, int first, int last)
{
  json_t *object = json_object();
  int failed = object == NULL;
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    double sum_s = 0;
    for (int rank = first; rank < last; rank++) sum_s += times->part_s[rank][part];
    double us = 1e6 * sum_s / (double)(last - first) / (double)times->n_steps;
    failed |= json_object_set_new(object, yk_time_part_name((yk_time_part)part), json_real(us));
  }
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static json_t *kind_json(const yk_step_times *times, int n_ranks)
{
  if (times->n_steps == 0) return json_null();
  json_t *object = json_pack("{s:I, s:f}", "n_steps", (json_int_t)times->n_steps, "step",
                             1e6 * times->step_s / (double)times->n_steps);
  json_t *parts = parts_json(times, 0, n_ranks);
  int failed = !parts || json_object_update(object, parts) != 0;
  json_decref(parts);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

/* The list; NULL if it could not be filled. */
static json_t *whole_list(json_t *list, int failed)
{
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

static json_t *by_rank_json(const yk_step_times *times, int n_ranks)
{
  if (times->n_steps == 0) return json_null();
  json_t *list = json_array();
  int failed = 0;
  for (int rank = 0; rank < n_ranks; rank++) failed |= json_array_append_new(list, parts_json(times, rank, rank + 1));
  return whole_list(list, failed);
}

static json_t *slowest_json(const yk_profile *profile)
{
  double n = (double)(profile->prefill.n_all_reduces + profile->decode.n_all_reduces);
  if (!(n > 0)) return json_null();
  json_t *list = json_array();
  int failed = 0;
  for (int rank = 0; rank < profile->n_ranks; rank++) {
    double share = (double)(profile->prefill.slowest[rank] + profile->decode.slowest[rank]) / n;
    failed |= json_array_append_new(list, json_real(share));
  }
  return whole_list(list, failed);
}

static json_t *places_json(const yk_engine_info *info)
{
  if (info->n_stages < 2 && info->n_processes < 2) return json_null();
  json_t *list = json_array();
  int failed = 0;
  for (int rank = 0; rank < info->n_ranks; rank++) {
    const int stage = rank / (info->n_ranks / info->n_stages), process = rank / (info->n_ranks / info->n_processes);
    failed |= json_array_append_new(
        list, json_pack("{s:i, s:i, s:s*}", "stage", stage, "process", process, "host", info->rank_hosts[rank]));
  }
  return whole_list(list, failed);
}

json_t *yk_bench_times_json(const yk_profile *profile, const yk_engine_info *info)
{
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "decode", kind_json(&profile->decode, profile->n_ranks), "prefill",
                   kind_json(&profile->prefill, profile->n_ranks), "by_rank",
                   by_rank_json(&profile->decode, profile->n_ranks), "slowest", slowest_json(profile), "places",
                   places_json(info));
}
