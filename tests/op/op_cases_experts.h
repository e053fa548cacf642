/* op_cases_experts.h - routing, grouped linear layers and the combination of experts, against their definitions in
 * kernels/experts.h. */
#ifndef YK_TESTS_OP_CASES_EXPERTS_H
#define YK_TESTS_OP_CASES_EXPERTS_H

#include "op/op_cases_linear.h"

/* ---- Routing ----------------------------------------------------------------------------------------------------- */

typedef enum route_logits { ROUTE_RANDOM, ROUTE_EQUAL, ROUTE_ONE_SIDED /* all rows prefer one expert */ } route_logits;

typedef struct route_case {
  yk_route_spec spec;
  int32_t n_tokens, n_more_logits;
  route_logits logits;
  bool has_bias;    /* one that always chooses expert 7 and never expert 2 */
  bool has_padding; /* every fourth row is padding, and some rows are not finite */
} route_case;

static const route_case route_cases[] = {
    {{5, 3, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 5}, 40, 1, ROUTE_RANDOM, false, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 40, 44}, 300, 0, ROUTE_RANDOM, false, false},
    {{12, 3, YK_SCORE_SIGMOID, 4, 2, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 0}, 67, 0, ROUTE_RANDOM, true, false},
    {{60, 6, YK_SCORE_SOFTMAX, 6, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 59, 1}, 1, 0, ROUTE_RANDOM, false, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 64}, 70, 3, ROUTE_RANDOM, true, true},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 1, 0, 256}, 33, 0, ROUTE_EQUAL, false, false},
    {{7, 7, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 2, 4}, 9, 0, ROUTE_EQUAL, false, false},
    {{8, 1, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 8}, 130, 0, ROUTE_ONE_SIDED, false, false},
    {{1, 1, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 0, 1}, 5, 0, ROUTE_RANDOM, false, false},
    {{384, 8, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 2.827f, 300, 84},
     513,
     0,
     ROUTE_RANDOM,
     true,
     false},
};

enum { N_ROUTE_CASES = sizeof route_cases / sizeof *route_cases };

/* The place of the largest value that is not taken, the first of equals; marks that as taken. */
static inline int32_t route_take(const double *values, bool *taken, int32_t n)
{
  int32_t best = -1;
  for (int32_t i = 0; i < n; i++)
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  taken[best] = true;
  return best;
}

static inline void route_expect_groups(const yk_route_spec *spec, const double *choice, bool *taken)
{
  double scores[YK_MAX_EXPERT_GROUPS];
  bool stays[YK_MAX_EXPERT_GROUPS] = {false};
  int32_t size = spec->n_experts / spec->n_groups;
  for (int32_t g = 0; g < spec->n_groups; g++) {
    bool counted[YK_MAX_EXPERTS] = {false};
    scores[g] = choice[g * size + route_take(choice + g * size, counted, size)];
    if (spec->group_score == YK_GROUP_SCORE_LARGEST_TWO)
      scores[g] += choice[g * size + route_take(choice + g * size, counted, size)];
  }
  for (int32_t i = 0; i < spec->top_groups; i++) route_take(scores, stays, spec->n_groups);
  for (int32_t e = 0; e < spec->n_experts; e++) taken[e] = !stays[e / size];
}

/* Choices and weights of one row of finite logits. */
static inline void route_expect_row(const yk_route_spec *spec, const double *logits, const double *bias,
                                    int32_t *choices, double *weights)
{
  double scores[YK_MAX_EXPERTS], choice[YK_MAX_EXPERTS], sum = 0.0, of_weights = 1e-20;
  bool taken[YK_MAX_EXPERTS] = {false};
  for (int32_t e = 0; e < spec->n_experts; e++) sum += exp(logits[e]);
  for (int32_t e = 0; e < spec->n_experts; e++) {
    scores[e] = spec->scoring == YK_SCORE_SOFTMAX ? exp(logits[e]) / sum : 1.0 / (1.0 + exp(-logits[e]));
    choice[e] = scores[e] + (bias ? bias[e] : 0.0);
  }
  route_expect_groups(spec, choice, taken);
  for (int32_t j = 0; j < spec->top_k; j++) {
    choices[j] = route_take(choice, taken, spec->n_experts);
    weights[j] = scores[choices[j]];
    of_weights += weights[j];
  }
  for (int32_t j = 0; j < spec->top_k; j++) weights[j] *= (double)spec->scale / (spec->normalise ? of_weights : 1.0);
}

