/* op_cases_linear_large.h - linear layers of the shapes of served models and of odd ones, with cuts inside groups and
 * with several parts, at many numbers of rows: for GPUs, whose kernel, tile and split of K depend on all of these. */
#ifndef YK_TESTS_OP_CASES_LINEAR_LARGE_H
#define YK_TESTS_OP_CASES_LINEAR_LARGE_H

#include "base/checked.h"
#include "op/op_cases_linear.h"

/* The rank's inputs are first_k .. first_k + k - 1 of a weight with groups of `group`. n: columns of all parts. */
typedef struct large_linear {
  int64_t k, n, group_local, group, first_k;
  int64_t skipped; /* columns of each part's weight before the rank's */
  bool is_gated, has_parts;
} large_linear;

static const large_linear large_linears[] = {
    {128, 64, 128, 128, 0, 0, false, false},       {32, 8, 32, 32, 0, 0, false, false},
    {4096, 6144, 128, 128, 0, 0, false, true},     {4096, 1536, 64, 64, 0, 512, false, true},
    {1408, 4096, 128, 128, 1408, 0, false, false}, {96, 72, 32, 128, 32, 24, false, true},
    {4096, 2176, 128, 128, 0, 0, false, true},     {2400, 1000, 32, 32, 0, 0, false, false},
    {992, 2056, 32, 128, 4064, 0, false, false},   {1024, 24576, 128, 128, 0, 0, true, false},
    {4096, 8192, 128, 128, 0, 0, true, true},      {672, 1376, 32, 64, 288, 40, true, true},
    {160, 48, 160, 160, 0, 0, true, true},         {4096, 520, 4096, 4096, 0, 8, false, true},
    {12288, 4096, 128, 128, 0, 0, false, false},   {3072, 4096, 64, 128, 3136, 0, false, false},
    {2048, 4096, 256, 256, 0, 0, false, false},    {2464, 352, 32, 32, 0, 0, true, false},
    {1024, 6144, 32, 32, 0, 0, false, false},      {1024, 24576, 64, 64, 0, 0, true, false},
    {1024, 24576, 32, 32, 0, 0, true, false},      {4000, 512, 128, 128, 0, 0, false, false},
    {2464, 352, 16, 16, 0, 0, true, false},        {1024, 6144, 16, 48, 96, 8, false, true},
};
enum { N_LARGE_LINEARS = sizeof large_linears / sizeof *large_linears };

/* Numbers of rows: around the bounds of tiles and of kernels. */
static const int32_t large_row_counts[] = {1, 2, 3, 8, 16, 17, 25, 32, 33, 64, 65, 100, 130, 200, 257, 300, 1000};
enum { N_LARGE_ROW_COUNTS = sizeof large_row_counts / sizeof *large_row_counts };

typedef enum large_format { LARGE_INT4, LARGE_INT8, LARGE_FP8, LARGE_FP4, N_LARGE_FORMATS } large_format;

/* n columns of a part. */
static inline linear_part_case large_part(const large_linear *c, large_format format, int64_t n, int turn)
{
  const bool is_bytes = format != LARGE_INT4;
  return (linear_part_case){.k = yk_round_up_i64(c->first_k + c->k, c->group), /* whole groups */
                            .n = c->skipped + n,
                            .group = c->group,
                            .dtype = is_bytes ? YK_F32 : op_dtypes[turn % 3 == 0],
                            .k_slice = {c->first_k, c->first_k + c->k},
                            .n_slice = {c->skipped, c->skipped + n},
                            .group_local = c->group_local,
                            .use_bias = turn % 2 == 0,
                            .is_bytes = is_bytes,
                            .has_zeros = format == LARGE_INT8 && turn % 2 == 0,
                            .is_fp8 = format == LARGE_FP8,
                            .is_fp4 = format == LARGE_FP4};
}

static inline linear_case large_linear_case(const large_linear *c, large_format format, int turn)
{
  const int64_t first = c->is_gated || c->has_parts ? c->n / 2 / 8 * 8 : c->n;
  linear_case shape = {.parts = {large_part(c, format, first, turn)}, .n_parts = first < c->n ? 2 : 1};
  if (shape.n_parts == 2) shape.parts[1] = large_part(c, format, c->n - first, turn);
  if (c->is_gated) shape.activation = (yk_activation)YK_GATED_SILU;
  return shape;
}

