/* op_cases_grouped_large.h - grouped forwards of up to 128 matrices of the shapes of served models, with slots spread
 * in several ways, against float64: for GPUs, whose kernel and tiles depend on the shape and the capacity for slots. */
#ifndef YK_TESTS_OP_CASES_GROUPED_LARGE_H
#define YK_TESTS_OP_CASES_GROUPED_LARGE_H

#include "op/op_cases_grouped.h"
#include "op/op_cases_linear_large.h"

typedef enum slot_spread {
  SLOTS_RANDOM,
  SLOTS_IN_ONE, /* matrix */
  SLOTS_IN_THREE,
  SLOTS_UNEVEN, /* one for each matrix of the first half, then ten for each until they run out */
} slot_spread;

/* FP4: with the activation of gpt-oss, if gated; others have SiLU. */
typedef enum expert_format { EXPERTS_INT4, EXPERTS_FP4, EXPERTS_16_BITS } expert_format;

/* n: columns of gate and up, or of the one part. */
typedef struct large_grouped {
  int64_t k, n, group;
  bool is_gated;
  int n_matrices, n_slots;
  slot_spread spread;
} large_grouped;

static const large_grouped large_groupeds[] = {
    {2048, 1536, 128, true, 16, 100, SLOTS_RANDOM},  {768, 2048, 128, false, 16, 100, SLOTS_RANDOM},
    {2048, 1536, 128, true, 128, 8, SLOTS_RANDOM},   {768, 2048, 128, false, 128, 64, SLOTS_RANDOM},
    {256, 272, 128, true, 7, 300, SLOTS_IN_ONE},     {160, 48, 160, true, 5, 33, SLOTS_IN_THREE},
    {416, 520, 416, false, 9, 77, SLOTS_IN_THREE},   {128, 64, 128, false, 3, 0, SLOTS_RANDOM},
    {1408, 2048, 128, false, 12, 700, SLOTS_RANDOM}, {96, 72, 32, false, 6, 50, SLOTS_RANDOM},
    {256, 96, 64, true, 6, 150, SLOTS_RANDOM},       {64, 48, 64, true, 3, 9, SLOTS_IN_ONE},
    {2048, 2816, 64, true, 16, 100, SLOTS_RANDOM},   {1408, 2048, 64, false, 16, 700, SLOTS_RANDOM},
    {704, 520, 64, false, 9, 40, SLOTS_IN_THREE},    {704, 272, 32, true, 7, 300, SLOTS_IN_ONE},
    {704, 520, 64, false, 60, 40, SLOTS_IN_ONE},     {416, 272, 32, true, 50, 49, SLOTS_IN_THREE},
    {768, 520, 128, false, 100, 99, SLOTS_RANDOM},   {2048, 2816, 64, true, 6, 960, SLOTS_RANDOM},
    {1408, 264, 32, false, 12, 1, SLOTS_IN_ONE},     {2048, 1408, 32, true, 5, 0, SLOTS_RANDOM},
    {704, 520, 64, false, 60, 25, SLOTS_IN_ONE},     {2048, 272, 128, true, 60, 30, SLOTS_IN_ONE},
    {416, 264, 32, false, 60, 8, SLOTS_IN_ONE},      {256, 7168, 128, false, 70, 60, SLOTS_RANDOM},
    {768, 528, 128, true, 9, 60, SLOTS_IN_THREE},    {1408, 2048, 64, false, 9, 60, SLOTS_IN_THREE},
    {256, 2048, 128, false, 40, 160, SLOTS_UNEVEN},  {320, 2064, 64, true, 40, 160, SLOTS_UNEVEN},
    {768, 528, 128, true, 12, 400, SLOTS_RANDOM},    {416, 520, 32, false, 12, 400, SLOTS_RANDOM},
    {256, 2880, 64, false, 32, 800, SLOTS_RANDOM},   {256, 4800, 64, false, 12, 400, SLOTS_IN_THREE},
};
enum { N_LARGE_GROUPEDS = sizeof large_groupeds / sizeof *large_groupeds };

/* For FP4. */
static const large_grouped large_fp4_groupeds[] = {
    {480, 528, 32, true, 12, 400, SLOTS_RANDOM},   {704, 520, 16, false, 12, 400, SLOTS_RANDOM},
    {704, 528, 16, true, 12, 100, SLOTS_RANDOM},   {480, 520, 32, false, 12, 48, SLOTS_RANDOM},
    {480, 272, 32, true, 4, 500, SLOTS_RANDOM},    {2880, 288, 32, true, 40, 30, SLOTS_RANDOM},
    {480, 2880, 32, false, 32, 256, SLOTS_RANDOM}, {480, 5760, 32, true, 32, 1000, SLOTS_RANDOM},
};
enum { N_LARGE_FP4_GROUPEDS = sizeof large_fp4_groupeds / sizeof *large_fp4_groupeds };