static inline op_array route_draw_logits(yk_device *dev, const route_case *c, int64_t stride, op_random *random)
{
  op_array logits = op_array_random(dev, YK_F32, (size_t)(c->n_tokens * stride), 1.0, random);
  for (size_t i = 0; i < logits.n; i++) {
    int64_t row = (int64_t)i / stride, e = (int64_t)i % stride;
    if (c->logits == ROUTE_EQUAL) logits.values[i] = 0.5;
    if (c->logits == ROUTE_ONE_SIDED) logits.values[i] = e == 5 ? 9.0 : 0.1 * logits.values[i];
    if (c->has_padding && row == 5 && e == 3) logits.values[i] = NAN;
    if (c->has_padding && row == 6 && e == 0) logits.values[i] = -INFINITY;
  }
  op_array_send(dev, &logits);
  return logits;
}

/* What a route writes, fetched. */
typedef struct route_found {
  int32_t *choices, *starts, *row_of_slot, *slot_of_choice;
  int64_t *counts;
  op_array weights;
} route_found;

static inline void *route_fetch(yk_device *dev, void *from, size_t n_bytes)
{
  void *to = calloc(1, n_bytes + 1);
  assert_non_null(to);
  op_ok(dev->ops->download(dev, to, from, n_bytes, &err));
  dev->ops->free(dev, from);
  return to;
}

static inline void *route_room(yk_device *dev, size_t n_bytes)
{
  void *room = NULL;
  op_ok(dev->ops->alloc(dev, n_bytes + 1, &room, &err));
  return room;
}

typedef struct route_input {
  const op_array *logits;
  int64_t stride;
  const op_array *bias; /* or NULL */
  const int32_t *kv_slots;
  const yk_linear *router; /* or NULL: logits are there */
  const void *x;           /* of the router */
} route_input;

/* Twice, so that counts are seen to add up. */
static inline route_found route_run(yk_device *dev, const route_case *c, const route_input *input)
{
  const yk_route_spec *spec = &c->spec;
  size_t n_choices = (size_t)(c->n_tokens * spec->top_k), n_slots = (size_t)yk_route_max_slots(spec, c->n_tokens);
  route_found found = {.weights = op_array_new(dev, YK_F32, n_choices)};
  const yk_route_args args = {.spec = spec,
                              .router = input->router,
                              .x = input->x,
                              .logits = input->logits->dev,
                              .logits_stride = input->stride,
                              .bias = input->bias ? input->bias->dev : NULL,
                              .kv_slots = input->kv_slots,
                              .n_tokens = c->n_tokens,
                              .choices = route_room(dev, n_choices * 4),
                              .weights = found.weights.dev,
                              .starts = route_room(dev, ((size_t)spec->n_local + 1) * 4),
                              .row_of_slot = route_room(dev, n_slots * 4),
                              .slot_of_choice = route_room(dev, n_choices * 4),
                              .counts = route_room(dev, (size_t)spec->n_experts * 8),
                              .scratch = route_room(dev, (size_t)yk_route_scratch_bytes(spec, c->n_tokens))};
  for (int i = 0; i < 2; i++) op_ok(dev->ops->route(dev, &args, &err));
  op_array_fetch(dev, &found.weights);
  found.choices = route_fetch(dev, args.choices, n_choices * 4);
  found.starts = route_fetch(dev, args.starts, ((size_t)spec->n_local + 1) * 4);
  found.row_of_slot = route_fetch(dev, args.row_of_slot, n_slots * 4);
  found.slot_of_choice = route_fetch(dev, args.slot_of_choice, n_choices * 4);
  found.counts = route_fetch(dev, args.counts, (size_t)spec->n_experts * 8);
  dev->ops->free(dev, args.scratch);
  return found;
}

static inline void route_found_free(yk_device *dev, route_found *found)
{
  free(found->choices), free(found->starts), free(found->row_of_slot), free(found->slot_of_choice), free(found->counts);
  op_array_free(dev, &found->weights);
}

static inline void route_check_row(const route_case *c, int32_t row, const op_array *logits, int64_t stride,
                                   const op_array *bias, bool is_padding, const route_found *found)
{
  const yk_route_spec *spec = &c->spec;
  const double *of_row = logits->values + row * stride;
  int32_t choices[YK_MAX_TOP_K];
  double weights[YK_MAX_TOP_K];
  bool sound = true;
  for (int32_t e = 0; e < spec->n_experts; e++) sound = sound && isfinite(of_row[e]);
  if (sound && !is_padding) route_expect_row(spec, of_row, bias ? bias->values : NULL, choices, weights);
  for (int32_t j = 0; j < spec->top_k; j++) {
    int32_t at = row * spec->top_k + j, expected = is_padding ? -1 : sound ? choices[j] : j;
    double weight = found->weights.values[at];
    assert_int_equal(found->choices[at], expected);
    if (is_padding)
      assert_true(weight == 0.0);
    else if (!sound)
      assert_true(isnan(weight));
    else if (!(fabs(weight - weights[j]) <= 2e-6 * weights[j]))
      fail_msg("row %d choice %d: expected weight %.9g, found %.9g", row, j, weights[j], weight);
  }
}

