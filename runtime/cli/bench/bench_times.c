#include "cli/bench/bench_times.h"

#include <stdio.h>

#include "bench/times.h"

/* Prints the number of each rank's part, of n that divide the ranks in order. */
static void print_parts(const char *name, int n_ranks, int n)
{
  if (n < 2) return;
  printf("%-20s", name);
  for (int rank = 0; rank < n_ranks; rank++) printf(" %9d", rank / (n_ranks / n));
  printf("\n");
}

static void print_places(const yk_engine_info *info)
{
  print_parts("stage", info->n_ranks, info->n_stages);
  print_parts("process", info->n_ranks, info->n_processes);
  if (info->n_processes < 2) return;
  printf("%-20s", "host");
  for (int rank = 0; rank < info->n_ranks; rank++) printf(" %9.9s", info->rank_hosts[rank]);
  printf("\n");
}

/* Prints the table of one kind of step. */
static void print_kind(const char *name, const yk_step_times *times, const yk_engine_info *info)
{
  const int n_ranks = info->n_ranks;
  if (times->n_steps == 0) return;
  double us = 1e6 / (double)times->n_steps;
  printf("\n%-20s %9.1f   over %llu timed steps; %.1f us of timestamps are subtracted\n", name, times->step_s * us,
         (unsigned long long)times->n_steps, times->timestamp_cost_s * us);
  printf("%-20s", "rank");
  for (int rank = 0; rank < n_ranks; rank++) printf(" %9d", rank);
  printf("\n");
  print_places(info);
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    printf("%-20s", yk_time_part_name((yk_time_part)part));
    for (int rank = 0; rank < n_ranks; rank++) printf(" %9.1f", times->part_s[rank][part] * us);
    printf("\n");
  }
  if (times->n_all_reduces == 0) return;
  printf("%-20s", "slowest, share");
  for (int rank = 0; rank < n_ranks; rank++)
    printf(" %9.3f", (double)times->slowest[rank] / (double)times->n_all_reduces);
  printf("\n");
}

void yk_bench_times_print(const yk_profile *profile, const yk_engine_info *info)
{
  print_kind("step of prompts, us", &profile->prefill, info);
  print_kind("decode step, us", &profile->decode, info);
}

yk_status yk_bench_times_add(const yk_profile *profile, const yk_engine_info *info, json_t *object, yk_err *err)
{
  static const char *const names[][2] = {{"decode", "time_us"},
                                         {"prefill", "time_us_prefill"},
                                         {"by_rank", "time_us_by_rank"},
                                         {"slowest", "slowest"},
                                         {"places", "rank_places"}};
  json_t *times = yk_bench_times_json(profile, info);
  int failed = times == NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    failed |= json_object_set(object, names[i][1], json_object_get(times, names[i][0])) != 0;
  json_decref(times);
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the times of steps") : YK_OK;
}
