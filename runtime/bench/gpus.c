#include "bench/gpus.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wait.h"
#include "bench/nvml.h"

enum { MAX_PROCESSES = 64, MAX_NAMED = 8 };

/* Figures that a GPU may refuse; each refusal is logged once. */
typedef enum figure {
  SM_CLOCK,
  MEMORY_CLOCK,
  TEMPERATURE,
  POWER,
  POWER_CAP,
  ENERGY,
  REASONS,
  PROCESSES,
  N_FIGURES
} figure;

static const double first_look_s = 0.05, look_s = 0.2, max_drift = 0.02;

typedef struct gpu {
  void *device; /* NVML's */
  yk_bench_gpu_run run;
  double start_j;
  bool was_looked_at;
} gpu;

struct yk_bench_gpus {
  yk_nvml nvml;
  const yk_log *log;
  int n;
  gpu list[YK_BENCH_MAX_GPUS]; /* owned by the sampling thread while it runs */
  bool is_reported[N_FIGURES];
  bool is_running;
  pthread_t thread;
  pthread_mutex_t mutex; /* guards all following fields */
  pthread_cond_t cv_stop;
  bool stops;
};

/* ---- Warnings */

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

static void warn_drift(const yk_bench_gpu_run *run, const char *which, double before, double after,
                       yk_bench_warnings *warnings)
{
  if (fabs(after - before) > max_drift * before) /* false if either is NaN */
    yk_bench_warn(warnings, "GPU %d: the %s clock %s from %.0f to %.0f MHz", run->id, which,
                  after < before ? "fell" : "rose", before, after);
}

static void warn_reasons(const yk_bench_gpu_run *run, yk_bench_warnings *warnings)
{
  static const struct {
    unsigned bit;
    const char *name;
  } reasons[] = {{0x2, "clocks set by an application"},
                 {0x4, "power cap"},
                 {0x8, "hardware slowdown"},
                 {0x10, "sync boost"},
                 {0x20, "heat (software)"},
                 {0x40, "heat (hardware)"},
                 {0x80, "power brake"}};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
    if (run->after.throttle_reasons & reasons[i].bit)
      yk_bench_warn(warnings, "GPU %d was slowed down: %s", run->id, reasons[i].name);
}

void yk_bench_gpus_compare(const yk_bench_gpu_run *runs, int n, yk_bench_warnings *warnings)
{
  for (int i = 0; i < n; i++) {
    warn_drift(&runs[i], "SM", runs[i].before.sm_clock_mhz, runs[i].after.sm_clock_mhz, warnings);
    warn_drift(&runs[i], "memory", runs[i].before.memory_clock_mhz, runs[i].after.memory_clock_mhz, warnings);
    warn_reasons(&runs[i], warnings);
  }
}

/* ---- Reading */

/* value if NVML returned a plausible one; else NaN, which is logged once. */
static double checked(yk_bench_gpus *gpus, figure which, int code, double value, double max)
{
  static const char *const names[N_FIGURES] = {
      "SM clock", "memory clock",           "temperature",    "power", "power cap",
      "energy",   "reasons for low clocks", "other processes"};
  if (code == YK_NVML_OK && value <= max) return value;
  if (!gpus->is_reported[which]) {
    gpus->is_reported[which] = true;
    if (code == YK_NVML_OK)
      yk_log_write(gpus->log, YK_LOG_WARN, "GPUs: %s is not measured: NVML reports %g", names[which], value);
    else
      yk_log_write(gpus->log, YK_LOG_WARN, "GPUs: %s is not measured: NVML failed with code %d", names[which], code);
  }
  return NAN;
}

static double clock_mhz(yk_bench_gpus *gpus, void *device, figure which, int clock)
{
  unsigned value = 0;
  if (!gpus->nvml.clock) return NAN;
  int code = gpus->nvml.clock(device, clock, &value);
  return checked(gpus, which, code, value, 100000);
}

static double temperature_c(yk_bench_gpus *gpus, void *device)
{
  unsigned value = 0;
  if (!gpus->nvml.temperature) return NAN;
  int code = gpus->nvml.temperature(device, YK_NVML_TEMPERATURE_GPU, &value);
  return checked(gpus, TEMPERATURE, code, value, 1000);
}