/* Slots follow from the choices alone. */
static inline void route_check_slots(const route_case *c, const route_found *found)
{
  const yk_route_spec *spec = &c->spec;
  int32_t slot = 0;
  for (int32_t e = 0; e < spec->n_experts; e++) {
    bool is_local = e >= spec->first_local && e < spec->first_local + spec->n_local;
    int64_t n = 0;
    if (is_local) assert_int_equal(found->starts[e - spec->first_local], slot);
    for (int32_t i = 0; i < c->n_tokens * spec->top_k; i++) {
      if (found->choices[i] != e) continue;
      n++;
      assert_int_equal(found->slot_of_choice[i], is_local ? slot : -1);
      if (is_local) assert_int_equal(found->row_of_slot[slot++], i / spec->top_k);
    }
    assert_int_equal(found->counts[e], 2 * n);
  }
  assert_int_equal(found->starts[spec->n_local], slot);
  for (int32_t i = 0; i < c->n_tokens * spec->top_k; i++)
    if (found->choices[i] < 0) assert_int_equal(found->slot_of_choice[i], -1);
}

static inline void check_route(const op_target *target, const route_case *c)
{
  op_random random = {.seed = (uint32_t)(c->spec.n_experts + c->n_tokens)};
  yk_device *dev = op_device_new(target, YK_F16, 3, 16);
  int64_t stride = c->spec.n_experts + c->n_more_logits;
  op_array logits = route_draw_logits(dev, c, stride, &random), bias = {0};
  int32_t slots[1024], *kv_slots = NULL;
  if (c->has_bias) {
    bias = op_array_random(dev, YK_F32, (size_t)c->spec.n_experts, 0.1, &random);
    bias.values[7] = 10.0;
    bias.values[2] = -10.0;
    op_array_send(dev, &bias);
  }
  for (int32_t i = 0; i < c->n_tokens; i++) slots[i] = c->has_padding && i % 4 == 3 ? -1 : i;
  if (c->has_padding) kv_slots = op_send_i32(dev, slots, (size_t)c->n_tokens);
  const route_input input = {&logits, stride, c->has_bias ? &bias : NULL, kv_slots, NULL, NULL};
  route_found found = route_run(dev, c, &input);
  for (int32_t row = 0; row < c->n_tokens; row++)
    route_check_row(c, row, &logits, stride, c->has_bias ? &bias : NULL, slots[row] < 0, &found);
  route_check_slots(c, &found);
  if (c->has_bias) {
    assert_int_equal(found.counts[2], c->has_padding ? 4 : 0); /* rows that are not finite choose it */
    assert_true(found.counts[7] >= 2 * (c->n_tokens - c->n_tokens / 4 - 2));
  }
  if (c->logits == ROUTE_ONE_SIDED) assert_int_equal(found.counts[5], 2 * c->n_tokens);
  route_found_free(dev, &found);
  op_array_free(dev, &logits);
  if (c->has_bias) op_array_free(dev, &bias);
  dev->ops->free(dev, kv_slots);
  dev->ops->destroy(dev);
}

/* A router's rows and weights: its logits are those of its own forward, and what is routed follows from them. The
 * sums of a forward may be in another order. */
typedef struct router_case {
  yk_route_spec spec;
  int32_t n_tokens, n_more_logits;
  int64_t k;
  bool has_padding;
} router_case;

static const router_case router_cases[] = {
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 1, 0, 2048, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 8, 1, 2560, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 1, 1, 256, false},
    {{5, 2, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 5}, 3, 1, 72, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 7, 0, 416, true},
    {{60, 4, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 7, 0}, 8, 0, 104, false},
    {{300, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 300}, 4, 0, 64, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 64}, 37, 1, 96, true},
    {{16, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 16}, 2, 0, 67, false},
};

static inline void check_router(const op_target *target, yk_dtype dtype, const router_case *c)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int64_t n_logits = c->spec.n_experts + c->n_more_logits;
  const linear_case shape = {
      .parts = {{c->k, n_logits, 0, YK_F16, {0, c->k}, {0, n_logits}, 0, false}}, .n_parts = 1, .f32_output = true};
  linear_run run = linear_run_new(dev, &shape, c->n_tokens, 40 + (uint32_t)c->k);
  op_array alone = linear_run_forward(dev, &run, 0, c->n_tokens), logits = op_array_new(dev, YK_F32, alone.n);
  const route_case routed = {.spec = c->spec, .n_tokens = c->n_tokens};
  int32_t slots[64], *kv_slots = NULL;
  for (int32_t i = 0; i < c->n_tokens; i++) slots[i] = c->has_padding && i % 4 == 3 ? -1 : i;
  if (c->has_padding) kv_slots = op_send_i32(dev, slots, (size_t)c->n_tokens);
  const route_input input = {&logits, n_logits, NULL, kv_slots, run.linear, run.x.dev};
  route_found found = route_run(dev, &routed, &input);
  op_array_fetch(dev, &logits);
  double error = op_error(logits.values, alone.values, logits.n);
  if (!(error <= 0x1p-17))
    fail_msg("%s %s router of %d rows, %lld logits: error %.3g", target->name, yk_dtype_name(dtype), c->n_tokens,
             (long long)n_logits, error);
  for (int32_t row = 0; row < c->n_tokens; row++)
    route_check_row(&routed, row, &logits, n_logits, NULL, slots[row] < 0, &found);
  route_check_slots(&routed, &found);
  route_found_free(dev, &found);
  op_array_free(dev, &alone), op_array_free(dev, &logits);
  linear_run_free(dev, &run);
  dev->ops->free(dev, kv_slots);
  dev->ops->destroy(dev);
}

