/* op_cases_w8a8_grouped.h - a grouped layer whose inputs are quantised per token and cut over ranks (the down_proj of a
 * mixture's experts): with the maxima of whole rows each rank gives exactly the value of its integers, and their sum is
 * the result of one rank. */
#ifndef YK_TESTS_OP_CASES_W8A8_GROUPED_H
#define YK_TESTS_OP_CASES_W8A8_GROUPED_H

#include "each_case.h"
#include "op/op_cases_w8a8.h"
#include "op/op_parts.h"

enum { N_MATRICES = 3, N_SLOTS = N_TOKENS };
static const int32_t grouped_starts[N_MATRICES + 1] = {0, 20, 20, N_SLOTS}; /* one matrix has none */

/* x of a slot is a row of run number 0, whose weights are matrix 0. */
typedef struct w8a8_grouped {
  w8a8_case shape;
  w8a8_run runs[N_MATRICES];
  int32_t *starts; /* device */
} w8a8_grouped;

static inline void w8a8_grouped_init(yk_device *dev, w8a8_grouped *layer)
{
  op_random random = {.seed = 23};
  layer->shape = (w8a8_case){.k = 100, .n = {40}, .n_parts = 1, .inputs = {PER_TOKEN}};
  layer->starts = op_send_i32(dev, grouped_starts, N_MATRICES + 1);
  for (int m = 0; m < N_MATRICES; m++) {
    layer->runs[m] = w8a8_run_new(dev, &layer->shape);
    w8a8_weight *w = &layer->runs[m].weights[0];
    for (int64_t i = 0; i < layer->shape.k * layer->shape.n[0]; i++)
      w->quants[i] = (int8_t)op_between(&random, -128, 127);
    for (int64_t i = 0; i < layer->shape.n[0]; i++) w->scales[i] *= (float)(1 + m);
  }
  layer->runs[0].x.values[7 * layer->shape.k + 5] = NAN;
  op_array_send(dev, &layer->runs[0].x);
}

static inline void w8a8_grouped_free(yk_device *dev, w8a8_grouped *layer)
{
  for (int m = 0; m < N_MATRICES; m++) w8a8_run_free(dev, &layer->runs[m]);
  dev->ops->free(dev, layer->starts);
}

/* Inputs k of every slot. maxima: device, or NULL. */
static inline op_array w8a8_grouped_forward(yk_device *dev, const w8a8_grouped *layer, yk_range k, const void *x,
                                            const int32_t *maxima)
{
  const int64_t n = layer->shape.n[0];
  yk_weight_view views[N_MATRICES - 1];
  for (int m = 1; m < N_MATRICES; m++) views[m - 1] = layer->runs[m].weights[0].view;
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = N_MATRICES, .is_grouped = true, .max_tokens = N_SLOTS};
  spec.parts[0] = (yk_linear_part){.weight = layer->runs[0].weights[0].view,
                                   .more_weights = views,
                                   .k = k,
                                   .n = {0, n},
                                   .group_local = yk_range_size(k)};
  yk_linear *linear = NULL;
  op_array y = op_array_new(dev, dev->dtype, (size_t)(N_SLOTS * n));
  void *staging = op_staging_new(dev, &spec);
  op_ok(dev->ops->linear_create(dev, &spec, &linear, &err));
  const yk_grouped_args args = {.x = x,
                                .n_rows = N_SLOTS,
                                .starts = layer->starts,
                                .max_slots = N_SLOTS,
                                .maxima = maxima,
                                .y = y.dev,
                                .y_stride = n,
                                .staging = staging};
  op_ok(op_parts_of(dev).grouped(dev, linear, &args, &err));
  op_array_fetch(dev, &y);
  dev->ops->linear_destroy(dev, linear);
  dev->ops->free(dev, staging);
  return y;
}

/* The value of the integers of a rank's inputs, slot by slot, scaled like a layer that is computed in phases. */
static inline void check_w8a8_grouped_bits(const op_target *target, yk_device *dev, const w8a8_grouped *layer,
                                           yk_range k, const int32_t *largest, const op_array *y)
{
  const size_t row_bytes = (size_t)layer->shape.n[0] * yk_dtype_bytes(dev->dtype);
  for (int m = 0; m < N_MATRICES; m++) {
    w8a8_run of_matrix = layer->runs[m];
    of_matrix.x = layer->runs[0].x;
    w8a8_rank rank = w8a8_rank_new(dev, &of_matrix, k, true);
    op_ok(dev->ops->upload(dev, rank.args.maxima, largest, N_SLOTS * sizeof *largest, &err));
    op_ok(dev->ops->linear_sums(dev, rank.linear, &rank.args, &err));
    op_ok(dev->ops->linear_scale(dev, rank.linear, &rank.args, &err));
    op_array_fetch(dev, &rank.y);
    for (int32_t slot = grouped_starts[m]; slot < grouped_starts[m + 1]; slot++)
      if (slot != 7 && memcmp((char *)rank.y.bytes + (size_t)slot * row_bytes,
                              (char *)y->bytes + (size_t)slot * row_bytes, row_bytes) != 0)
        fail_msg("%s %s: inputs %lld to %lld of slot %d give other bits than their sums", target->name,
                 yk_dtype_name(dev->dtype), (long long)k.begin, (long long)k.end, slot);
    w8a8_rank_free(dev, &rank);
  }
}

