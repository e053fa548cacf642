/* links.c - tests the connections between GPUs: each link alone, then all-reduces over all of them as in a model. */
#include <stdio.h>
#include <stdlib.h>

#include "base/struct_size.h"
#include "engine/machine/gpus.h"
#include "tools/all_reduce_times.h"
#include "tools/gpu_times.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

enum { N_REPEATS = 5 };
static const int32_t rows_of_all_reduce[YK_ALL_REDUCE_SIZES] = {2, 128}; /* 16 KiB, 1 MiB */

static int64_t bytes_of_all_reduce(int i)
{
  return (int64_t)rows_of_all_reduce[i] * YK_ALL_REDUCE_HIDDEN * 2;
}

static yk_status test_all_reduces(const int *device_ids, int n_devices, yk_link_report *out, yk_err *err)
{
  yk_all_reduce_times *times = NULL;
  const yk_all_reduce_options options = {.device = YK_DEVICE_CUDA,
                                         .n_ranks = n_devices,
                                         .device_ids = device_ids,
                                         .max_bytes = bytes_of_all_reduce(YK_ALL_REDUCE_SIZES - 1),
                                         .limit_s = 5};
  YK_TRY(yk_all_reduce_times_open(&options, &times, err));
  yk_status status = YK_OK;
  for (int i = 0; i < YK_ALL_REDUCE_SIZES && status == YK_OK; i++) {
    yk_spread us;
    const yk_all_reduce_case c = {.n_bytes = bytes_of_all_reduce(i), .add_norm = true, .n_repeats = N_REPEATS};
    status = yk_all_reduce_times_measure(times, &c, &us, err);
    if (status != YK_OK) continue;
    out->all_reduces[i] = (yk_all_reduce_time){
        .n_bytes = c.n_bytes, .us = us.median, .route = yk_all_reduce_times_route(times, rows_of_all_reduce[i])};
    out->n_all_reduces++;
  }
  yk_all_reduce_times_close(times);
  return status;
}

static yk_status test_links(const int *device_ids, int n_devices, bool measures, yk_link_report *out, yk_err *err)
{
  yk_err all_reduce_err = YK_ERR_INIT;
  YK_TRY(yk_gpus_check_list("links", device_ids, n_devices, err));
  out->links = calloc((size_t)(n_devices * n_devices), sizeof *out->links);
  if (!out->links) return yk_err_set(err, YK_E_NOMEM, "no memory for the links of %d GPUs", n_devices);
  for (int i = 0; i < n_devices; i++)
    for (int j = 0; j < n_devices; j++)
      if (i != j) yk_gpu_times_describe_link(device_ids[i], device_ids[j], measures, &out->links[out->n_links++]);
  if (measures && n_devices > 1) test_all_reduces(device_ids, n_devices, out, &all_reduce_err);
  snprintf(out->all_reduce_error, sizeof out->all_reduce_error, "%s", all_reduce_err.message);
  return YK_OK;
}

yk_status yk_links_test_sized(const int *device_ids, int n_devices, bool measures, yk_link_report *out,
                              size_t struct_size, yk_err *err)
{
  yk_link_report report = {0};
  yk_status status = test_links(device_ids, n_devices, measures, &report, err);
  yk_struct_write(out, struct_size, &report, sizeof report);
  return status;
}

void yk_link_report_free(yk_link_report *report)
{
  free(report->links);
  report->links = NULL;
  report->n_links = 0;
}
