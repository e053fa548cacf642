/* op_harness.h - shared by the tests of operations: a device to test, random arrays, and a measure of error.
 *
 * The cases (op_cases_*.h) use only the table of operations, so that the same body runs on every device: a test program
 * defines an op_target. References (op_reference.h) are plain float64 loops over values that the dtype holds
 * exactly. */
#ifndef YK_TESTS_OP_HARNESS_H
#define YK_TESTS_OP_HARNESS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/device.h"
#include "op/op_threads.h"
#include "sanitized.h"

/* A kind of device. variant is specific to the target (an instruction set, for instance). */
typedef struct op_target {
  const char *name;
  yk_status (*create)(const void *variant, yk_dtype dtype, int n_threads, const yk_device_limits *limits,
                      yk_device **out, yk_err *err);
  const void *variant;
  bool lacks_f32;            /* the device has no activations of float32 */
  bool rounds_probabilities; /* attention rounds them to the activation type before they are multiplied with values */
} op_target;

static const yk_dtype op_dtypes[] = {YK_F16, YK_BF16, YK_F32};

/* The number of op_dtypes, from the first on, that the target has. */
static inline size_t op_n_dtypes(const op_target *target)
{
  return target->lacks_f32 ? 2 : 3;
}

#define op_ok(call)                                                                                                    \
  do {                                                                                                                 \
    yk_err err = YK_ERR_INIT;                                                                                          \
    yk_status status_ = (call);                                                                                        \
    if (status_ != YK_OK) fail_msg("%s: %s", #call, err.message);                                                      \
  } while (0)

/* Whether a case with this many values is skipped: under a sanitizer, because smaller ones run the same code. */
static inline bool op_is_left_out(int64_t n_values)
{
  return TEST_IS_SANITIZED && n_values > 1 << 18;
}

static inline yk_device *op_device_new(const op_target *target, yk_dtype dtype, int n_threads, int32_t vocab)
{
  yk_device_limits limits = {.max_tokens = 512, .max_seqs = 64, .max_model_tokens = 4096, .vocab = vocab};
  yk_device *dev = NULL;
  op_ok(target->create(target->variant, dtype, n_threads, &limits, &dev, &err));
  assert_non_null(dev);
  return dev;
}

/* Random numbers of a case: the same every run. */
typedef struct op_random {
  uint32_t seed, n_drawn;
} op_random;

static inline double op_uniform(op_random *random)
{
  return (double)yk_rng_uniform(random->seed, 0, random->n_drawn++);
}

static inline double op_normal(op_random *random)
{
  double a = op_uniform(random), b = op_uniform(random);
  return sqrt(-2.0 * log(1.0 - a)) * cos(6.283185307179586 * b);
}

/* values [n] of op_normal times sigma, from the same numbers as n calls. */
typedef struct op_normals {
  op_random random;
  double sigma, *values;
} op_normals;

static inline void op_normals_task(void *context, int thread, int64_t begin, int64_t end)
{
  const op_normals *normals = context;
  (void)thread;
  op_random random = normals->random;
  random.n_drawn += (uint32_t)(2 * begin);
  for (int64_t i = begin; i < end; i++) normals->values[i] = normals->sigma * op_normal(&random);
}

static inline void op_normals_draw(op_random *random, double sigma, double *values, size_t n)
{
  op_normals normals = {.random = *random, .sigma = sigma};
  normals.values = values;
  op_for_each((int64_t)n, (double)n, op_normals_task, &normals);
  random->n_drawn += (uint32_t)(2 * n);
}

static inline int64_t op_between(op_random *random, int64_t low, int64_t high) /* both included */
{
  return low + (int64_t)(op_uniform(random) * (double)(high - low + 1));
}

/* integers [n] from low to high, both included, from the same numbers as n calls of op_between. */
typedef struct op_integers {
  op_random random;
  int low, high;
  int8_t *integers;
} op_integers;

static inline void op_integers_task(void *context, int thread, int64_t begin, int64_t end)
{
  const op_integers *drawn = context;
  (void)thread;
  op_random random = drawn->random;
  random.n_drawn += (uint32_t)begin;
  for (int64_t i = begin; i < end; i++) drawn->integers[i] = (int8_t)op_between(&random, drawn->low, drawn->high);
}

static inline void op_integers_draw(op_random *random, int low, int high, int8_t *integers, int64_t n)
{
  op_integers drawn = {.random = *random, .low = low, .high = high};
  drawn.integers = integers;
  op_for_each(n, (double)n, op_integers_task, &drawn);
  random->n_drawn += (uint32_t)n;
}

/* Up to 12 of n rows, for references that are too expensive for all rows: the first, the last, rows at the ends of
 * tiles, and some between. */
enum { OP_SOME_ROWS = 12 };

static inline int32_t op_some_rows(int32_t n, int32_t rows[OP_SOME_ROWS])
{
  const int32_t candidates[OP_SOME_ROWS] = {0, n - 1, n / 2, 7, 8, 63, 64, 127, 128, n / 3, n - 2, n * 5 / 7};
  int32_t n_rows = 0;
  for (int i = 0; i < OP_SOME_ROWS; i++) {
    bool is_new = candidates[i] >= 0 && candidates[i] < n;
    for (int32_t j = 0; j < n_rows; j++) is_new = is_new && rows[j] != candidates[i];
    if (is_new) rows[n_rows++] = candidates[i];
  }
  return n_rows;
}

/* An array on the device and as float64; the two hold the same values. */
typedef struct op_array {
  yk_dtype dtype;
  size_t n;
  double *values;
  void *bytes; /* host copy in dtype */
  void *dev;
} op_array;

static inline op_array op_array_new(yk_device *dev, yk_dtype dtype, size_t n)
{
  op_array array = {.dtype = dtype, .n = n};
  array.values = calloc(n + 1, sizeof(double));
  array.bytes = calloc(n + 1, 4);
  assert_non_null(array.values);
  assert_non_null(array.bytes);
  op_ok(dev->ops->alloc(dev, n * yk_dtype_bytes(dtype), &array.dev, &err));
  assert_int_equal((uintptr_t)array.dev % 256, 0);
  return array;
}

static inline void op_array_round(void *context, int thread, int64_t begin, int64_t end)
{
  const op_array *array = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) {
    yk_dtype_store(array->dtype, array->bytes, (size_t)i, (float)array->values[i]);
    array->values[i] = (double)yk_dtype_load(array->dtype, array->bytes, (size_t)i);
  }
}

