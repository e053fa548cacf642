/* trace.h - lengths and times of requests from a file in the format of a public trace.
 *
 *   CSV    a header names the columns; `ContextTokens` and `GeneratedTokens` (the Azure LLM inference traces) or
 *          `input_length` and `output_length`, in any order, possibly among others; a column `TIMESTAMP` with values
 *          such as "2023-11-16 18:15:46.6805900", or `timestamp` in milliseconds.
 *   JSONL  an object on each line with `input_length`, `output_length` and optionally `timestamp` in milliseconds
 *          (Mooncake's traces).
 *
 * The first character other than white space selects the format: a brace means JSONL. */
#ifndef YK_BENCH_TRACE_H
#define YK_BENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_bench_trace_row {
  double time_s;                       /* since the first row; 0 if the file has no times */
  int32_t input_tokens, output_tokens; /* 1 or more: a request without a token gets 1 */
} yk_bench_trace_row;

typedef struct yk_bench_trace {
  yk_bench_trace_row *rows; /* [n_rows], owned, in the order of the file */
  size_t n_rows;            /* 1 or more */
  bool has_times;           /* every row has one, and none is earlier than the row before */
} yk_bench_trace;

/* yk_bench_trace_read - read a whole file. Free with yk_bench_trace_free.
 *   Errors: YK_E_IO; YK_E_FORMAT naming file, line, column or key, expected and found: a missing column, a length that
 *   is not a whole number from 0 to 2^30, a time that cannot be read or decreases, no rows; YK_E_NOMEM. *out is then
 *   empty. Thread: any. */
yk_status yk_bench_trace_read(const char *path, yk_bench_trace *out, yk_err *err);

/* yk_bench_trace_parse - the same for text [n_bytes]; name appears in errors. */
yk_status yk_bench_trace_parse(const char *name, const char *text, size_t n_bytes, yk_bench_trace *out, yk_err *err);

void yk_bench_trace_free(yk_bench_trace *trace);

#endif
