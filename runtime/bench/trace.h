/* trace.h - lengths and times of requests from a file of a public trace's form.
 *
 *   CSV    a header names the columns; `ContextTokens` and `GeneratedTokens` (the Azure LLM inference traces) or
 *          `input_length` and `output_length`, in any order, beside others; a column `TIMESTAMP` as
 *          "2023-11-16 18:15:46.6805900", or `timestamp` in milliseconds.
 *   JSONL  an object a line with `input_length`, `output_length` and maybe `timestamp` in milliseconds (Mooncake's
 *          traces).
 *
 * The first character that is no white space tells which: a brace begins JSONL. */
#ifndef YK_BENCH_TRACE_H
#define YK_BENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_bench_trace_row {
  double time_s;                       /* since the first row; 0 where the file has no times */
  int32_t input_tokens, output_tokens; /* 1 or more: a request without a token asks for one here */
} yk_bench_trace_row;

typedef struct yk_bench_trace {
  yk_bench_trace_row *rows; /* [n_rows], owned, in the order of the file */
  size_t n_rows;            /* 1 or more */
  bool has_times;           /* every row has one, and none is earlier than the row before */
} yk_bench_trace;

/* yk_bench_trace_read - a whole file. Free with yk_bench_trace_free.
 *   Errors: YK_E_IO; YK_E_FORMAT naming file, line, column or key, expected and found: a missing column, a length that
 *   is no whole number from 0 to 2^30, a time that cannot be read or goes back, no rows; YK_E_NOMEM. *out is then
 *   empty. Thread: any. */
yk_status yk_bench_trace_read(const char *path, yk_bench_trace *out, yk_err *err);

/* yk_bench_trace_parse - the same of text [n_bytes]; name appears in errors. */
yk_status yk_bench_trace_parse(const char *name, const char *text, size_t n_bytes, yk_bench_trace *out, yk_err *err);

void yk_bench_trace_free(yk_bench_trace *trace);

#endif
