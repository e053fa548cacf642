/* requests.h - the requests of one run: prepared, submitted, read by one thread as the engine tells of them.
 *
 * The engine's thread puts a request that has something to read on a list, under one mutex that is held for a few
 * instructions; the reading thread takes the whole list at once, so that it wakes once a step however many requests
 * there are. */
#ifndef YK_BENCH_REQUESTS_H
#define YK_BENCH_REQUESTS_H

#include <pthread.h>

#include "bench/load.h"
#include "bench/measure.h"
#include "yoke/yoke.h"

struct yk_bench_requests;

typedef struct yk_bench_request {
  struct yk_bench_requests *all;
  yk_request *request; /* owned; NULL before it is submitted and after its end */
  int32_t *ids;        /* [record.n_input], owned; NULL before it is prepared and once submitted */
  int32_t n_output;    /* tokens asked for */
  /* Guarded by the mutex. */
  struct yk_bench_request *next_told;
  bool is_told;
} yk_bench_request;

typedef struct yk_bench_requests {
  yk_engine *engine;
  const yk_bench_load *load;
  int32_t vocab_size, n, n_running, n_done;
  yk_bench_request *list;   /* [n], owned */
  yk_bench_record *records; /* [n], owned, and each one's times */
  pthread_mutex_t mutex;
  pthread_cond_t cv_told;
  yk_bench_request *first_told, *last_told;
} yk_bench_requests;

/* yk_bench_requests_create - n requests of which none is prepared. Errors: YK_E_NOMEM. Free with yk_bench_requests_free
 *   in either case, which also cancels what has not ended. */
yk_status yk_bench_requests_create(yk_bench_requests *all, yk_engine *engine, const yk_bench_load *load, yk_err *err);
void yk_bench_requests_free(yk_bench_requests *all);

/* yk_bench_requests_prepare - draw request i's lengths and prompt, unless that has been done. Errors: YK_E_NOMEM. */
yk_status yk_bench_requests_prepare(yk_bench_requests *all, int32_t i, yk_err *err);

/* yk_bench_requests_submit - a prepared request i. sent_ns: the moment that its times are measured from.
 *   Errors: YK_E_NOMEM, the engine's. */
yk_status yk_bench_requests_submit(yk_bench_requests *all, int32_t i, int64_t sent_ns, yk_err *err);

/* yk_bench_requests_read - wait until deadline_ns (of CLOCK_MONOTONIC) for something to read, and read everything.
 *   *n_ended: how many requests have ended. Errors: YK_E_NOMEM, a request's or the engine's. */
yk_status yk_bench_requests_read(yk_bench_requests *all, int64_t deadline_ns, int32_t *n_ended, yk_err *err);

#endif
