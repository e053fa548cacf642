/* machine_rows.c - the rows of a machine's measurement, and the limits that follow from them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "engine/machine/gpus.h"
#include "tools/machine_run.h"

static double operations_of(const yk_machine_row *row)
{
  if (row->kind == YK_MACHINE_LATENCY) return 0;
  return row->kind == YK_MACHINE_GEMM ? 2.0 * (double)row->m * (double)row->k * (double)row->n : (double)row->n_bytes;
}

void yk_machine_add(yk_machine_run *run, const yk_machine_row *row, yk_status status, const yk_spread *us,
                    const yk_err *err)
{
  yk_machine_report *report = run->report;
  if (report->n_rows == run->max_rows) {
    size_t max_rows = run->max_rows ? 2 * run->max_rows : 64;
    yk_machine_row *rows = realloc(report->rows, max_rows * sizeof *rows);
    if (!rows) {
      run->status = YK_E_NOMEM;
      return;
    }
    report->rows = rows;
    run->max_rows = max_rows;
  }
  yk_machine_row *added = &report->rows[report->n_rows++];
  *added = *row;
  added->error[0] = '\0';
  if (status != YK_OK) {
    snprintf(added->error, sizeof added->error, "%s", err->message);
  } else {
    added->us = us->median;
    added->us_low = us->low;
    added->us_high = us->high;
    added->rate = operations_of(row) / us->median * 1e6;
    if (row->kind == YK_MACHINE_ALL_REDUCE) added->bus_rate = added->rate * 2 * (row->n_ranks - 1) / row->n_ranks;
  }
  if (run->options.on_row) run->options.on_row(run->options.on_row_user, added);
}

/* Memory that the host can provide without swapping; -1: unknown. */
static int64_t host_available_bytes(void)
{
  long long kib = -1;
  char line[128];
  FILE *file = fopen("/proc/meminfo", "r");
  if (!file) return -1;
  while (fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %lld kB", &kib) != 1) continue;
  fclose(file);
  return kib < 0 ? -1 : kib * 1024;
}

yk_status yk_machine_check_free(int device, int64_t n_bytes, yk_err *err)
{
  char needed[YK_BYTES_TEXT], found[YK_BYTES_TEXT], name[32] = "host memory";
  yk_device_info info = {.free_bytes = host_available_bytes()};
  if (device >= 0) {
    YK_TRY(yk_gpus_describe(device, &info, err));
    snprintf(name, sizeof name, "GPU %d", device);
  }
  if (info.free_bytes < 0 || n_bytes <= info.free_bytes) return YK_OK;
  return yk_err_set(err, YK_E_CAPACITY, "%s: %s needed, %s free", name, yk_bytes_format(n_bytes, needed),
                    yk_bytes_format(info.free_bytes, found));
}

static void lower(double *limit, double rate)
{
  if (*limit == 0 || rate < *limit) *limit = rate;
}

static void higher(double *limit, double rate)
{
  if (rate > *limit) *limit = rate;
}

/* The fastest method counts. */
static void add_all_reduce(yk_machine_limits *limits, const yk_machine_row *row)
{
  int i = 0;
  while (i < limits->n_all_reduces &&
         (limits->all_reduces[i].n_ranks != row->n_ranks || limits->all_reduces[i].n_bytes != row->n_bytes))
    i++;
  if (i == YK_MACHINE_ALL_REDUCES || (i < limits->n_all_reduces && limits->all_reduces[i].us <= row->us)) return;
  if (i == limits->n_all_reduces) limits->n_all_reduces++;
  limits->all_reduces[i].n_ranks = row->n_ranks;
  limits->all_reduces[i].n_bytes = row->n_bytes;
  limits->all_reduces[i].us = row->us;
}

yk_machine_limits yk_machine_limits_of(const yk_machine_report *report)
{
  yk_machine_limits limits = {0};
  bool on_gpus = report->device == YK_DEVICE_CUDA;
  for (size_t i = 0; i < report->n_rows; i++) {
    const yk_machine_row *row = &report->rows[i];
    if (row->error[0]) continue;
    if (row->kind == YK_MACHINE_MEMORY && strcmp(row->method, "read") == 0) {
      if (on_gpus)
        lower(&limits.memory_bytes_per_s, row->rate);
      else
        higher(&limits.memory_bytes_per_s, row->rate); /* maximum over numbers of threads */
    }
    if (row->kind == YK_MACHINE_GEMM && strcmp(row->method, "plain") == 0) lower(&limits.gemm_flops, row->rate);
    if (row->kind == YK_MACHINE_LINK && strcmp(row->method, "copy") == 0) lower(&limits.link_bytes_per_s, row->rate);
    if (row->kind == YK_MACHINE_ALL_REDUCE) add_all_reduce(&limits, row);
  }
  return limits;
}
