#include "cli/plan/plan_links.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"

/* The GPUs on which ranks would run. */
typedef struct gpu_list {
  int n;
  int ids[YK_MAX_RANKS];
  yk_device_info gpus[YK_MAX_RANKS];
} gpu_list;

static const yk_device_info *find_gpu(const yk_device_info *devices, int n, int id)
{
  for (int i = 0; i < n; i++)
    if (devices[i].kind == YK_DEVICE_CUDA && devices[i].id == id) return &devices[i];
  return NULL;
}

/* Keeps the requested GPUs that this machine has: a plan may be for another machine. */
static void choose_gpus(const yk_links_options *options, const yk_device_info *devices, int n_devices, gpu_list *out)
{
  for (int i = 0; i < options->n_devices; i++) {
    const yk_device_info *gpu = find_gpu(devices, n_devices, options->device_ids ? options->device_ids[i] : i);
    if (!gpu) continue;
    out->ids[out->n] = gpu->id;
    out->gpus[out->n++] = *gpu;
  }
}

static yk_status list_gpus(const yk_links_options *options, gpu_list *out, yk_err *err)
{
  int n = 0;
  *out = (gpu_list){0};
  if (!options->wants_gpus) return YK_OK;
  YK_TRY(yk_device_list(NULL, 0, &n, err));
  yk_device_info *devices = calloc((size_t)n, sizeof *devices);
  if (!devices) return yk_err_set(err, YK_E_NOMEM, "no memory to list GPUs");
  yk_status status = yk_device_list(devices, n, &n, err);
  if (status == YK_OK) choose_gpus(options, devices, n, out);
  free(devices);
  return status;
}

static void print_gpus(const gpu_list *list)
{
  char total[YK_BYTES_TEXT], available[YK_BYTES_TEXT];
  printf("\n%5s  %10s  %10s  %s\n", "GPU", "memory", "free", "name");
  for (int i = 0; i < list->n; i++)
    printf("%5d  %10s  %10s  %s\n", list->gpus[i].id, yk_bytes_format(list->gpus[i].total_bytes, total),
           yk_bytes_format(list->gpus[i].free_bytes, available), list->gpus[i].name);
}

static void print_link(const yk_link *link)
{
  printf("%5d  %5d  %-11s", link->from, link->to, link->peer_access ? "yes" : "no");
  if (link->error[0])
    printf("  FAILED: %s\n", link->error);
  else if (link->is_measured)
    printf("  %10.1f  %10.2f\n", link->copy_gb_s, link->latency_us);
  else
    printf("  %10s  %10s\n", "-", "-");
}

static void print_all_reduces(const yk_link_report *report, int n_gpus)
{
  if (report->all_reduce_error[0]) printf("All-reduce over %d GPUs FAILED: %s\n", n_gpus, report->all_reduce_error);
  for (int i = 0; i < report->n_all_reduces; i++) {
    char size[YK_BYTES_TEXT];
    printf("All-reduce over %d GPUs with residual and norm, %s: %.1f us (%s)\n", n_gpus,
           yk_bytes_format(report->all_reduces[i].n_bytes, size), report->all_reduces[i].us,
           report->all_reduces[i].route);
  }
}

static void print_text(const gpu_list *list, const yk_link_report *report, bool measures)
{
  if (list->n) print_gpus(list);
  if (list->n < 2) {
    printf("\nThere are no GPU links: %s.\n", list->n ? "one GPU" : "ranks run on the CPU");
    return;
  }
  printf("\nLinks: peer access; copies of 32 MiB in GB/s; a copy of 4 bytes in us%s.\n",
         measures ? "" : " (not measured)");
  printf("%5s  %5s  %-11s  %10s  %10s\n", "from", "to", "peer access", "GB/s", "us");
  for (int i = 0; i < report->n_links; i++) print_link(&report->links[i]);
  print_all_reduces(report, list->n);
}

static json_t *json_number(bool known, double value)
{
  return known ? json_real(value) : json_null();
}

static json_t *json_links(const yk_link_report *report)
{
  json_t *links = json_array();
  for (int i = 0; i < report->n_links; i++) {
    const yk_link *link = &report->links[i];
    json_array_append_new(links, json_pack("{s:i, s:i, s:b, s:o, s:o, s:s}", "from", link->from, "to", link->to,
                                           "peer_access", link->peer_access, "copy_gb_s",
                                           json_number(link->is_measured, link->copy_gb_s), "latency_us",
                                           json_number(link->is_measured, link->latency_us), "error", link->error));
  }
  return links;
}

static yk_status print_json(const gpu_list *list, const yk_link_report *report, yk_err *err)
{
  json_t *gpus = json_array(), *all_reduces = json_array();
  for (int i = 0; i < list->n; i++)
    json_array_append_new(gpus, json_pack("{s:i, s:s, s:I, s:I}", "id", list->gpus[i].id, "name", list->gpus[i].name,
                                          "free_bytes", (json_int_t)list->gpus[i].free_bytes, "total_bytes",
                                          (json_int_t)list->gpus[i].total_bytes));
  for (int i = 0; i < report->n_all_reduces; i++)
    json_array_append_new(all_reduces,
                          json_pack("{s:I, s:f, s:s}", "n_bytes", (json_int_t)report->all_reduces[i].n_bytes, "us",
                                    report->all_reduces[i].us, "route", report->all_reduces[i].route));
  json_t *object = json_pack("{s:o, s:o, s:o, s:s}", "gpus", gpus, "links", json_links(report), "all_reduces",
                             all_reduces, "all_reduce_error", report->all_reduce_error);
  int failed = object ? json_dumpf(object, stdout, JSON_COMPACT) : -1;
  json_decref(object);
  if (failed) return yk_err_set(err, YK_E_NOMEM, "no memory to print links");
  putchar('\n');
  return YK_OK;
}

yk_status yk_plan_links_print(const yk_links_options *options, yk_err *err)
{
  gpu_list list;
  yk_link_report report = {0};
  YK_TRY(list_gpus(options, &list, err));
  yk_status status = YK_OK;
  if (list.n > 1) status = yk_links_test(list.ids, list.n, options->measures, &report, err);
  if (status == YK_OK && options->as_json)
    status = print_json(&list, &report, err);
  else if (status == YK_OK)
    print_text(&list, &report, options->measures);
  yk_link_report_free(&report);
  return status;
}
