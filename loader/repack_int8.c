#include "loader/repack_int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
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

/* The largest magnitude of a row; a NaN or an infinity is kept. Comparisons of bits, which compilers vectorise. */
static float largest_of(const float *row, int64_t k)
{
  uint32_t largest = 0;
  for (int64_t i = 0; i < k; i++) {
    const uint32_t magnitude = yk_f32_bits(row[i]) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return yk_f32_from_bits(largest);
}

/* row: f32 [k] of the output. */
static yk_status quantise_row(const quantising *job, int64_t place, int64_t output, const float *row, yk_err *err)
{
  const float to_integer = 0x1.8p23f; /* added to a number below 2^22, rounds it to an integer, ties to even */
  const int64_t k = n_inputs(job->request);
  int8_t *to = job->to + place * k;
  const float largest = largest_of(row, k), scale = largest / 127.0f;
  for (int64_t i = 0; !isfinite(largest) && i < k; i++)
    if (!isfinite(row[i])) return refuse(job->request, output, i, row[i], err);
  job->scales[place] = scale;
  if (scale == 0) {
    memset(to, 0, (size_t)k);
    return YK_OK;
  }
  for (int64_t i = 0; i < k; i++) {
    const int32_t q = (int32_t)(row[i] / scale + to_integer - to_integer);
    to[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q); /* a subnormal scale is inexact */
  }
  return YK_OK;
}

/* A row's weights as f32 [k]. aligned: space for k numbers. */
static yk_status read_row(const yk_repack_request *r, int64_t output, void *aligned, float *row, yk_err *err)
{
  const yk_weight_view *weight = r->weight;
  const yk_weight_slice slice = {r->slice.k_begin, r->slice.k_end, output, output + 1};
  const size_t element = yk_dtype_bytes(weight->dtype);
  if (weight->plain_stride > 0) return yk_dequantise(weight, &slice, row, n_inputs(r), err);
  const char *from = (const char *)weight->plain + (size_t)(output * weight->k + r->slice.k_begin) * element;
  memcpy(aligned, from, (size_t)n_inputs(r) * element);
  r->widen(row, weight->dtype, aligned, (size_t)n_inputs(r));
  return YK_OK;
}

static yk_status quantise_rows(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const quantising *job = context;
  const yk_repack_request *r = job->request;
  const int64_t k = n_inputs(r);
  float *row = malloc(2 * (size_t)k * sizeof *row); /* and k more floats for read_row */
  if (!row) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld weights", (long long)k);
  yk_status status = YK_OK;
  for (int64_t i = begin; i < end && status == YK_OK; i++) {
    const int64_t output = r->n_order ? r->n_order[i] : r->slice.n_begin + i;
    status = read_row(r, output, row + k, row, err);
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