/* Distance of the ranks' summed results from those of one rank. A rank without inputs has no layer: its maxima are
 * zeros. own_maxima: a fault. */
static inline double w8a8_grouped_error(const op_target *target, yk_dtype dtype, const w8a8_sharing *cut,
                                        bool own_maxima)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  w8a8_grouped layer;
  w8a8_grouped_init(dev, &layer);
  const int64_t k = layer.shape.k, n = N_SLOTS * layer.shape.n[0];
  op_array whole = w8a8_grouped_forward(dev, &layer, (yk_range){0, k}, layer.runs[0].x.dev, NULL);
  double *sum = calloc((size_t)n, sizeof *sum);
  int32_t largest[N_SLOTS] = {0}, maxima[N_SLOTS];
  w8a8_rank ranks[MAX_RANKS];
  for (int r = 0; r < cut->n_ranks; r++) {
    const yk_range of_rank = {cut->cuts[r], cut->cuts[r + 1]};
    ranks[r] = w8a8_rank_new(dev, &layer.runs[0], of_rank, false);
    memset(maxima, 0x7F, sizeof maxima); /* larger than any x */
    op_ok(dev->ops->upload(dev, ranks[r].args.maxima, maxima, sizeof maxima, &err));
    op_ok(dev->ops->linear_maxima(dev, yk_range_size(of_rank) > 0 ? ranks[r].linear : NULL, &ranks[r].args, &err));
    op_ok(dev->ops->download(dev, maxima, ranks[r].args.maxima, sizeof maxima, &err));
    for (int i = 0; i < N_SLOTS; i++) largest[i] = (int32_t)yk_max_i64(largest[i], maxima[i]);
  }
  for (int r = 0; r < cut->n_ranks; r++) {
    const yk_range of_rank = {cut->cuts[r], cut->cuts[r + 1]};
    if (yk_range_size(of_rank) > 0) {
      if (!own_maxima) op_ok(dev->ops->upload(dev, ranks[r].args.maxima, largest, sizeof largest, &err));
      op_array y = w8a8_grouped_forward(dev, &layer, of_rank, ranks[r].x.dev, ranks[r].args.maxima);
      for (int64_t i = 0; i < n; i++) sum[i] += y.values[i];
      if (!own_maxima) check_w8a8_grouped_bits(target, dev, &layer, of_rank, largest, &y);
      op_array_free(dev, &y);
    }
    w8a8_rank_free(dev, &ranks[r]);
  }
  for (int64_t i = 7 * layer.shape.n[0]; i < 8 * layer.shape.n[0]; i++) { /* only the slot with a NaN fails */
    assert_true(isnan(whole.values[i]) && isnan(sum[i]));
    whole.values[i] = sum[i] = 0.0;
  }
  double error = op_error(sum, whole.values, (size_t)n);
  free(sum);
  op_array_free(dev, &whole);
  w8a8_grouped_free(dev, &layer);
  dev->ops->destroy(dev);
  return error;
}

/* Each rank's part is rounded once, and so is the result of one rank. */
static inline void check_w8a8_grouped_ranks(const op_target *target, const yk_dtype *dtypes, size_t n_dtypes)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t s = 0; each_case(s, s < sizeof w8a8_sharings / sizeof *w8a8_sharings); s++) {
      double error = w8a8_grouped_error(target, dtypes[d], &w8a8_sharings[s], false);
      if (!(error <= (1 + w8a8_sharings[s].n_ranks) * op_unit_roundoff(dtypes[d]) + 1e-6))
        fail_msg("%s %s: %d ranks differ from one by %.3g", target->name, yk_dtype_name(dtypes[d]),
                 w8a8_sharings[s].n_ranks, error);
    }
  assert_true(w8a8_grouped_error(target, dtypes[0], &w8a8_sharings[1], true) > 2e-3); /* the comparison detects it */
}

#endif