static double power_w(yk_bench_gpus *gpus, void *device, figure which, int (*read)(void *, unsigned *))
{
  unsigned value = 0;
  if (!read) return NAN;
  int code = read(device, &value);
  return checked(gpus, which, code, value * 1e-3, 100000);
}

static double energy_j(yk_bench_gpus *gpus, void *device)
{
  unsigned long long value = 0;
  if (!gpus->nvml.energy) return NAN;
  int code = gpus->nvml.energy(device, &value);
  return checked(gpus, ENERGY, code, (double)value * 1e-3, 1e15);
}

static uint64_t slowed(yk_bench_gpus *gpus, void *device)
{
  unsigned long long value = 0;
  if (!gpus->nvml.slowed) return 0;
  int code = gpus->nvml.slowed(device, &value);
  return isnan(checked(gpus, REASONS, code, 0, 1)) ? 0 : value & YK_NVML_SLOWED;
}

static void look(yk_bench_gpus *gpus, gpu *g)
{
  yk_bench_gpu_state now = {.sm_clock_mhz = clock_mhz(gpus, g->device, SM_CLOCK, YK_NVML_CLOCK_SM),
                            .memory_clock_mhz = clock_mhz(gpus, g->device, MEMORY_CLOCK, YK_NVML_CLOCK_MEMORY),
                            .temperature_c = temperature_c(gpus, g->device),
                            .power_w = power_w(gpus, g->device, POWER, gpus->nvml.power),
                            .power_cap_w = power_w(gpus, g->device, POWER_CAP, gpus->nvml.power_cap),
                            .throttle_reasons = slowed(gpus, g->device)};
  if (!g->was_looked_at) g->run.before = now;
  now.throttle_reasons |= g->run.after.throttle_reasons;
  g->run.after = now;
  g->was_looked_at = true;
}

static void *look_again_and_again(void *user)
{
  yk_bench_gpus *gpus = user;
  struct timespec next = yk_wait_deadline(first_look_s);
  pthread_mutex_lock(&gpus->mutex);
  while (!gpus->stops) {
    if (pthread_cond_timedwait(&gpus->cv_stop, &gpus->mutex, &next) == 0) continue;
    pthread_mutex_unlock(&gpus->mutex);
    for (int i = 0; i < gpus->n; i++) look(gpus, &gpus->list[i]);
    next = yk_wait_deadline(look_s);
    pthread_mutex_lock(&gpus->mutex);
  }
  pthread_mutex_unlock(&gpus->mutex);
  return NULL;
}

/* ---- Runs */

yk_status yk_bench_gpus_start(yk_bench_gpus *gpus, yk_err *err)
{
  static const yk_bench_gpu_state unknown = {NAN, NAN, NAN, NAN, NAN, 0};
  if (!gpus) return YK_OK;
  gpus->stops = false;
  for (int i = 0; i < gpus->n; i++) {
    gpu *g = &gpus->list[i];
    g->was_looked_at = false;
    g->run.before = g->run.after = unknown;
    g->start_j = energy_j(gpus, g->device);
  }
  if (pthread_create(&gpus->thread, NULL, look_again_and_again, gpus) != 0)
    return yk_err_set(err, YK_E_INTERNAL, "no thread can be started to look at GPUs");
  gpus->is_running = true;
  return YK_OK;
}

int yk_bench_gpus_stop(yk_bench_gpus *gpus, yk_bench_gpu_run *runs)
{
  if (!gpus || !gpus->is_running) return 0;
  double end_j[YK_BENCH_MAX_GPUS];
  pthread_mutex_lock(&gpus->mutex);
  gpus->stops = true;
  pthread_cond_signal(&gpus->cv_stop);
  pthread_mutex_unlock(&gpus->mutex);
  pthread_join(gpus->thread, NULL);
  gpus->is_running = false;
  for (int i = 0; i < gpus->n; i++) end_j[i] = energy_j(gpus, gpus->list[i].device);
  for (int i = 0; i < gpus->n; i++) {
    gpu *g = &gpus->list[i];
    /* the counter restarts at 0 if the driver is reloaded */
    g->run.energy_j = end_j[i] >= g->start_j ? end_j[i] - g->start_j : NAN;
    runs[i] = g->run;
  }
  return gpus->n;
}

