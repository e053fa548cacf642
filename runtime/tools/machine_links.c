/* machine_links.c - measures every link between the GPUs: one way, and both ways at once. */
#include "tools/gpu_times.h"
#include "tools/machine_run.h"

static void measure_way(yk_machine_run *run, int from, int to)
{
  yk_err err = YK_ERR_INIT;
  yk_link_times times = {0};
  yk_status status = yk_gpu_times_link(from, to, run->options.n_repeats, &times, &err);
  yk_machine_row row = {
      .kind = YK_MACHINE_LINK, .method = "copy", .device = from, .to = to, .n_ranks = 1, .n_bytes = times.n_bytes};
  yk_machine_add(run, &row, status, &times.copy_us, &err);
  row.kind = YK_MACHINE_LATENCY;
  row.n_bytes = 4;
  yk_machine_add(run, &row, status, &times.latency_us, &err);
}

static void measure_both_ways(yk_machine_run *run, int one, int other)
{
  yk_err err = YK_ERR_INIT;
  yk_link_times times = {0};
  yk_status status = yk_gpu_times_both_ways(one, other, run->options.n_repeats, &times, &err);
  const yk_machine_row row = {.kind = YK_MACHINE_LINK,
                              .method = "both ways",
                              .device = one,
                              .to = other,
                              .n_ranks = 1,
                              .n_bytes = 2 * times.n_bytes};
  yk_machine_add(run, &row, status, &times.copy_us, &err);
}

void yk_machine_measure_links(yk_machine_run *run)
{
  const int *ids = run->options.device_ids;
  for (int i = 0; i < run->options.n_devices; i++)
    for (int j = 0; j < run->options.n_devices; j++)
      if (i != j) measure_way(run, ids[i], ids[j]);
  for (int i = 0; i < run->options.n_devices; i++)
    for (int j = i + 1; j < run->options.n_devices; j++) measure_both_ways(run, ids[i], ids[j]);
}
