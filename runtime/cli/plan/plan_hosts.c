#include "cli/plan/plan_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_tree.h"
#include "base/strbuf.h"
#include "yoke/yoke.h"

enum { DEFAULT_GPUS = 8, MAX_HOSTS = 64, NAME_BYTES = 128 };

static yk_status refuse_type(const char *name, yk_err *err)
{
  yk_strbuf known = YK_STRBUF_INIT;
  for (int i = 0; yk_gpu_type_at(i); i++) yk_strbuf_append_fmt(&known, "%s%s", i ? ", " : "", yk_gpu_type_at(i)->name);
  yk_err_set(err, YK_E_INVAL, "expected one of %s, found %.60s", known.failed ? "?" : known.data,
             name[0] ? name : "no GPU");
  yk_strbuf_free(&known);
  return YK_E_INVAL;
}

static yk_status parse_type(void *value, const char *text, yk_err *err)
{
  if (!yk_gpu_type_find(text)) return refuse_type(text, err);
  *(const char **)value = text;
  return YK_OK;
}

/* "400Gb" (bits), "50GB" (bytes), both a second; or a file. */
static yk_status parse_link(void *value, const char *text, yk_err *err)
{
  yk_plan_hosts_options *options = value;
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"Gb", 1e9 / 8}, {"Gb/s", 1e9 / 8}, {"Gbit", 1e9 / 8}, {"GB", 1e9}, {"GB/s", 1e9}};
  char *end;
  double number = strtod(text, &end);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (!(number > 0 && number < 1e6) || strcmp(end, units[i].unit) != 0) continue;
    options->link_bytes_per_s = number * units[i].bytes;
    options->link_path = NULL;
    return YK_OK;
  }
  options->link_path = text;
  if (end == text || access(text, R_OK) == 0) return YK_OK; /* does not begin with a rate, or is an existing file */
  return yk_err_set(err, YK_E_INVAL,
                    "expected a rate as 400Gb (bits a second) or 50GB (bytes), or a file of `yoke bench machine "
                    "--output` over several hosts, found \"%.40s\"",
                    text);
}

void yk_plan_hosts_init(yk_plan_hosts_options *options)
{
  *options = (yk_plan_hosts_options){.n_hosts = 1, .link_bytes_per_s = 400e9 / 8, .link_latency_us = 10};
}

void yk_plan_hosts_table(yk_plan_hosts_options *options, yk_option table[YK_PLAN_HOSTS_OPTIONS])
{
  const yk_option rows[YK_PLAN_HOSTS_OPTIONS] = {
      {"gpu", NULL, YK_OPTION_CALL, &options->gpu, "TYPE", .help = "H200, RTX 4090 ...: GPUs of the planned machine",
       .fallback = "this machine's", .parse = parse_type},
      {"gpus", NULL, YK_OPTION_INT, &options->gpus_per_host, "N", .help = "GPUs of each host",
       .fallback = "this machine's, or 8", .min = 1, .max = YK_MAX_RANKS, .given = &options->gpus_given},
      {"machine", NULL, YK_OPTION_STRING, &options->machine_path, "FILE",
       .help = "rates and all-reduces of such a host, by `yoke bench machine --output`", .fallback = "of the type"},
      {"nodes", NULL, YK_OPTION_INT, &options->n_hosts, "N", .help = "hosts; alone as with --goal throughput", .min = 1,
       .max = MAX_HOSTS, .given = &options->hosts_given},
      {"link", NULL, YK_OPTION_CALL, options, "RATE",
       .help =
           "network of each host, in one direction: 400Gb, 50GB, or a FILE of yoke bench machine over several hosts",
       .fallback = "400Gb", .parse = parse_link, .given = &options->link_given},
      {"link-latency", NULL, YK_OPTION_NUMBER, &options->link_latency_us, "US",
       .help = "time of a small message between hosts", .max = 1e6, .given = &options->latency_given},
  };
  memcpy(table, rows, sizeof rows);
}

yk_status yk_plan_hosts_check(const yk_plan_hosts_options *options, bool ranks_layouts, yk_err *err)
{
  const bool needs_hosts = options->link_given || options->latency_given;
  const char *name = options->gpu            ? "--gpu"
                     : options->machine_path ? "--machine"
                     : options->gpus_given   ? "--gpus"
                                             : NULL;
  if (needs_hosts && options->n_hosts < 2)
    return yk_err_set(err, YK_E_INVAL, "%s: expected --nodes 2 or more with it, whose network it is",
                      options->link_given ? "--link" : "--link-latency");
  if (name && !ranks_layouts)
    return yk_err_set(err, YK_E_INVAL, "%s: expected --goal or --nodes with it, which rank layouts", name);
  return YK_OK;
}

