/* trace.h - slices of time in rows, as a file that Perfetto (ui.perfetto.dev) and chrome://tracing show: the JSON form
 * of Chrome's trace events.
 *
 * Slices are kept in memory until as many steps as were asked for have been added; a thread of the trace's own then
 * writes the file, so that who adds never waits for a disk. What is not full is written by yk_trace_finish.
 * Thread: one at a time, see yk_engine_set_trace. */
#ifndef YK_TRACE_TRACE_H
#define YK_TRACE_TRACE_H

#include "yoke/yoke.h"

typedef struct yk_trace_slice {
  int process, row;         /* process 0 is the engine, 1 + r is rank r */
  const char *name;         /* not copied: a literal */
  int32_t layer;            /* negative: none */
  int32_t n_rows;           /* of the step; negative: not told */
  int64_t begin_ns, end_ns; /* yk_clock_now_ns; slices of one row nest or do not touch */
} yk_trace_slice;

/* yk_trace_wants - whether another step has room. */
bool yk_trace_wants(const yk_trace *trace);

/* yk_trace_name_row - what a row is called; once each. Name: a literal. */
void yk_trace_name_row(yk_trace *trace, int process, int row, const char *name);

/* yk_trace_add - a slice of the step under way. Where memory does not suffice, yk_trace_finish tells. */
void yk_trace_add(yk_trace *trace, const yk_trace_slice *slice);

/* yk_trace_end_step - all of the step's slices have been added. */
void yk_trace_end_step(yk_trace *trace);

#endif
