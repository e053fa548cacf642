/* trace.h - slices of time in rows, written as a file for Perfetto (ui.perfetto.dev) and chrome://tracing, in the JSON
 * form of Chrome's trace events.
 *
 * Slices stay in memory until the requested number of steps has been added; the trace's own thread then writes the
 * file, so that yk_trace_add never waits for a disk. yk_trace_finish writes a trace that is not full. Thread: one at a
 * time, see yk_engine_set_trace. */
#ifndef YK_TRACE_TRACE_H
#define YK_TRACE_TRACE_H

#include "yoke/yoke.h"

typedef struct yk_trace_slice {
  int process, row;         /* process 0 is the engine, 1 + r is rank r */
  const char *name;         /* not copied: a literal */
  int32_t layer;            /* negative: none */
  int32_t n_rows;           /* rows of the step; negative: not stated */
  int64_t begin_ns, end_ns; /* yk_clock_now_ns; slices of one row nest or do not touch */
} yk_trace_slice;

/* yk_trace_wants - whether the trace takes another step. */
bool yk_trace_wants(const yk_trace *trace);

/* yk_trace_name_row - set the name of a row; once for each row. Name: a literal. */
void yk_trace_name_row(yk_trace *trace, int process, int row, const char *name);

/* yk_trace_place_rank - the place of a rank, for the name of its process: "stage 1, process 1, host b"; copied. */
void yk_trace_place_rank(yk_trace *trace, int rank, const char *place);

/* yk_trace_add - add a slice of the current step. yk_trace_finish reports a failed allocation. */
void yk_trace_add(yk_trace *trace, const yk_trace_slice *slice);

/* yk_trace_end_step - all slices of the current step have been added. */
void yk_trace_end_step(yk_trace *trace);

#endif