static yk_status read_machine(const char *path, yk_machine_rates *rates, char name[NAME_BYTES], yk_err *err)
{
  json_t *document;
  YK_TRY(yk_tree_parse_file(path, &document, err));
  const char *device = json_string_value(json_array_get(json_object_get(document, "devices"), 0));
  snprintf(name, NAME_BYTES, "%s", device ? device : "");
  bool has_rates = yk_machine_rates_read(document, rates);
  json_decref(document);
  return has_rates ? YK_OK
                   : yk_err_set(err, YK_E_FORMAT,
                                "%s: expected memory_bytes_per_s and gemm_flops, as `yoke bench "
                                "machine --output` writes them",
                                path);
}

/* The slowest link between two hosts, and its latency unless the latency is given. */
static yk_status read_links(const yk_plan_hosts_options *options, yk_layout_hosts *hosts, yk_err *err)
{
  json_t *document, *link;
  size_t i;
  double slowest = 0, latency_us = 0;
  YK_TRY(yk_tree_parse_file(options->link_path, &document, err));
  json_array_foreach(json_object_get(document, "network"), i, link)
  {
    const char *from = json_string_value(json_object_get(link, "from_host"));
    const char *to = json_string_value(json_object_get(link, "to_host"));
    const double rate = json_number_value(json_object_get(link, "bytes_per_s"));
    if (!from || !to || strcmp(from, to) == 0 || !(rate > 0) || (slowest > 0 && rate >= slowest)) continue;
    slowest = rate;
    latency_us = json_number_value(json_object_get(link, "latency_us"));
  }
  json_decref(document);
  if (!(slowest > 0))
    return yk_err_set(
        err, YK_E_FORMAT,
        "%s: expected a network between two hosts, as `yoke bench machine --output` writes with processes "
        "on several hosts",
        options->link_path);
  hosts->link_bytes_per_s = slowest;
  if (!options->latency_given) hosts->link_latency_s = latency_us * 1e-6;
  return YK_OK;
}

/* The first GPU's name and memory, and how many there are; without GPUs nothing changes. */
static yk_status look_here(char name[NAME_BYTES], int64_t *memory_bytes, int *n_gpus, yk_err *err)
{
  yk_device_info devices[YK_MAX_RANKS + 1];
  int n;
  memset(devices, 0, sizeof devices);
  for (int i = 0; i <= YK_MAX_RANKS; i++) devices[i].struct_size = sizeof devices[i];
  YK_TRY(yk_device_list(devices, YK_MAX_RANKS + 1, &n, err));
  for (int i = n < YK_MAX_RANKS + 1 ? n : YK_MAX_RANKS + 1; i-- > 0;) {
    if (devices[i].kind != YK_DEVICE_CUDA) continue;
    snprintf(name, NAME_BYTES, "%s", devices[i].name);
    *memory_bytes = devices[i].total_bytes;
    ++*n_gpus;
  }
  return YK_OK;
}

yk_status yk_plan_hosts_find(const yk_plan_hosts_options *options, yk_layout_hosts *hosts, int64_t *memory_bytes,
                             yk_err *err)
{
  char name[NAME_BYTES] = "";
  int n_gpus = 0;
  int64_t own_bytes = 0;
  *hosts = (yk_layout_hosts){.n_hosts = options->n_hosts,
                             .link_bytes_per_s = options->link_bytes_per_s,
                             .link_latency_s = options->link_latency_us * 1e-6};
  if (options->link_path) YK_TRY(read_links(options, hosts, err));
  if (options->machine_path) YK_TRY(read_machine(options->machine_path, &hosts->rates, name, err));
  if (options->gpu) {
    snprintf(name, sizeof name, "%s", options->gpu);
  } else if (!options->machine_path) {
    YK_TRY(look_here(name, &own_bytes, &n_gpus, err));
  }
  const yk_gpu_type *type = yk_gpu_type_find(name);
  if (!type) {
    refuse_type(name, err);
    yk_err_prefix(err, "name the GPUs by --gpu");
    return YK_E_INVAL;
  }
  hosts->gpu = *type;
  if (!options->machine_path) hosts->rates = yk_gpu_type_rates(type);
  hosts->gpus_per_host = options->gpus_per_host ? options->gpus_per_host : n_gpus ? n_gpus : DEFAULT_GPUS;
  *memory_bytes = own_bytes ? own_bytes : (int64_t)type->memory_bytes;
  return YK_OK;
}
