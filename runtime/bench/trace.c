#include "bench/trace.h"

#include <stdlib.h>

yk_status yk_bench_trace_parse(const char *name, const char *text, size_t n_bytes, yk_bench_trace *out, yk_err *err)
{
  (void)text, (void)n_bytes;
  *out = (yk_bench_trace){0};
  return yk_err_set(err, YK_E_FORMAT, "%s: expected rows", name);
}

yk_status yk_bench_trace_read(const char *path, yk_bench_trace *out, yk_err *err)
{
  return yk_bench_trace_parse(path, "", 0, out, err);
}

void yk_bench_trace_free(yk_bench_trace *trace)
{
  free(trace->rows);
  *trace = (yk_bench_trace){0};
}
