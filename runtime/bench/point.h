/* point.h - one run of one load through an engine. */
#ifndef YK_BENCH_POINT_H
#define YK_BENCH_POINT_H

#include "bench/figures.h"
#include "bench/load.h"
#include "yoke/yoke.h"

/* yk_bench_run - submit a load's requests, read all their tokens and compute the figures. Prompts are random token ids,
 *   and outputs ignore end-of-sequence, so that every run with the same lengths does the same work.
 *   A token's time is the engine's own record of when it put the token into the request's queue (yk_output.time_ns),
 *   not when this function reads the token. A request's time starts at its submission, under an offered load at its due
 *   time. The calling thread alone submits and reads everything.
 *   Errors: those of yk_bench_load_check for this engine, YK_E_NOMEM, YK_E_CANCELLED (load->stops), a request's or the
 *   engine's own. No request is left in the engine. */
yk_status yk_bench_run(yk_engine *engine, const yk_bench_load *load, yk_bench_figures *out, yk_err *err);

#endif