static inline linear_case large_grouped_case(const large_grouped *c, expert_format format, bool use_bias)
{
  const int64_t n = c->is_gated ? c->n / 2 : c->n, group = format == EXPERTS_16_BITS ? 0 : c->group;
  const linear_part_case part = {.k = c->k,
                                 .n = n,
                                 .group = group,
                                 .dtype = format == EXPERTS_FP4 ? YK_F32 : YK_F16,
                                 .k_slice = {0, c->k},
                                 .n_slice = {0, n},
                                 .group_local = group,
                                 .use_bias = use_bias,
                                 .is_bytes = format == EXPERTS_FP4,
                                 .is_fp4 = format == EXPERTS_FP4};
  linear_case shape = {.parts = {part, part}, .n_parts = c->is_gated ? 2 : 1};
  if (c->is_gated) shape.activation = (yk_activation)YK_GATED_SILU;
  if (c->is_gated && format == EXPERTS_FP4)
    shape.activation = (yk_activation){YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 0.7f};
  return shape;
}

/* The first slot of each matrix, and the number of slots. */
static inline void spread_slots(const large_grouped *c, op_random *random, int32_t *starts)
{
  const int n = c->n_matrices, half = n / 2;
  for (int m = 0; m <= n; m++) starts[m] = 0;
  for (int i = 0; i < c->n_slots; i++) {
    int m = (int)op_between(random, 0, n - 1);
    if (c->spread == SLOTS_IN_ONE) m = half;
    if (c->spread == SLOTS_IN_THREE) m = m % 3 * (n / 3);
    if (c->spread == SLOTS_UNEVEN) m = i < half ? i : half + (i - half) / 10;
    starts[m + 1]++;
  }
  for (int m = 0; m < n; m++) starts[m + 1] += starts[m];
}

/* Some slots and columns of a layer's results by definition. */
typedef struct slot_sample {
  int32_t n_slots, slots[64];
  int64_t n_columns, step;
  double *expected, *magnitudes; /* [n_slots, n_columns] */
} slot_sample;

/* rows: of x, of each slot. */
static inline slot_sample slot_sample_new(const grouped_layer *layer, const large_grouped *c, const int32_t *starts,
                                          const int32_t *rows)
{
  enum { COLUMNS = 100, MOST = 40 };
  const linear_run *first = &layer->runs[0];
  slot_sample sample = {.step = first->n_local / COLUMNS + 1};
  sample.n_columns = (first->n_local - 1) / sample.step + 1;
  const int32_t n_slots = starts[c->n_matrices], apart = n_slots / MOST + 1;
  sample.expected = calloc((size_t)(64 * sample.n_columns), sizeof(double));
  sample.magnitudes = calloc((size_t)(64 * sample.n_columns), sizeof(double));
  assert_true(sample.expected && sample.magnitudes);
  for (int32_t slot = 0, m = 0; slot < n_slots; slot++) {
    if (slot % apart && slot != n_slots - 1) continue;
    while (starts[m + 1] <= slot) m++;
    linear_run of_matrix = layer->runs[m % N_GROUPED_MATRICES];
    of_matrix.x = first->x;
    linear_reference reference = {.run = &of_matrix,
                                  .rows = &rows[slot],
                                  .n_rows = 1,
                                  .column_step = sample.step,
                                  .stride = sample.n_columns,
                                  .y = sample.expected + sample.n_slots * sample.n_columns,
                                  .magnitudes = sample.magnitudes + sample.n_slots * sample.n_columns};
    linear_reference_fill(&reference, sample.n_columns);
    sample.slots[sample.n_slots++] = slot;
  }
  return sample;
}

static inline double slot_sample_error(const slot_sample *sample, yk_dtype dtype, const uint16_t *y, int64_t n_local,
                                       int64_t k)
{
  const size_t n = (size_t)(sample->n_slots * sample->n_columns);
  op_array found = {.n = n, .values = calloc(n + 1, sizeof(double))};
  assert_non_null(found.values);
  for (int32_t s = 0; s < sample->n_slots; s++)
    for (int64_t i = 0; i < sample->n_columns; i++)
      found.values[s * sample->n_columns + i] =
          (double)yk_dtype_load(dtype, y, (size_t)(sample->slots[s] * n_local + i * sample->step));
  const double error = linear_run_error(&found, sample->expected, sample->magnitudes, k);
  free(found.values);
  return error;
}

