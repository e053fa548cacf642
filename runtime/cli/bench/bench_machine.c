/* yoke bench machine - measures the devices of this machine, without a model. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/bench/bench_machine_json.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/options/device_ids.h"
#include "cli/options/process_options.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

typedef struct settings {
  yk_machine_options machine;
  int device;
  yk_device_ids devices;
  int32_t n_ranks, n_threads, n_repeats;
  bool ranks_given;
  bool has_head; /* the table's head has been printed */
  yk_process_options processes;
  yk_console console;
  const char *output_path;
} settings;

static const char examples[] = "  yoke bench machine\n"
                               "  yoke bench machine --devices 0,1 --output machine.json\n"
                               "  yoke bench machine --device cpu --ranks 2 --all-reduce-max 1MiB\n"
                               "  mpirun -n 2 yoke bench machine --output machine.json\n";

static yk_status parse_gemm(void *user, const char *text, yk_err *err)
{
  yk_machine_options *machine = user;
  long long m, k, n;
  int end = 0;
  if (sscanf(text, "%lldx%lldx%lld%n", &m, &k, &n, &end) != 3 || text[end] || m < 1 || k < 1 || n < 1)
    return yk_err_set(err, YK_E_INVAL, "expected rows x inputs x outputs, as 4096x4096x24576, found \"%.40s\"", text);
  machine->gemm_m = m;
  machine->gemm_k = k;
  machine->gemm_n = n;
  return YK_OK;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void print_head(void)
{
  printf("%-10s  %-18s  %-12s  %15s  %11s  %11s  %11s  %12s  %s\n", "what", "how", "where", "size", "us", "fastest",
         "slowest", "rate", "bus rate");
}

static void describe_place(const yk_machine_row *row, char text[32])
{
  if (row->kind == YK_MACHINE_ALL_REDUCE)
    snprintf(text, 32, "%d ranks", row->n_ranks);
  else if (row->to >= 0)
    snprintf(text, 32, "GPU %d to %d", row->device, row->to);
  else if (row->device >= 0)
    snprintf(text, 32, "GPU %d", row->device);
  else
    snprintf(text, 32, "%d thread%s", row->n_threads, row->n_threads == 1 ? "" : "s");
}

static void describe_rate(const yk_machine_row *row, double rate, char text[32])
{
  if (rate == 0)
    text[0] = '\0';
  else if (row->kind == YK_MACHINE_GEMM)
    snprintf(text, 32, "%.1f GFLOP/s", rate * 1e-9);
  else
    snprintf(text, 32, "%.2f GB/s", rate * 1e-9);
}

static void print_row(void *user, const yk_machine_row *row)
{
  bool *has_head = user;
  char place[32], size[YK_BYTES_TEXT], rate[32], bus_rate[32];
  if (!*has_head) print_head();
  *has_head = true;
  describe_place(row, place);
  if (row->kind == YK_MACHINE_GEMM)
    snprintf(size, sizeof size, "%lldx%lldx%lld", (long long)row->m, (long long)row->k, (long long)row->n);
  else
    yk_bytes_format(row->n_bytes, size);
  printf("%-10s  %-18s  %-12s  %15s", yk_machine_kind_name(row->kind), row->method, place, size);
  if (row->error[0]) {
    printf("  FAILED: %s\n", row->error);
  } else {
    describe_rate(row, row->rate, rate);
    describe_rate(row, row->bus_rate, bus_rate);
    printf("  %11.2f  %11.2f  %11.2f  %12s%s%s\n", row->us, row->us_low, row->us_high, rate, bus_rate[0] ? "  " : "",
           bus_rate);
  }
  fflush(stdout);
}

static void print_limits(const yk_machine_limits *limits)
{
  printf("\nLimits: memory %.1f GB/s, GEMM %.1f GFLOP/s", limits->memory_bytes_per_s * 1e-9, limits->gemm_flops * 1e-9);
  if (limits->link_bytes_per_s > 0) printf(", slowest link %.1f GB/s", limits->link_bytes_per_s * 1e-9);
  printf(".\nBus rate: rate * 2 (n - 1) / n of n ranks, as nccl-tests define it.\n");
}

static void print_networks(const yk_machine_report *report)
{
  if (report->n_networks > 0)
    printf("\n%-10s  %-18s  %-18s  %11s  %11s  %11s  %12s\n", "network", "from", "to", "us", "fastest", "slowest",
           "rate");
  for (size_t i = 0; i < report->n_networks; i++) {
    const yk_machine_network *n = &report->networks[i];
    char from[96], to[96];
    snprintf(from, sizeof from, "%d, %s", n->from, n->from_host);
    snprintf(to, sizeof to, "%d, %s", n->to, n->to_host);
    printf("%-10s  %-18s  %-18s  %11.2f  %11.2f  %11.2f  %7.2f GB/s\n", n->transport, from, to, n->latency_us,
           n->latency_us_low, n->latency_us_high, n->bytes_per_s * 1e-9);
  }
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* Opened before the measurement, so that a wrong path is reported at once; truncated only when there is a result. */
static yk_status open_output(const char *path, FILE **out, yk_err *err)
{
  *out = NULL;
  if (!path) return YK_OK;
  *out = fopen(path, "ab");
  return *out ? YK_OK : yk_err_set(err, YK_E_IO, "--output: %s: %s", path, strerror(errno));
}

static yk_status write_output(FILE *file, const char *path, const yk_machine_report *report, yk_err *err)
{
  json_t *object;
  YK_TRY(yk_machine_json(report, &object, err));
  errno = 0;
  bool is_written = ftruncate(fileno(file), 0) == 0 && json_dumpf(object, file, JSON_INDENT(1)) == 0 &&
                    fputc('\n', file) != EOF && fflush(file) == 0;
  json_decref(object);
  if (is_written) return YK_OK;
  return yk_err_set(err, YK_E_IO, "--output: %s: %s", path, errno ? strerror(errno) : "a write failed");
}

static yk_status check_rows(const yk_machine_report *report, yk_err *err)
{
  size_t n_failed = 0;
  for (size_t i = 0; i < report->n_rows; i++) n_failed += report->rows[i].error[0] != '\0';
  if (n_failed == 0) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%zu of %zu measurements failed: see their rows", n_failed, report->n_rows);
}

static yk_status run(settings *s, yk_err *err)
{
  FILE *output;
  yk_machine_report report;
  const bool follows = s->machine.processes.process > 0;
  YK_TRY(open_output(follows ? NULL : s->output_path, &output, err));
  yk_status status = yk_machine_measure(&s->machine, &report, err);
  if (status == YK_OK && !follows) print_limits(&report.limits);
  if (status == YK_OK && !follows) print_networks(&report);
  if (status == YK_OK && output) status = write_output(output, s->output_path, &report, err);
  if (status == YK_OK) status = check_rows(&report, err);
  if (output) fclose(output);
  yk_machine_report_free(&report);
  if (status == YK_OK) status = yk_cli_flush(err);
  return status;
}

/* The processes of the options or of a launcher. */
static yk_status apply_processes(settings *s, yk_err *err)
{
  yk_engine_options engine;
  yk_engine_options_init(&engine);
  YK_TRY(yk_process_options_apply(&s->processes, &engine, err));
  yk_console_init(&s->console, YK_LOG_INFO);
  s->machine.processes = (yk_machine_processes){.n = engine.n_processes,
                                                .process = engine.process,
                                                .starts_by_mpi = engine.starts_by_mpi,
                                                .master_host = engine.master_host,
                                                .master_port = engine.master_port,
                                                .key = engine.process_key,
                                                .hosts = engine.process_hosts,
                                                .n_hosts = engine.n_process_hosts,
                                                .start_timeout_s = engine.start_timeout_s,
                                                .log = s->console.log};
  return YK_OK;
}

static yk_status apply(settings *s, yk_err *err)
{
  yk_machine_options *machine = &s->machine;
  YK_TRY(apply_processes(s, err));
  YK_TRY(yk_device_ids_check(&s->devices, s->device, 0, "--ranks", err));
  if (s->ranks_given && s->device != YK_DEVICE_CPU)
    return yk_err_set(err, YK_E_INVAL, "--ranks: expected --device cpu with it, found GPUs; use --devices, as 0,1");
  if (machine->gemm_k % 128 || machine->gemm_n % 128)
    return yk_err_set(err, YK_E_INVAL,
                      "--gemm: expected inputs and outputs that are multiples of 128, found %lld, %lld",
                      (long long)machine->gemm_k, (long long)machine->gemm_n);
  machine->device = (yk_device_kind)s->device;
  machine->device_ids = s->devices.n ? s->devices.ids : NULL;
  machine->n_devices = (int)s->devices.n;
  machine->n_ranks = s->n_ranks;
  machine->n_cpu_threads = s->n_threads;
  machine->n_repeats = s->n_repeats;
  machine->on_row = print_row;
  machine->on_row_user = &s->has_head;
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(settings *s, int argc, char **argv, int *exit_code)
{
  const yk_option table[] = {
      {"device", NULL, YK_OPTION_CHOICE, &s->device, NULL, .help = "auto takes CUDA where there is a device",
       .choices = yk_device_names},
      {"devices", NULL, YK_OPTION_CALL, &s->devices, "LIST", .help = "GPUs to measure, as 0,2,3", .fallback = "all",
       .parse = yk_device_ids_parse},
      {"ranks", NULL, YK_OPTION_INT, &s->n_ranks, "N", .help = "with --device cpu: all-reduces of 2 to N ranks",
       .min = 1, .max = YK_MAX_RANKS, .given = &s->ranks_given},
      {"threads", "t", YK_OPTION_INT, &s->n_threads, "N", .help = "CPU threads of all ranks", .fallback = "every core",
       .min = 1, .max = 1024},
      {"memory-bytes", NULL, YK_OPTION_BYTES, &s->machine.memory_bytes, "SIZE",
       .help = "of reads and copies: more than caches hold", .fallback = "2 GiB on GPUs, 1 GiB on CPUs"},
      {"gemm", NULL, YK_OPTION_CALL, &s->machine, "MxKxN", .help = "rows x inputs x outputs",
       .fallback = "4096x4096x24576 on GPUs, 64x4096x4096 on CPUs", .parse = parse_gemm},
      {"all-reduce-max", NULL, YK_OPTION_BYTES, &s->machine.all_reduce_max_bytes, "SIZE",
       .help = "largest all-reduce, at most 1 GiB; from 1 KiB in steps of 4",
       .fallback = "256 MiB on GPUs, 16 MiB on CPUs", .min = 1024},
      {"repeats", NULL, YK_OPTION_INT, &s->n_repeats, "N", .help = "of each measurement; the median counts", .min = 3,
       .max = 100},
      {"output", "o", YK_OPTION_STRING, &s->output_path, "FILE", .help = "also write rows and limits as JSON"},
  };
  yk_option process_table[YK_PROCESS_OPTIONS];
  yk_process_options_fill(&s->processes, process_table);
  const yk_option_group groups[] = {{"Machine", table, sizeof table / sizeof *table},
                                    {"Processes", process_table, YK_PROCESS_OPTIONS}};
  const yk_command command = {
      "yoke bench machine",
      "[options]",
      "Measure memory, GEMM rate and links of this machine's devices, and all-reduces over sizes and rank counts, "
      "Yoke's beside NCCL's, with their values checked. Times are medians with the fastest and slowest repeat; rates "
      "are of the median. Needs no model. The row of a failed measurement has the reason, and the exit code is then "
      "1. With several processes, process 0 measures its devices; then each pair of processes the network between "
      "them, by the transport of CPU ranks (TCP or MPI): latency and rate of messages, for yoke plan --link.",
      examples,
      groups,
      .n_groups = 2};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  if (apply(s, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

int yk_cli_bench_machine(int argc, char **argv)
{
  settings s = {.device = YK_DEVICE_AUTO};
  int exit_code;
  yk_machine_options_init(&s.machine);
  yk_process_options_init(&s.processes);
  s.n_ranks = s.machine.n_ranks;
  s.n_repeats = s.machine.n_repeats;
  if (parse(&s, argc, argv, &exit_code)) {
    yk_err err = YK_ERR_INIT;
    exit_code = run(&s, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  }
  free(s.devices.ids);
  yk_process_options_free(&s.processes);
  return exit_code;
}
