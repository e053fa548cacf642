#include "bench/arrivals.h"

#include <math.h>

#include "base/rng.h"

enum { DRAW_ARRIVAL = 3 };

static void fill_from_trace(const yk_bench_load *load, int32_t n, double *times_s)
{
  const yk_bench_trace *trace = load->trace;
  double last_s = trace->rows[trace->n_rows - 1].time_s;
  double mean_s = trace->n_rows > 1 ? last_s / (double)(trace->n_rows - 1) : 0;
  double scale = load->request_rate > 0 && mean_s > 0 ? 1 / (load->request_rate * mean_s) : 1;
  for (int32_t i = 0; i < n; i++) {
    size_t round = (size_t)i / trace->n_rows, row = (size_t)i % trace->n_rows;
    times_s[i] = scale * ((double)round * (last_s + mean_s) + trace->rows[row].time_s);
  }
}

void yk_bench_arrivals_fill(const yk_bench_load *load, double *times_s)
{
  int32_t n = yk_bench_load_requests(load);
  if (load->arrivals == YK_BENCH_TRACE_TIME) {
    fill_from_trace(load, n, times_s);
    return;
  }
  double time_s = 0;
  for (int32_t i = 0; i < n; i++) {
    times_s[i] = time_s;
    double gap = 1;
    if (load->arrivals == YK_BENCH_POISSON)
      gap = -log1p(-(double)yk_rng_uniform(load->seed, DRAW_ARRIVAL, (uint32_t)i));
    time_s += gap / load->request_rate;
  }
}