/* y after a forward into NaNs, as stored: finite in slots, unchanged after them. */
static inline uint16_t *large_grouped_forward(yk_device *dev, const grouped_layer *layer, const yk_grouped_args *args,
                                              int32_t n_slots)
{
  const size_t n = (size_t)(args->max_slots * args->y_stride), n_written = (size_t)(n_slots * args->y_stride);
  uint16_t *host = malloc(n * sizeof *host + 1);
  assert_non_null(host);
  memset(host, 0xFF, n * sizeof *host);
  op_ok(dev->ops->upload(dev, args->y, host, n * sizeof *host, &err));
  op_ok(op_parts_of(dev).grouped(dev, layer->linear, args, &err));
  op_ok(dev->ops->download(dev, host, args->y, n * sizeof *host, &err));
  const uint16_t exponent = dev->dtype == YK_F16 ? 0x7C00 : 0x7F80;
  size_t n_bad = 0;
  for (size_t i = 0; i < n; i++) n_bad += i < n_written ? (host[i] & exponent) == exponent : host[i] != 0xFFFF;
  assert_int_equal(n_bad, 0);
  return host;
}

/* Capacities for slots that select each tile; the same bits twice. */
static inline void check_large_grouped(const op_target *target, yk_dtype dtype, const large_grouped *c,
                                       expert_format format, uint32_t seed)
{
  enum { MOST_STARTS = 129, MOST_SLOTS = 1024, MOST_OUTPUTS = 16 << 20 };
  static const int32_t per_matrix[] = {0, 4, 10, 36, 56, 200};
  const linear_case shape = large_grouped_case(c, format, seed % 2);
  op_random random = {.seed = seed};
  int32_t starts[MOST_STARTS], rows[MOST_SLOTS];
  spread_slots(c, &random, starts);
  const bool is_gathered = seed % 3 != 0;
  const int32_t n_rows = c->n_slots + 5, most = 200 * c->n_matrices;
  for (int32_t i = 0; i < c->n_slots; i++) rows[i] = is_gathered ? (int32_t)op_between(&random, 0, n_rows - 1) : i;
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  grouped_layer layer = grouped_layer_of(dev, &shape, n_rows, seed, c->n_matrices, starts, most, NULL);
  const linear_run *run = &layer.runs[0];
  const slot_sample sample = slot_sample_new(&layer, c, starts, rows);
  int32_t *dev_rows = op_send_i32(dev, rows, (size_t)c->n_slots + 1);
  yk_grouped_args args = {.x = run->x.dev,
                          .n_rows = n_rows,
                          .row_of_slot = is_gathered ? dev_rows : NULL,
                          .starts = layer.starts,
                          .y_stride = run->n_local,
                          .staging = layer.staging};
  op_ok(dev->ops->alloc(dev, (size_t)(most * run->n_local) * 2, &args.y, &err));
  for (int i = 0; each_case(i, i < 6); i++) {
    args.max_slots = per_matrix[i] ? per_matrix[i] * c->n_matrices : c->n_matrices - 1;
    if (args.max_slots < c->n_slots || args.max_slots * run->n_local > MOST_OUTPUTS) continue;
    uint16_t *y = large_grouped_forward(dev, &layer, &args, c->n_slots);
    uint16_t *again = large_grouped_forward(dev, &layer, &args, c->n_slots);
    const double error = slot_sample_error(&sample, dtype, y, run->n_local, c->k);
    if (!(error <= large_linear_tolerance(dtype, &shape)))
      fail_msg("%s %s, %d matrices, k %lld, n %lld, group %lld, %d of %d slots: error %.3g, tolerance %.3g",
               target->name, yk_dtype_name(dtype), c->n_matrices, (long long)c->k, (long long)c->n,
               (long long)shape.parts[0].group, c->n_slots, args.max_slots, error,
               large_linear_tolerance(dtype, &shape));
    assert_memory_equal(y, again, (size_t)(args.max_slots * run->n_local) * 2);
    free(y), free(again);
  }
  free(sample.expected), free(sample.magnitudes);
  dev->ops->free(dev, args.y), dev->ops->free(dev, dev_rows);
  grouped_layer_free(dev, &layer);
  dev->ops->destroy(dev);
}

#endif
