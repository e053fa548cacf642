/* machine.c - yk_machine_measure: checks the options and runs the measurements one after the other. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "base/struct_size.h"
#include "engine/machine/gpus.h"
#include "tools/machine_network.h"

static const char *const kind_names[] = {"memory", "gemm", "link", "latency", "all_reduce"};

const char *yk_machine_kind_name(yk_machine_kind kind)
{
  return (int)kind >= 0 && (size_t)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "unknown";
}

static const yk_machine_options defaults = {.struct_size = sizeof defaults, .n_ranks = 2, .n_repeats = 9};

void yk_machine_options_init_sized(yk_machine_options *options, size_t struct_size)
{
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

/* 0: the default. */
static yk_status check_size(const char *name, int64_t value, int64_t min, int64_t max, yk_err *err)
{
  return value == 0 ? YK_OK : yk_check_i64(name, value, min, max, err);
}

static yk_status check_options(const yk_machine_options *o, yk_err *err)
{
  const int64_t mib = 1 << 20, most_columns = 1 << 20;
  YK_TRY(yk_check_enum("device", (int)o->device, YK_DEVICE_CUDA, err));
  YK_TRY(yk_check_i64("n_ranks", o->n_ranks, 1, YK_MAX_RANKS, err));
  YK_TRY(yk_check_i64("n_cpu_threads", o->n_cpu_threads, 0, 1024, err));
  YK_TRY(check_size("memory_bytes", o->memory_bytes, mib, mib * mib, err));
  YK_TRY(yk_check_i64("gemm_m", o->gemm_m, 0, 65536, err));
  YK_TRY(yk_check_i64("gemm_k", o->gemm_k, 0, most_columns, err));
  YK_TRY(yk_check_i64("gemm_n", o->gemm_n, 0, most_columns, err));
  if (o->gemm_k % 128 || o->gemm_n % 128)
    return yk_err_set(err, YK_E_INVAL, "gemm_k, gemm_n: expected multiples of 128, found %lld, %lld",
                      (long long)o->gemm_k, (long long)o->gemm_n);
  YK_TRY(check_size("all_reduce_max_bytes", o->all_reduce_max_bytes, 1024, 1024 * mib, err));
  YK_TRY(yk_check_i64("n_repeats", o->n_repeats, 3, YK_MACHINE_MAX_REPEATS, err));
  return o->device_ids ? YK_OK : yk_check_i64("n_devices without device_ids", o->n_devices, 0, 0, err);
}

static void set_default(int64_t *value, bool on_gpus, int64_t of_gpus, int64_t of_cpu)
{
  if (*value == 0) *value = on_gpus ? of_gpus : of_cpu;
}

static yk_status choose_gpus(yk_machine_run *run, yk_err *err)
{
  yk_machine_options *o = &run->options;
  int n_gpus = yk_gpus_count();
  if (n_gpus == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "device cuda: this %s",
                      yk_gpus_are_built() ? "machine has no GPU that the process may use"
                                          : "build runs on CPU ranks only");
  if (!o->device_ids) o->n_devices = (int)yk_min_i64(n_gpus, YK_MAX_RANKS);
  if (o->device_ids) YK_TRY(yk_gpus_check_list("devices", o->device_ids, o->n_devices, err));
  for (int i = 0; i < o->n_devices; i++) run->device_ids[i] = o->device_ids ? o->device_ids[i] : i;
  o->device_ids = run->device_ids;
  o->n_ranks = o->n_devices;
  return YK_OK;
}

static yk_status resolve(yk_machine_run *run, yk_err *err)
{
  yk_machine_options *o = &run->options;
  YK_TRY(check_options(o, err));
  if (o->device == YK_DEVICE_CPU && o->device_ids)
    return yk_err_set(err, YK_E_INVAL, "device_ids: names GPUs, but device is cpu");
  if (o->device == YK_DEVICE_AUTO) o->device = yk_gpus_count() > 0 || o->device_ids ? YK_DEVICE_CUDA : YK_DEVICE_CPU;
  bool on_gpus = o->device == YK_DEVICE_CUDA;
  if (on_gpus) YK_TRY(choose_gpus(run, err));
  if (o->n_cpu_threads == 0) o->n_cpu_threads = (int)yk_max_i64(1, sysconf(_SC_NPROCESSORS_ONLN));
  set_default(&o->memory_bytes, on_gpus, INT64_C(2) << 30, INT64_C(1) << 30);
  set_default(&o->gemm_m, on_gpus, 4096, 64);
  set_default(&o->gemm_k, on_gpus, 4096, 4096);
  set_default(&o->gemm_n, on_gpus, 24576, 4096);
  set_default(&o->all_reduce_max_bytes, on_gpus, INT64_C(256) << 20, INT64_C(16) << 20);
  return YK_OK;
}

static yk_status measure_devices(yk_machine_run *run, yk_err *err)
{
  yk_machine_report *out = run->report;
  yk_machine_measure_memory(run);
  yk_machine_measure_gemm(run);
  if (out->device == YK_DEVICE_CUDA) yk_machine_measure_links(run);
  yk_machine_measure_all_reduces(run);
  if (run->status != YK_OK) return yk_err_set(err, run->status, "no memory for the rows of a machine's measurement");
  out->limits = yk_machine_limits_of(out);
  return YK_OK;
}

static yk_status measure(yk_machine_run *run, yk_err *err)
{
  yk_machine_group group;
  YK_TRY(resolve(run, err));
  run->report->device = run->options.device;
  yk_status status = yk_machine_join(&run->options, &group, err);
  if (status == YK_OK && yk_machine_is_first(&group)) status = measure_devices(run, err);
  if (status == YK_OK) status = yk_machine_measure_networks(run, &group, err);
  yk_machine_leave(&group, status == YK_OK);
  return status;
}

yk_status yk_machine_measure_sized(const yk_machine_options *options, yk_machine_report *out, size_t struct_size,
                                   yk_err *err)
{
  yk_machine_report report = {0};
  yk_machine_run run = {.options = defaults, .report = &report};
  yk_status status = yk_struct_read("yk_machine_options", options, YK_STRUCT_END(yk_machine_options, processes),
                                    &run.options, sizeof run.options, err);
  if (status == YK_OK) status = measure(&run, err);
  yk_struct_write(out, struct_size, &report, sizeof report);
  return status;
}

void yk_machine_report_free(yk_machine_report *report)
{
  free(report->rows);
  report->rows = NULL;
  if (report->struct_size >= sizeof *report) { /* a program of an older version has no networks */
    free(report->networks);
    report->networks = NULL;
    report->n_networks = 0;
  }
  report->n_rows = 0;
}
