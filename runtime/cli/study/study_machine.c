#include "cli/study/study_machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/bench/bench_machine_json.h"

enum { DEVICES_MAX = 64 };

/* "model name" of the first processor; "unknown" if the system does not provide one. */
static void cpu_name(char *name, size_t n_bytes)
{
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(name, n_bytes, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(name, n_bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  if (file) fclose(file);
}

static json_t *device_names(const yk_device_info *devices, int n, yk_device_kind kind)
{
  json_t *names = json_array();
  for (int i = 0; i < n && i < DEVICES_MAX; i++)
    if (devices[i].kind == kind) json_array_append_new(names, json_string(devices[i].name));
  return names;
}

/* Copies the limits of a measurement that studies use. */
static yk_status keep_limits(json_t *machine, const json_t *limits, const char *name, yk_err *err)
{
  static const char *const keys[] = {"memory_bytes_per_s", "gemm_flops", "link_bytes_per_s", "all_reduce"};
  double rate = 0;
  if (!json_is_object(limits))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", name, yk_tree_type_name(limits));
  YK_TRY(yk_tree_get_f64(limits, name, "memory_bytes_per_s", true, 1, 1e18, &rate, err));
  YK_TRY(yk_tree_get_f64(limits, name, "gemm_flops", true, 1, 1e21, &rate, err));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(limits, keys[i])) json_object_set(machine, keys[i], json_object_get(limits, keys[i]));
  return YK_OK;
}

static yk_status read_limits(json_t *machine, const char *path, yk_err *err)
{
  json_t *limits;
  YK_TRY(yk_tree_parse_file(path, &limits, err));
  yk_status status = keep_limits(machine, limits, path, err);
  json_decref(limits);
  return status;
}

static void print_row(void *log, const yk_machine_row *row)
{
  if (row->error[0])
    yk_log_write(log, YK_LOG_WARN, "measuring the machine: %s, %s: %s", yk_machine_kind_name(row->kind), row->method,
                 row->error);
}

/* Measures the limits. A machine with incomplete limits is described without them. */
static yk_status measure_limits(json_t *machine, const yk_engine_options *engine, const yk_log *log, yk_err *err)
{
  yk_machine_options options;
  yk_machine_report report;
  yk_err missing = YK_ERR_INIT;
  json_t *limits = NULL;
  yk_machine_options_init(&options);
  options.device = engine->device;
  options.device_ids = engine->device_ids;
  options.n_devices = engine->device_ids ? engine->n_ranks : 0;
  options.n_ranks = engine->n_ranks;
  options.n_cpu_threads = engine->n_cpu_threads;
  options.on_row = print_row;
  options.on_row_user = (void *)log;
  yk_log_write(log, YK_LOG_INFO, "measuring the machine");
  yk_status status = yk_machine_measure(&options, &report, err);
  if (status == YK_OK) status = yk_machine_json(&report, &limits, err);
  if (status == YK_OK && keep_limits(machine, limits, "the machine", &missing) != YK_OK)
    yk_log_write(log, YK_LOG_WARN, "there will be no limits in the study: %s", missing.message);
  json_decref(limits);
  yk_machine_report_free(&report);
  return status;
}

yk_status yk_study_machine(const yk_engine_options *engine, const char *limits, const yk_log *log, json_t **out,
                           yk_err *err)
{
  yk_device_info devices[DEVICES_MAX];
  char cpu[128];
  int n;
  YK_TRY(yk_device_list(devices, DEVICES_MAX, &n, err));
  bool on_gpus = engine->device != YK_DEVICE_CPU && n > 1;
  cpu_name(cpu, sizeof cpu);
  json_t *machine = json_pack("{s:s, s:o, s:s, s:I}", "device", on_gpus ? "cuda" : "cpu", "devices",
                              device_names(devices, n, on_gpus ? YK_DEVICE_CUDA : YK_DEVICE_CPU), "cpu", cpu, "n_cpus",
                              (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
  if (!machine) return yk_err_set(err, YK_E_NOMEM, "no memory to describe the machine");
  yk_status status = YK_OK;
  if (!limits)
    status = measure_limits(machine, engine, log, err);
  else if (strcmp(limits, "none") != 0)
    status = read_limits(machine, limits, err);
  if (status == YK_OK)
    *out = machine;
  else
    json_decref(machine);
  return status;
}
