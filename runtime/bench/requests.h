/* requests.h - the requests of one run: prepared, submitted, and read by one thread that waits for any of them and
 * wakes once for each step. */
#ifndef YK_BENCH_REQUESTS_H
#define YK_BENCH_REQUESTS_H

#include "bench/load.h"
#include "bench/measure.h"
#include "yoke/yoke.h"

typedef struct yk_bench_request {
  yk_request *request; /* owned; NULL before it is submitted and after its end */
  int32_t *ids;        /* [record.n_input], owned; NULL before it is prepared and after it is submitted */
  int32_t n_output;    /* number of requested tokens */
} yk_bench_request;

typedef struct yk_bench_requests {
  yk_engine *engine;
  const yk_bench_load *load;
  int32_t vocab_size, n, n_running, n_done;
  yk_bench_request *list;   /* [n], owned */
  yk_bench_record *records; /* [n], owned, with the times of each */
  yk_waiter *waiter;
} yk_bench_requests;

/* yk_bench_requests_create - n requests, none of them prepared. Errors: YK_E_NOMEM, YK_E_IO. Free with
 *   yk_bench_requests_free in either case, which also cancels requests that have not ended. */
yk_status yk_bench_requests_create(yk_bench_requests *all, yk_engine *engine, const yk_bench_load *load, yk_err *err);
void yk_bench_requests_free(yk_bench_requests *all);

/* yk_bench_requests_prepare - draw request i's lengths and prompt, unless it is prepared already. Errors:
 *   YK_E_NOMEM. */
yk_status yk_bench_requests_prepare(yk_bench_requests *all, int32_t i, yk_err *err);

/* yk_bench_requests_submit - submit a prepared request i. sent_ns: the moment from which its times are measured.
 *   Errors: YK_E_NOMEM, the engine's. */
yk_status yk_bench_requests_submit(yk_bench_requests *all, int32_t i, int64_t sent_ns, yk_err *err);

/* yk_bench_requests_read - wait until deadline_ns (of CLOCK_MONOTONIC) for output, and read all of it. *n_ended: number
 *   of requests that have ended. Errors: YK_E_NOMEM, a request's or the engine's. */
yk_status yk_bench_requests_read(yk_bench_requests *all, int64_t deadline_ns, int32_t *n_ended, yk_err *err);

#endif