static inline void check_routers(const op_target *target, size_t n_dtypes)
{
  for (size_t i = 0; i < sizeof router_cases / sizeof *router_cases; i++)
    check_router(target, op_dtypes[i % n_dtypes], &router_cases[i]);
}

static inline void check_routes(const op_target *target)
{
  for (int i = 0; i < N_ROUTE_CASES; i++) check_route(target, &route_cases[i]);
}

/* ---- Combination ------------------------------------------------------------------------------------------------- */

typedef struct combine_case {
  int32_t n_tokens, hidden, top_k;
  bool has_shared, has_gate, is_in_place;
} combine_case;

static const combine_case combine_cases[] = {{7, 260, 3, false, false, false},
                                             {40, 64, 8, true, false, true},
                                             {3, 20, 2, true, true, false},
                                             {1, 2051, 1, true, true, true},
                                             {33, 1024, 6, false, false, false}};

static inline void check_combine(const op_target *target, yk_dtype dtype, const combine_case *c)
{
  enum { GATE_STRIDE = 5 };
  op_random random = {.seed = (uint32_t)(c->hidden + c->top_k)};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int32_t n_slots = c->n_tokens * c->top_k;
  const size_t n = (size_t)(c->n_tokens * c->hidden);
  op_array slots = op_array_random(dev, dtype, (size_t)(n_slots * c->hidden), 1.0, &random);
  op_array weights = op_array_random(dev, YK_F32, (size_t)n_slots, 0.5, &random);
  op_array shared = op_array_random(dev, dtype, n, 1.0, &random), y = op_array_new(dev, dtype, n);
  op_array gate = op_array_random(dev, YK_F32, (size_t)(c->n_tokens * GATE_STRIDE), 2.0, &random);
  int32_t *slot_of_choice = calloc((size_t)n_slots, sizeof *slot_of_choice);
  double *expected = calloc(n, sizeof *expected);
  assert_non_null(slot_of_choice);
  assert_non_null(expected);
  for (int32_t i = 0; i < n_slots; i++) slot_of_choice[i] = i % 3 == 1 ? -1 : n_slots - 1 - i;
  for (size_t i = 0; i < n; i++) {
    int32_t row = (int32_t)i / c->hidden, column = (int32_t)i % c->hidden;
    double factor = c->has_gate ? 1.0 / (1.0 + exp(-gate.values[row * GATE_STRIDE])) : 1.0;
    for (int32_t j = row * c->top_k; j < (row + 1) * c->top_k; j++)
      if (slot_of_choice[j] >= 0)
        expected[i] += weights.values[j] * slots.values[slot_of_choice[j] * c->hidden + column];
    if (c->has_shared) expected[i] += factor * shared.values[i];
  }
  int32_t *dev_slots = op_send_i32(dev, slot_of_choice, (size_t)n_slots);
  op_array *result = c->is_in_place ? &shared : &y;
  const yk_combine_args args = {.y = result->dev,
                                .slots = slots.dev,
                                .weights = weights.dev,
                                .slot_of_choice = dev_slots,
                                .shared = c->has_shared ? shared.dev : NULL,
                                .shared_gate = c->has_gate ? gate.dev : NULL,
                                .shared_gate_stride = GATE_STRIDE,
                                .n_tokens = c->n_tokens,
                                .top_k = c->top_k,
                                .hidden = c->hidden};
  op_ok(dev->ops->combine(dev, &args, &err));
  op_array_fetch(dev, result);
  double error = op_error(result->values, expected, n), tolerance = op_unit_roundoff(dtype) + 0x1p-20;
  if (!(error <= tolerance))
    fail_msg("%s combine %s, %d rows of %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype),
             c->n_tokens, c->hidden, error, tolerance);
  free(slot_of_choice);
  free(expected);
  dev->ops->free(dev, dev_slots);
  op_array_free(dev, &slots), op_array_free(dev, &weights), op_array_free(dev, &shared);
  op_array_free(dev, &gate), op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

static inline void check_combines(const op_target *target, size_t n_dtypes)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; i < sizeof combine_cases / sizeof *combine_cases; i++)
      check_combine(target, op_dtypes[d], &combine_cases[i]);
}

