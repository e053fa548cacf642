#include "cli/bench/bench_machine_json.h"

#include "base/status.h"

enum { MAX_DEVICES = 64 };

static json_t *number(bool applies, double value)
{
  return applies ? json_real(value) : json_null();
}

static json_t *integer(bool applies, int64_t value)
{
  return applies ? json_integer((json_int_t)value) : json_null();
}

static const char *unit_of(const yk_machine_row *row)
{
  return row->kind == YK_MACHINE_GEMM ? "flop/s" : "bytes/s";
}

static json_t *json_row(const yk_machine_row *row)
{
  bool is_there = row->error[0] == '\0', is_gemm = row->kind == YK_MACHINE_GEMM;
  return json_pack(
      "{s:s, s:s, s:o, s:o, s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "kind",
      yk_machine_kind_name(row->kind), "method", row->method, "device", integer(row->device >= 0, row->device), "to",
      integer(row->to >= 0, row->to), "ranks", row->n_ranks, "threads", integer(row->n_threads > 0, row->n_threads),
      "bytes", (json_int_t)row->n_bytes, "m", integer(is_gemm, row->m), "k", integer(is_gemm, row->k), "n",
      integer(is_gemm, row->n), "us", number(is_there, row->us), "us_low", number(is_there, row->us_low), "us_high",
      number(is_there, row->us_high), "rate", number(row->rate > 0, row->rate), "rate_unit", unit_of(row), "bus_rate",
      number(row->bus_rate > 0, row->bus_rate), "error", is_there ? json_null() : json_string(row->error));
}

/* The CPU, or the GPUs of the rows, by name; empty if a GPU has failed so that they cannot be listed. */
static json_t *json_devices(const yk_machine_report *report)
{
  yk_device_info devices[MAX_DEVICES];
  json_t *names = json_array();
  int n = 0;
  if (yk_device_list(devices, MAX_DEVICES, &n, NULL) != YK_OK) return names;
  for (int i = 0; i < n && i < MAX_DEVICES; i++) {
    int id = devices[i].kind == YK_DEVICE_CUDA ? devices[i].id : -1;
    bool is_measured = false;
    for (size_t r = 0; r < report->n_rows; r++)
      is_measured |= report->rows[r].kind == YK_MACHINE_MEMORY && report->rows[r].device == id;
    if (is_measured) json_array_append_new(names, json_string(devices[i].name));
  }
  return names;
}

static json_t *json_all_reduces(const yk_machine_limits *limits)
{
  json_t *all_reduces = json_array();
  for (int i = 0; i < limits->n_all_reduces; i++)
    json_array_append_new(all_reduces,
                          json_pack("{s:i, s:I, s:f}", "ranks", limits->all_reduces[i].n_ranks, "bytes",
                                    (json_int_t)limits->all_reduces[i].n_bytes, "us", limits->all_reduces[i].us));
  return all_reduces;
}

static json_t *json_networks(const yk_machine_report *report)
{
  json_t *networks = json_array();
  for (size_t i = 0; i < report->n_networks; i++) {
    const yk_machine_network *n = &report->networks[i];
    json_array_append_new(networks,
                          json_pack("{s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "from", n->from, "to",
                                    n->to, "from_host", n->from_host, "to_host", n->to_host, "transport", n->transport,
                                    "latency_us", n->latency_us, "latency_us_low", n->latency_us_low, "latency_us_high",
                                    n->latency_us_high, "bytes_per_s", n->bytes_per_s, "bytes_per_s_low",
                                    n->bytes_per_s_low, "bytes_per_s_high", n->bytes_per_s_high));
  }
  return networks;
}

yk_status yk_machine_json(const yk_machine_report *report, json_t **out, yk_err *err)
{
  const yk_machine_limits *limits = &report->limits;
  json_t *rows = json_array();
  for (size_t i = 0; i < report->n_rows; i++) json_array_append_new(rows, json_row(&report->rows[i]));
  *out = json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "yoke_machine", 1, "version", yk_version(),
                   "device", report->device == YK_DEVICE_CUDA ? "cuda" : "cpu", "devices", json_devices(report),
                   "memory_bytes_per_s", number(limits->memory_bytes_per_s > 0, limits->memory_bytes_per_s),
                   "gemm_flops", number(limits->gemm_flops > 0, limits->gemm_flops), "link_bytes_per_s",
                   number(limits->link_bytes_per_s > 0, limits->link_bytes_per_s), "all_reduce",
                   json_all_reduces(limits), "rows", rows, "network", json_networks(report));
  return *out ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a machine's measurement");
}