/* ---- Other processes */

static void find_others_on(yk_bench_gpus *gpus, const gpu *g, yk_bench_warnings *warnings)
{
  yk_nvml_process processes[MAX_PROCESSES];
  unsigned n = MAX_PROCESSES;
  char names[MAX_NAMED * 12 + 1] = "";
  int n_others = 0;
  int code = gpus->nvml.processes(g->device, &n, processes);
  if (code == YK_NVML_TOO_SMALL) {
    yk_bench_warn(warnings, "GPU %d: more than %d processes use it", g->run.id, MAX_PROCESSES);
    return;
  }
  if (isnan(checked(gpus, PROCESSES, code, n, MAX_PROCESSES))) return;
  for (unsigned i = 0; i < n; i++) {
    if (processes[i].pid == (unsigned)getpid()) continue;
    size_t used = strlen(names);
    if (n_others++ < MAX_NAMED) snprintf(names + used, sizeof names - used, "%s%u", used ? ", " : "", processes[i].pid);
  }
  if (n_others > 0)
    yk_bench_warn(warnings, "GPU %d: other processes use it: %s%s", g->run.id, names,
                  n_others > MAX_NAMED ? ", ..." : "");
}

void yk_bench_gpus_find_others(yk_bench_gpus *gpus, yk_bench_warnings *warnings)
{
  for (int i = 0; gpus && gpus->nvml.processes && i < gpus->n; i++) find_others_on(gpus, &gpus->list[i], warnings);
}

/* ---- Opening */

static bool find_gpu(yk_bench_gpus *gpus, int id)
{
  char bus_id[YK_NVML_PCI_BYTES];
  gpu *g = &gpus->list[gpus->n];
  if (!yk_nvml_bus_id(id, bus_id, gpus->log)) return false;
  int code = gpus->nvml.handle(bus_id, &g->device);
  if (code != YK_NVML_OK) {
    yk_log_write(gpus->log, YK_LOG_WARN,
                 "energy, clocks and temperature of GPU %d are not measured: NVML does not find %s (code %d)", id,
                 bus_id, code);
    return false;
  }
  g->run.id = id;
  gpus->n++;
  return true;
}

yk_status yk_bench_gpus_open(const int *ids, int n_ids, const yk_log *log, yk_bench_gpus **out, yk_err *err)
{
  *out = NULL;
  if (n_ids < 1) return yk_err_set(err, YK_E_INVAL, "n_ids: expected at least 1, found %d", n_ids);
  if (n_ids > YK_BENCH_MAX_GPUS) {
    yk_log_write(log, YK_LOG_WARN,
                 "energy, clocks and temperature are not measured: expected at most %d GPUs, found %d",
                 YK_BENCH_MAX_GPUS, n_ids);
    return YK_OK;
  }
  yk_bench_gpus *gpus = calloc(1, sizeof *gpus);
  if (!gpus) return yk_err_set(err, YK_E_NOMEM, "no memory for %d GPUs", n_ids);
  gpus->log = log;
  if (!yk_nvml_load(&gpus->nvml, log)) {
    free(gpus);
    return YK_OK;
  }
  pthread_mutex_init(&gpus->mutex, NULL);
  yk_cond_init(&gpus->cv_stop);
  for (int i = 0; i < n_ids; i++) /* all or none, so that sums are complete */
    if (!find_gpu(gpus, ids[i])) {
      yk_bench_gpus_close(gpus);
      return YK_OK;
    }
  *out = gpus;
  return YK_OK;
}

void yk_bench_gpus_close(yk_bench_gpus *gpus)
{
  if (!gpus) return;
  yk_bench_gpu_run runs[YK_BENCH_MAX_GPUS];
  yk_bench_gpus_stop(gpus, runs);
  pthread_cond_destroy(&gpus->cv_stop);
  pthread_mutex_destroy(&gpus->mutex);
  free(gpus);
}