/* ---- Grouped layers ---------------------------------------------------------------------------------------------- */

enum { N_GROUPED_MATRICES = 5, N_GROUPED_ROWS = 60 };

/* Slots of each matrix: none, one, more than a block of rows, few; a matrix's rows rise. */
static const int32_t grouped_counts[N_GROUPED_MATRICES] = {0, 1, 50, 0, 7};

/* The weights of runs side by side as a grouped layer, each also as a layer of its own. */
typedef struct grouped_layer {
  linear_run runs[N_GROUPED_MATRICES]; /* x of the first is the rows of the grouped forward, where that has no orders */
  yk_linear *linear;
  int32_t *starts; /* device memory */
  void *room;      /* what the device wants lent */
} grouped_layer;

/* Orders of the inputs of each matrix, alike in all its parts. */
typedef struct grouped_orders {
  int64_t x_size;
  int32_t *columns; /* [N_GROUPED_MATRICES, k_local] */
} grouped_orders;

static inline void *grouped_room_new(yk_device *dev, const yk_linear_spec *spec)
{
  void *room = NULL;
  int64_t n_bytes = dev->ops->linear_room_bytes ? dev->ops->linear_room_bytes(spec) : 0;
  if (n_bytes > 0) op_ok(dev->ops->alloc(dev, (size_t)n_bytes, &room, &err));
  return room;
}

/* orders: or NULL. */
static inline grouped_layer grouped_layer_in_order(yk_device *dev, const linear_case *shape, int32_t n_rows,
                                                   uint32_t seed, const int32_t starts[N_GROUPED_MATRICES + 1],
                                                   int32_t max_slots, const grouped_orders *orders)
{
  grouped_layer layer = {.starts = op_send_i32(dev, starts, N_GROUPED_MATRICES + 1)};
  yk_weight_view views[YK_MAX_LINEAR_PARTS][N_GROUPED_MATRICES - 1];
  for (int m = 0; m < N_GROUPED_MATRICES; m++) layer.runs[m] = linear_run_new(dev, shape, n_rows, seed + (uint32_t)m);
  yk_linear_spec spec = layer.runs[0].spec;
  spec.n_matrices = N_GROUPED_MATRICES;
  spec.is_grouped = true;
  spec.max_tokens = max_slots;
  for (int i = 0; i < spec.n_parts; i++) {
    for (int m = 1; m < N_GROUPED_MATRICES; m++) views[i][m - 1] = layer.runs[m].spec.parts[i].weight;
    spec.parts[i].more_weights = views[i];
    if (orders) spec.parts[i].x_size = orders->x_size;
  }
  layer.room = grouped_room_new(dev, &spec);
  for (int i = 0; orders && i < spec.n_parts; i++) spec.parts[i].x_order = orders->columns;
  op_ok(dev->ops->linear_create(dev, &spec, &layer.linear, &err));
  return layer;
}

static inline grouped_layer grouped_layer_new(yk_device *dev, const linear_case *shape, int32_t n_rows, uint32_t seed,
                                              const int32_t starts[N_GROUPED_MATRICES + 1], int32_t max_slots)
{
  return grouped_layer_in_order(dev, shape, n_rows, seed, starts, max_slots, NULL);
}

static inline void grouped_layer_free(yk_device *dev, grouped_layer *layer)
{
  dev->ops->linear_destroy(dev, layer->linear);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) linear_run_free(dev, &layer->runs[m]);
  dev->ops->free(dev, layer->starts);
  dev->ops->free(dev, layer->room);
}

/* Results of so many slots, in which whatever nobody writes is -7. */
static inline op_array slots_new(yk_device *dev, yk_dtype dtype, size_t n)
{
  op_array y = op_array_new(dev, dtype, n);
  for (size_t i = 0; i < n; i++) y.values[i] = -7.0;
  op_array_send(dev, &y);
  return y;
}

/* A slot gives what row number row of x gives with its matrix alone. */
static inline void check_slot_of(const op_target *target, yk_device *dev, const grouped_layer *layer, const op_array *x,
                                 const op_array *y, int32_t slot, int matrix, int32_t row, double tolerance)
{
  linear_run of_row = layer->runs[matrix];
  of_row.x = *x;
  op_array alone = linear_run_forward(dev, &of_row, row, 1);
  double error = op_error(y->values + slot * of_row.y_stride, alone.values, alone.n);
  if (!(error <= tolerance))
    fail_msg("%s %s slot %d of matrix %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dev->dtype), slot,
             matrix, error, tolerance);
  op_array_free(dev, &alone);
}

static inline void check_slot(const op_target *target, yk_device *dev, const grouped_layer *layer, const op_array *y,
                              int32_t slot, int matrix, int32_t row, double tolerance)
{
  check_slot_of(target, dev, layer, &layer->runs[0].x, y, slot, matrix, row, tolerance);
}

