#include "loader/repack_int8.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "loader/integers/dequantise.h"

enum { MIN_THREAD_ELEMENTS = 1 << 16 /* less work per thread costs more than it saves */ };

typedef struct quantising {
  const yk_repack_request *request;
  int8_t *to;
  float *scales;
} quantising;

static int64_t n_inputs(const yk_repack_request *r)
{
  return r->slice.k_end - r->slice.k_begin;
}

static yk_status refuse(const yk_repack_request *r, int64_t output, int64_t input, float value, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: output %lld, input %lld: expected a finite number, to be rounded to 8 bits, found %g",
                    r->weight->tensor ? r->weight->tensor : "a weight", (long long)output,
                    (long long)(r->slice.k_begin + input), (double)value);
}

/* row: f32 [k] of the output. */
static yk_status quantise_row(const quantising *job, int64_t place, int64_t output, const float *row, yk_err *err)
{
  const int64_t k = n_inputs(job->request);
  int8_t *to = job->to + place * k;
  float largest = 0;
  for (int64_t i = 0; i < k; i++) {
    if (!isfinite(row[i])) return refuse(job->request, output, i, row[i], err);
    largest = fmaxf(largest, fabsf(row[i]));
  }
  const float scale = largest / 127.0f;
  job->scales[place] = scale;
  for (int64_t i = 0; i < k; i++) {
    const float q = scale > 0 ? rintf(row[i] / scale) : 0;
    to[i] = (int8_t)fmaxf(-127, fminf(127, q)); /* a subnormal scale is inexact */
  }
  return YK_OK;
}

static yk_status quantise_rows(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const quantising *job = context;
  const yk_repack_request *r = job->request;
  const int64_t k = n_inputs(r);
  float *row = malloc((size_t)k * sizeof *row);
  if (!row) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld weights", (long long)k);
  yk_status status = YK_OK;
  for (int64_t i = begin; i < end && status == YK_OK; i++) {
    const int64_t output = r->n_order ? r->n_order[i] : r->slice.n_begin + i;
    const yk_weight_slice slice = {r->slice.k_begin, r->slice.k_end, output, output + 1};
    status = yk_dequantise(r->weight, &slice, row, k, err);
    if (status == YK_OK) status = quantise_row(job, i, output, row, err);
  }
  free(row);
  return status;
}

yk_status yk_repack_int8(const yk_repack_request *request, yk_cpu_pool *pool, int8_t *to, float *scales, yk_err *err)
{
  quantising job = {request, to, scales};
  const int64_t n = request->slice.n_end - request->slice.n_begin;
  const int64_t min_rows = yk_ceil_div_i64(MIN_THREAD_ELEMENTS, yk_max_i64(n_inputs(request), 1));
  return yk_cpu_pool_try(pool, n, min_rows, quantise_rows, &job, err);
}