/* y [n_tokens, n_local] after a forward into NaNs, as stored. Every value is finite. */
static inline uint16_t *large_forward(yk_device *dev, const linear_run *run, int32_t n_tokens, void *y)
{
  const size_t n = (size_t)n_tokens * (size_t)run->n_local;
  uint16_t *host = malloc(n * sizeof *host + 1);
  assert_non_null(host);
  memset(host, 0xFF, n * sizeof *host);
  op_ok(dev->ops->upload(dev, y, host, n * sizeof *host, &err));
  const yk_linear_args args = {.x = run->x.dev, .y = y, .n_tokens = n_tokens, .y_stride = run->y_stride};
  op_ok(dev->ops->linear_forward(dev, run->linear, &args, &err));
  op_ok(dev->ops->download(dev, host, y, n * sizeof *host, &err));
  const uint16_t exponent = dev->dtype == YK_F16 ? 0x7C00 : 0x7F80;
  size_t n_bad = 0;
  for (size_t i = 0; i < n; i++) n_bad += (host[i] & exponent) == exponent;
  assert_int_equal(n_bad, 0);
  return host;
}

/* The error of some rows and of about 200 columns, from column `first` on, evenly over all. */
static inline double large_linear_error(const linear_run *run, yk_dtype dtype, const uint16_t *y, int32_t n_tokens,
                                        int64_t first)
{
  enum { COLUMNS = 200 };
  int32_t rows[OP_SOME_ROWS];
  const int64_t step = run->n_local / COLUMNS + 1, start = first % step,
                n_columns = (run->n_local - start - 1) / step + 1;
  const int32_t n_rows = op_some_rows(n_tokens, rows);
  const size_t n = (size_t)(n_rows * n_columns);
  op_array found = {.n = n, .values = calloc(n + 1, sizeof(double))};
  linear_reference reference = {.run = run,
                                .rows = rows,
                                .n_rows = n_rows,
                                .first_column = start,
                                .column_step = step,
                                .stride = n_columns,
                                .y = calloc(n + 1, sizeof(double)),
                                .magnitudes = calloc(n + 1, sizeof(double))};
  assert_true(found.values && reference.y && reference.magnitudes);
  linear_reference_fill(&reference, n_columns);
  for (int32_t r = 0; r < n_rows; r++)
    for (int64_t c = 0; c < n_columns; c++)
      found.values[r * n_columns + c] =
          (double)yk_dtype_load(dtype, y, (size_t)(rows[r] * run->n_local + start + c * step));
  const double error = linear_run_error(&found, reference.y, reference.magnitudes, run->k_local);
  free(found.values), free(reference.y), free(reference.magnitudes);
  return error;
}

/* Weights are rounded to the activation type, which gives a long sum an error of about half a rounding and rarely two;
 * then the result is rounded. A gated activation multiplies two such sums. */
static inline double large_linear_tolerance(yk_dtype dtype, const linear_case *shape)
{
  return (shape->activation.is_gated ? 7.0 : 3.5) * op_unit_roundoff(dtype) +
         linear_tolerance(YK_F32, yk_range_size(shape->parts[0].k_slice));
}

/* Each number of rows twice, since consecutive calls differ on GPUs, with the same bits. */
static inline void check_large_linear(const op_target *target, yk_dtype dtype, const linear_case *shape, uint32_t seed)
{
  enum { MOST_OUTPUTS = 5 << 20 }; /* which bounds the time */
  const double tolerance = large_linear_tolerance(dtype, shape);
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  linear_run run = linear_run_new(dev, shape, large_row_counts[N_LARGE_ROW_COUNTS - 1], seed);
  void *y = NULL;
  op_ok(dev->ops->alloc(dev, (size_t)(run.n_tokens * run.n_local) * 2, &y, &err));
  for (int i = 0; i < N_LARGE_ROW_COUNTS; i++) {
    const int32_t n_tokens = large_row_counts[i];
    if (n_tokens * run.n_local > MOST_OUTPUTS) continue;
    uint16_t *found = large_forward(dev, &run, n_tokens, y), *again = large_forward(dev, &run, n_tokens, y);
    const double error = large_linear_error(&run, dtype, found, n_tokens, seed + (uint32_t)i);
    if (!(error <= tolerance))
      fail_msg("%s %s, k %lld, %lld columns of %d parts, groups of %lld, seed %u, %d rows: error %.3g, tolerance %.3g",
               target->name, yk_dtype_name(dtype), (long long)run.k_local, (long long)run.n_local, shape->n_parts,
               (long long)shape->parts[0].group_local, seed, n_tokens, error, tolerance);
    assert_memory_equal(found, again, (size_t)(n_tokens * run.n_local) * 2);
    free(found), free(again);
  }
  dev->ops->free(dev, y);
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* All shapes, both types of activations alternately. Devices keep weights of 8 bits in groups of 32 inputs and more. */
static inline void check_large_linears(const op_target *target, large_format format)
{
  const bool is_8_bits = format == LARGE_INT8 || format == LARGE_FP8;
  for (int c = 0; each_case(c, c < N_LARGE_LINEARS); c++) {
    if (is_8_bits && large_linears[c].group_local % 32 != 0) continue;
    const linear_case shape = large_linear_case(&large_linears[c], format, c);
    check_large_linear(target, op_dtypes[(c + (int)format) % 2], &shape, 600 + (uint32_t)c);
  }
}

#endif