/* Each slot gives what its row gives with its matrix alone: to the bit where rows do not depend on their company, else
 * within tolerance. The room for one more slot than there are stays as it was. */
static inline void check_linear_grouped(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                        bool is_gathered, double tolerance)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  int32_t starts[N_GROUPED_MATRICES + 1] = {0}, rows[N_GROUPED_ROWS], n_slots = 0;
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    for (int32_t i = 0; i < grouped_counts[m]; i++, n_slots++) rows[n_slots] = is_gathered ? i + m : n_slots;
    starts[m + 1] = n_slots;
  }
  grouped_layer layer = grouped_layer_new(dev, shape, N_GROUPED_ROWS, 90, starts, n_slots + 1);
  const int64_t stride = layer.runs[0].y_stride;
  op_array y = slots_new(dev, shape->f32_output ? YK_F32 : dtype, (size_t)((n_slots + 1) * stride));
  int32_t *dev_rows = op_send_i32(dev, rows, (size_t)n_slots);
  yk_linear_grouped_args args = {.x = layer.runs[0].x.dev,
                                 .n_rows = N_GROUPED_ROWS,
                                 .row_of_slot = is_gathered ? dev_rows : NULL,
                                 .starts = layer.starts,
                                 .max_slots = n_slots + 1,
                                 .y = y.dev,
                                 .y_stride = stride,
                                 .room = layer.room};
  op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int m = 0; m < N_GROUPED_MATRICES; m++)
    for (int32_t slot = starts[m]; slot < starts[m + 1]; slot++)
      check_slot(target, dev, &layer, &y, slot, m, rows[slot], tolerance);
  for (int64_t i = 0; i < stride; i++) assert_true(y.values[n_slots * stride + i] == -7.0);
  yk_err refusal = YK_ERR_INIT;
  args.max_slots = n_slots + 2;
  assert_int_equal(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &refusal), YK_E_INVAL);
  args.max_slots = 1;
  assert_int_equal(dev->ops->linear_forward_grouped(dev, layer.runs[0].linear, &args, &refusal), YK_E_INVAL);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

/* Columns of x in an order of each matrix: all of them once, as far as there are inputs; beyond them -1. */
static inline grouped_orders grouped_orders_draw(int64_t k, int64_t x_size)
{
  op_random random = {.seed = (uint32_t)(k + x_size)};
  grouped_orders orders = {x_size, calloc((size_t)(N_GROUPED_MATRICES * k), sizeof(int32_t))};
  assert_non_null(orders.columns);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    int32_t *order = orders.columns + m * k;
    for (int64_t i = 0; i < k; i++) order[i] = i < x_size ? (int32_t)(x_size - 1 - i) : -1;
    for (int64_t i = k - 1; i > 0; i--) {
      int64_t other = op_between(&random, 0, (int)i);
      int32_t swap = order[i];
      order[i] = order[other], order[other] = swap;
    }
  }
  return orders;
}

/* Rows of x in the order of a matrix. */
static inline op_array rows_in_order(yk_device *dev, const op_array *x, const grouped_orders *orders, int matrix,
                                     int64_t k)
{
  int64_t n_rows = (int64_t)x->n / orders->x_size;
  op_array ordered = op_array_new(dev, dev->dtype, (size_t)(n_rows * k));
  for (int64_t row = 0; row < n_rows; row++)
    for (int64_t i = 0; i < k; i++) {
      int32_t column = orders->columns[matrix * k + i];
      ordered.values[row * k + i] = column < 0 ? 0.0 : x->values[row * orders->x_size + column];
    }
  op_array_send(dev, &ordered);
  return ordered;
}

/* Matrices whose inputs have orders of their own: each slot gives what its row gives with its matrix alone, once it is
 * put into the matrix's order. */
static inline void check_grouped_order(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                       int64_t x_size, bool is_gathered, double tolerance)
{
  op_random random = {.seed = 11};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  int32_t starts[N_GROUPED_MATRICES + 1] = {0}, rows[N_GROUPED_ROWS], n_slots = 0;
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    for (int32_t i = 0; i < grouped_counts[m]; i++, n_slots++) rows[n_slots] = is_gathered ? i + m : n_slots;
    starts[m + 1] = n_slots;
  }
  const int64_t k = yk_range_size(shape->parts[0].k_slice);
  grouped_orders orders = grouped_orders_draw(k, x_size);
  grouped_layer layer = grouped_layer_in_order(dev, shape, N_GROUPED_ROWS, 70, starts, n_slots + 1, &orders);
  const int64_t stride = layer.runs[0].y_stride;
  op_array x = op_array_random(dev, dtype, (size_t)(N_GROUPED_ROWS * x_size), 1.0, &random);
  op_array y = slots_new(dev, dtype, (size_t)((n_slots + 1) * stride));
  int32_t *dev_rows = op_send_i32(dev, rows, (size_t)n_slots);
  const yk_linear_grouped_args args = {.x = x.dev,
                                       .n_rows = N_GROUPED_ROWS,
                                       .row_of_slot = is_gathered ? dev_rows : NULL,
                                       .starts = layer.starts,
                                       .max_slots = n_slots + 1,
                                       .y = y.dev,
                                       .y_stride = stride,
                                       .room = layer.room};
  op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int m = 0; m < N_GROUPED_MATRICES; m++) {
    op_array ordered = rows_in_order(dev, &x, &orders, m, k);
    for (int32_t slot = starts[m]; slot < starts[m + 1]; slot++)
      check_slot_of(target, dev, &layer, &ordered, &y, slot, m, rows[slot], tolerance);
    op_array_free(dev, &ordered);
  }
  for (int64_t i = 0; i < stride; i++) assert_true(y.values[n_slots * stride + i] == -7.0);
  grouped_layer_free(dev, &layer);
  free(orders.columns);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &x), op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

