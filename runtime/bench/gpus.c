#include "bench/gpus.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct yk_bench_gpus {
  int n;
  int ids[YK_BENCH_MAX_GPUS];
};

void yk_bench_warn(yk_bench_warnings *warnings, const char *fmt, ...)
{
  char text[YK_BENCH_WARNING_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  for (int i = 0; i < warnings->n; i++)
    if (strcmp(warnings->text[i], text) == 0) return;
  if (warnings->n < YK_BENCH_MAX_WARNINGS) memcpy(warnings->text[warnings->n++], text, sizeof text);
}

yk_status yk_bench_gpus_open(const int *ids, int n_ids, const yk_log *log, yk_bench_gpus **out, yk_err *err)
{
  (void)ids, (void)log;
  *out = NULL;
  if (n_ids < 1 || n_ids > YK_BENCH_MAX_GPUS)
    return yk_err_set(err, YK_E_INVAL, "n_ids: expected 1 to %d, found %d", YK_BENCH_MAX_GPUS, n_ids);
  return YK_OK;
}

void yk_bench_gpus_close(yk_bench_gpus *gpus)
{
  (void)gpus;
}

int yk_bench_gpus_read(yk_bench_gpus *gpus, yk_bench_gpu_state *out)
{
  (void)out;
  return gpus ? gpus->n : 0;
}

int yk_bench_gpus_id(const yk_bench_gpus *gpus, int i)
{
  return gpus->ids[i];
}

void yk_bench_gpus_compare(const yk_bench_gpus *gpus, const yk_bench_gpu_state *before, const yk_bench_gpu_state *after,
                           int n, yk_bench_gpu_run *runs, yk_bench_warnings *warnings)
{
  (void)warnings;
  for (int i = 0; i < n; i++)
    runs[i] = (yk_bench_gpu_run){gpus->ids[i], before[i], after[i], after[i].energy_j - before[i].energy_j};
}

void yk_bench_gpus_find_others(yk_bench_gpus *gpus, yk_bench_warnings *warnings)
{
  (void)gpus, (void)warnings;
}
