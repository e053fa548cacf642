/* run.h - one call of yk_quantize: what its parts share. */
#ifndef YK_QUANTIZE_RUN_H
#define YK_QUANTIZE_RUN_H

#include "kernels/awq_quantize.h"
#include "quantize/output.h"
#include "quantize/plan.h"

typedef struct yk_awq_scales yk_awq_scales;

/* Host memory that is as large as the largest layer wanted. */
typedef struct yk_quantize_buffer {
  void *memory;
  size_t n_bytes;
} yk_quantize_buffer;

typedef struct yk_quantize_run {
  const yk_quantize_options *options;
  int n_threads;
  yk_quantize_plan plan;
  yk_quantize_output output;
  yk_cpu_pool *pool;
  yk_awq_scales *scales; /* NULL: weights as they are */
  yk_quantize_buffer words;
  int64_t done_bytes; /* of the plan's total */
  yk_quantize_report *report;
} yk_quantize_run;

/* yk_quantize_progress - tell the caller, who may stop the run. Errors: YK_E_CANCELLED. */
yk_status yk_quantize_progress(const yk_quantize_run *run, const char *what, int64_t done, int64_t total, yk_err *err);

/* yk_quantize_reserve - at least n_bytes. Errors: YK_E_NOMEM. */
yk_status yk_quantize_reserve(yk_quantize_buffer *buffer, size_t n_bytes, yk_err *err);

#endif