/* One row whose choices have slots of some of the matrices: a forward with its combination gives what both give one
 * after the other, but for the rounding of the slots. Choice 0 is another rank's. */
static inline void check_grouped_combination(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                             bool has_shared, double tolerance)
{
  enum { TOP_K = 4, N_SLOTS = TOP_K - 1 };
  op_random random = {.seed = 7};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int32_t starts[N_GROUPED_MATRICES + 1] = {0, 0, 1, 1, 2, 3}, slot_of_choice[TOP_K] = {-1, 2, 0, 1};
  grouped_layer layer = grouped_layer_new(dev, shape, N_SLOTS, 60, starts, N_SLOTS);
  const size_t n = (size_t)layer.runs[0].y_stride;
  op_array slots = op_array_new(dev, dtype, N_SLOTS * n), weights = op_array_random(dev, YK_F32, TOP_K, 1.0, &random);
  op_array shared = op_array_random(dev, dtype, n, 1.0, &random), gate = op_array_random(dev, YK_F32, 1, 2.0, &random);
  op_array together = op_array_new(dev, dtype, n), apart = op_array_new(dev, dtype, n);
  int32_t *dev_slots = op_send_i32(dev, slot_of_choice, TOP_K);
  yk_combine_args sum = {.y = apart.dev,
                         .slots = slots.dev,
                         .weights = weights.dev,
                         .slot_of_choice = dev_slots,
                         .shared = has_shared ? shared.dev : NULL,
                         .shared_gate = has_shared ? gate.dev : NULL,
                         .shared_gate_stride = 1,
                         .n_tokens = 1,
                         .top_k = TOP_K,
                         .hidden = (int32_t)n};
  yk_linear_grouped_args args = {.x = layer.runs[0].x.dev,
                                 .n_rows = N_SLOTS,
                                 .starts = layer.starts,
                                 .max_slots = N_SLOTS,
                                 .y = slots.dev,
                                 .y_stride = (int64_t)n,
                                 .room = layer.room};
  op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
  op_ok(dev->ops->combine(dev, &sum, &err));
  sum.y = together.dev;
  args.combine = &sum;
  op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &apart);
  op_array_fetch(dev, &together);
  double error = op_error(together.values, apart.values, n);
  if (!(error <= tolerance))
    fail_msg("%s %s combination of %zu columns: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype), n,
             error, tolerance);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_slots);
  op_array_free(dev, &slots), op_array_free(dev, &weights), op_array_free(dev, &shared), op_array_free(dev, &gate);
  op_array_free(dev, &together), op_array_free(dev, &apart);
  dev->ops->destroy(dev);
}

/* A forward that names the routing of its only row gives what both give one after the other; the second time without
 * any slot, for the row is padding. */