/* Values rounded to the dtype and sent to the device. */
static inline void op_array_send(yk_device *dev, op_array *array)
{
  op_for_each((int64_t)array->n, (double)array->n, op_array_round, array);
  op_ok(dev->ops->upload(dev, array->dev, array->bytes, array->n * yk_dtype_bytes(array->dtype), &err));
}

static inline op_array op_array_random(yk_device *dev, yk_dtype dtype, size_t n, double sigma, op_random *random)
{
  op_array array = op_array_new(dev, dtype, n);
  op_normals_draw(random, sigma, array.values, n);
  op_array_send(dev, &array);
  return array;
}

static inline void op_array_fetch(yk_device *dev, op_array *array)
{
  op_ok(dev->ops->download(dev, array->bytes, array->dev, array->n * yk_dtype_bytes(array->dtype), &err));
  for (size_t i = 0; i < array->n; i++) array->values[i] = (double)yk_dtype_load(array->dtype, array->bytes, i);
}

static inline void op_array_free(yk_device *dev, op_array *array)
{
  dev->ops->free(dev, array->dev);
  free(array->values);
  free(array->bytes);
  *array = (op_array){0};
}

static inline int32_t *op_send_i32(yk_device *dev, const int32_t *values, size_t n)
{
  void *ptr = NULL;
  op_ok(dev->ops->alloc(dev, n * sizeof *values, &ptr, &err));
  op_ok(dev->ops->upload(dev, ptr, values, n * sizeof *values, &err));
  return ptr;
}

/* The sequence of each row, for sequences whose rows begin at row_starts [n_seqs + 1]. */
static inline int32_t *op_send_seq_of_row(yk_device *dev, const int32_t *row_starts, int32_t n_seqs)
{
  int32_t *seq_of_row = calloc((size_t)row_starts[n_seqs] + 1, sizeof *seq_of_row);
  for (int32_t seq = 0; seq < n_seqs; seq++)
    for (int32_t row = row_starts[seq]; row < row_starts[seq + 1]; row++) seq_of_row[row] = seq;
  int32_t *sent = op_send_i32(dev, seq_of_row, (size_t)row_starts[n_seqs]);
  free(seq_of_row);
  return sent;
}

/* An 8-bit float e4m3fn by its definition. */
static inline double op_float8(uint8_t code)
{
  int exponent = code >> 3 & 0xF, mantissa = code & 7;
  double magnitude = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
  return code & 0x80 ? -magnitude : magnitude;
}

/* A 4-bit float e2m1 by its definition. */
static inline double op_float4(uint8_t code)
{
  int exponent = code >> 1 & 3, mantissa = code & 1;
  double magnitude = exponent ? ldexp(2 + mantissa, exponent - 2) : 0.5 * mantissa;
  return code & 8 ? -magnitude : magnitude;
}

/* Half a unit in the last place, relative: the largest error of one rounding to dtype. */
static inline double op_unit_roundoff(yk_dtype dtype)
{
  return dtype == YK_F16 ? 0x1p-11 : dtype == YK_BF16 ? 0x1p-8 : 0x1p-24;
}

/* Normalised error: largest |found - expected| / (|expected| + rms of expected). NaN counts as infinite. */
static inline double op_error(const double *found, const double *expected, size_t n)
{
  double squares = 0.0, worst = 0.0;
  for (size_t i = 0; i < n; i++) squares += expected[i] * expected[i];
  double rms = n ? sqrt(squares / (double)n) : 0.0;
  for (size_t i = 0; i < n; i++) {
    double difference = fabs(found[i] - expected[i]);
    double error = difference == 0.0 ? 0.0 : difference / (fabs(expected[i]) + rms);
    if (!(error <= worst)) worst = error == error ? error : INFINITY;
  }
  return worst;
}

#endif
