#include "comm/conformance_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

/* The least positive number of the type. */
static double least_number(yk_dtype dtype)
{
  return dtype == YK_F16 ? 0x1p-24 : dtype == YK_BF16 ? 0x1p-133 : 0x1p-149;
}

/* Among them minus zeros, and elements whose scaled sums round to minus zero: in slots, minus zero marks a word that
 * has not arrived. */
static float input_of(yk_dtype dtype, uint32_t source, uint32_t i)
{
  if (i % 53 == 7 && (source + i) % 2) return -0.0f;
  if (i % 101 == 11) return source == 0 ? (float)-least_number(dtype) : 0.0f;
  return yk_rng_uniform(7, source, i) * 4 - 2;
}

values *case_values_new(yk_dtype dtype)
{
  values *v = malloc(sizeof *v);
  assert_non_null(v);
  v->dtype = dtype;
  for (uint32_t source = 0; source < N_SOURCES; source++)
    for (uint32_t i = 0; i < PERIOD; i++) {
      yk_dtype_store(dtype, v->stored[source], i, input_of(dtype, source, i));
      v->rounded[source][i] = yk_dtype_load(dtype, v->stored[source], i);
    }
  return v;
}

double case_value(const rank_case *c, int source, size_t i)
{
  return c->values->rounded[source][i % PERIOD];
}

double case_rounding_step(yk_dtype dtype)
{
  return dtype == YK_F16 ? 0x1p-11 : dtype == YK_BF16 ? 0x1p-8 : 0x1p-22;
}

void *case_array(rank_case *c, int source, size_t n)
{
  yk_device *dev = c->comm->dev;
  size_t bytes = n * yk_dtype_bytes(c->dtype), period = PERIOD * yk_dtype_bytes(c->dtype);
  void *array = NULL;
  char *host = malloc(bytes);
  for (size_t at = 0; at < bytes; at += period)
    memcpy(host + at, c->values->stored[source], bytes - at < period ? bytes - at : period);
  if (dev->ops->alloc(dev, bytes, &array, NULL) != YK_OK || dev->ops->upload(dev, array, host, bytes, NULL) != YK_OK)
    c->mismatches++;
  free(host);
  return array;
}

void case_keep_result(rank_case *c, const void *array, size_t bytes)
{
  c->result = malloc(bytes);
  c->result_bytes = bytes;
  if (c->comm->dev->ops->download(c->comm->dev, c->result, array, bytes, NULL) != YK_OK) c->mismatches++;
}

void case_expect_close(rank_case *c, size_t i, double expected, double magnitude)
{
  const double found = yk_dtype_load(c->dtype, c->result, i),
               below = 4 * least_number(c->dtype); /* of roundings there */
  if (!(fabs(found - expected) <= c->tolerance * magnitude + below)) c->mismatches++;
}

double case_sum(const rank_case *c, size_t i, double *magnitude)
{
  double sum = 0;
  *magnitude = 0;
  for (int rank = 0; rank < c->comm->n_ranks; rank++) {
    double value = case_value(c, rank, i);
    sum += value;
    *magnitude += fabs(value);
  }
  return sum;
}

void case_barrier(rank_case *c)
{
  if (c->comm->ops->barrier(c->comm, NULL) != YK_OK) c->mismatches++;
}