static inline void check_grouped_route(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                       double tolerance)
{
  enum { TOP_K = 3, N_EXPERTS = 6 };
  const yk_route_spec spec = {.n_experts = N_EXPERTS,
                              .top_k = TOP_K,
                              .n_groups = 1,
                              .top_groups = 1,
                              .normalise = true,
                              .scale = 1.0f,
                              .first_local = 1,
                              .n_local = N_GROUPED_MATRICES};
  const int32_t starts[N_GROUPED_MATRICES + 1] = {0}, kv_slots[2] = {0, -1};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  grouped_layer layer = grouped_layer_new(dev, shape, 1, 80, starts, TOP_K);
  const int64_t n = layer.runs[0].y_stride, k = yk_range_size(shape->parts[0].k_slice);
  const linear_case of_router = {
      .parts = {{k, N_EXPERTS, 0, YK_F16, {0, k}, {0, N_EXPERTS}, 0, false}}, .n_parts = 1, .f32_output = true};
  linear_run router = linear_run_new(dev, &of_router, 1, 41);
  int32_t *dev_slots = op_send_i32(dev, kv_slots, 2);
  op_array logits = op_array_new(dev, YK_F32, N_EXPERTS), weights[2];
  for (int is_padding = 0; is_padding < 2; is_padding++) {
    op_array y[2];
    int32_t *found[2][3]; /* choices, starts, slot_of_choice */
    for (int together = 0; together < 2; together++) {
      weights[together] = op_array_new(dev, YK_F32, TOP_K);
      y[together] = slots_new(dev, dtype, (size_t)(TOP_K * n));
      const yk_route_args route = {.spec = &spec,
                                   .router = router.linear,
                                   .x = layer.runs[0].x.dev,
                                   .logits = logits.dev,
                                   .logits_stride = N_EXPERTS,
                                   .kv_slots = dev_slots + is_padding,
                                   .n_tokens = 1,
                                   .choices = route_room(dev, TOP_K * 4),
                                   .weights = weights[together].dev,
                                   .starts = route_room(dev, sizeof starts),
                                   .row_of_slot = route_room(dev, TOP_K * 4),
                                   .slot_of_choice = route_room(dev, TOP_K * 4),
                                   .scratch = route_room(dev, (size_t)yk_route_scratch_bytes(&spec, 1))};
      const yk_linear_grouped_args args = {.x = layer.runs[0].x.dev,
                                           .n_rows = 1,
                                           .row_of_slot = route.row_of_slot,
                                           .starts = route.starts,
                                           .max_slots = TOP_K,
                                           .y = y[together].dev,
                                           .y_stride = n,
                                           .route = together ? &route : NULL};
      if (!together) op_ok(dev->ops->route(dev, &route, &err));
      op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
      op_array_fetch(dev, &y[together]);
      op_array_fetch(dev, &weights[together]);
      found[together][0] = route_fetch(dev, route.choices, TOP_K * 4);
      found[together][1] = route_fetch(dev, route.starts, sizeof starts);
      found[together][2] = route_fetch(dev, route.slot_of_choice, TOP_K * 4);
      dev->ops->free(dev, route.row_of_slot);
      dev->ops->free(dev, route.scratch);
    }
    assert_memory_equal(found[1][0], found[0][0], TOP_K * 4);
    assert_memory_equal(found[1][1], found[0][1], sizeof starts);
    assert_memory_equal(found[1][2], found[0][2], TOP_K * 4);
    assert_int_equal(found[0][1][N_GROUPED_MATRICES] > 0, !is_padding);
    assert_memory_equal(weights[1].bytes, weights[0].bytes, TOP_K * 4);
    double error = op_error(y[1].values, y[0].values, y[0].n);
    if (!(error <= tolerance))
      fail_msg("%s %s routed forward of %lld columns: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype),
               (long long)n, error, tolerance);
    for (int together = 0; together < 2; together++) {
      for (int i = 0; i < 3; i++) free(found[together][i]);
      op_array_free(dev, &y[together]), op_array_free(dev, &weights[together]);
    }
  }
  op_array_free(dev, &logits);
  linear_run_free(dev, &router);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_slots);
  dev->ops->destroy(dev);
}

/* One row that some of the matrices have a slot of: as each matrix gives it alone. */
static inline void check_grouped_row(const op_target *target, yk_dtype dtype, const linear_case *shape,
                                     double tolerance)
{
  enum { N_SLOTS = 3 };
  static const int matrix_of_slot[N_SLOTS] = {1, 3, 4};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int32_t starts[N_GROUPED_MATRICES + 1] = {0, 0, 1, 1, 2, 3}, rows[N_SLOTS] = {0};
  grouped_layer layer = grouped_layer_new(dev, shape, 1, 30, starts, N_SLOTS + 1);
  const int64_t n = layer.runs[0].y_stride;
  int32_t *dev_rows = op_send_i32(dev, rows, N_SLOTS);
  op_array y = slots_new(dev, dtype, (size_t)((N_SLOTS + 1) * n));
  const yk_linear_grouped_args args = {.x = layer.runs[0].x.dev,
                                       .n_rows = 1,
                                       .row_of_slot = dev_rows,
                                       .starts = layer.starts,
                                       .max_slots = N_SLOTS + 1,
                                       .y = y.dev,
                                       .y_stride = n,
                                       .room = layer.room};
  op_ok(dev->ops->linear_forward_grouped(dev, layer.linear, &args, &err));
  op_array_fetch(dev, &y);
  for (int slot = 0; slot < N_SLOTS; slot++)
    check_slot(target, dev, &layer, &y, slot, matrix_of_slot[slot], 0, tolerance);
  for (int64_t i = N_SLOTS * n; i < (N_SLOTS + 1) * n; i++) assert_true(y.values[i] == -7.0);
  grouped_layer_free(dev, &layer);
  dev->ops->free(dev, dev_rows);
  op_array_free(dev, &y);
  dev->ops->destroy(dev);
}

#endif
