/* arrivals.h - computes when the requests of an offered load are due. */
#ifndef YK_BENCH_ARRIVALS_H
#define YK_BENCH_ARRIVALS_H

#include "bench/load.h"

/* yk_bench_arrivals_fill - times_s [yk_bench_load_requests(load)]: seconds from the start of the run, ascending, the
 *   first 0.
 *   Poisson: times between arrivals are -ln(1 - u) / rate. Constant: 1 / rate. Trace: the rows' own times, scaled so
 *   that the mean rate of the whole trace is request_rate unless that is 0; after the last row the trace starts again,
 *   one mean time between rows later. */
void yk_bench_arrivals_fill(const yk_bench_load *load, double *times_s);

#endif
