/* op_cases_experts.h - routing and the combination of experts, against their definitions in kernels/experts.h. */
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
  const yk_linear *router;      /* or NULL: logits are there */
  const void *x;                /* of the router */
  const yk_add_norm_args *norm; /* that gives x, or NULL: x is there */
  bool is_apart;                /* the norm is an operation of its own */
} route_input;

/* Twice, so that counts are seen to add up. */
static inline route_found route_run(yk_device *dev, const route_case *c, const route_input *input)
{
  const yk_route_spec *spec = &c->spec;
  size_t n_choices = (size_t)(c->n_tokens * spec->top_k), n_slots = (size_t)yk_route_max_slots(spec, c->n_tokens);
  route_found found = {.weights = op_array_new(dev, YK_F32, n_choices)};
  const yk_route_args args = {.spec = spec,
                              .norm = input->is_apart ? NULL : input->norm,
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
  for (int i = 0; i < 2; i++) {
    if (input->is_apart) op_ok(dev->ops->add_norm(dev, input->norm, &err));
    op_ok(dev->ops->route(dev, &args, &err));
  }
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
  const route_input input = {&logits, stride, c->has_bias ? &bias : NULL, kv_slots, NULL, NULL, NULL, false};
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
  bool has_padding; /* every fourth row is padding, and a row of x is not finite */
  bool has_bias;
} router_case;

enum { MOST_ROUTER_ROWS = 320 };

static const router_case router_cases[] = {
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 1, 0, 2048, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 8, 1, 2560, true, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 1, 1, 256, false, false},
    {{5, 2, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 5}, 3, 1, 72, false, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 7, 0, 416, true, false},
    {{60, 4, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 7, 0}, 8, 0, 104, false, false},
    {{300, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 300}, 4, 0, 64, false, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 64}, 37, 1, 96, true, false},
    {{16, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 16}, 2, 0, 67, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 9, 0, 2048, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 17, 2, 2560, true, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 64}, 64, 1, 2048, true, true},
    {{61, 5, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 3, 41}, 255, 0, 136, true, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 256, 0, 2048, true, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 64, 64}, 257, 0, 512, true, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 36, 0, 7168, true, true},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 20, 80}, 128, 0, 264, false, false},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 20, 80}, 129, 0, 264, false, true},
    {{96, 31, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 96}, 130, 33, 64, true, false},
    {{96, 32, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 96}, 12, 0, 64, false, false},
    /* Of a GPU's kernels for few rows those that it takes where clusters of many rows do not run: so many choices. */
    {{96, 32, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 8, 80}, 7, 1, 264, true, true},
    {{160, 32, YK_SCORE_SIGMOID, 8, 3, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 160}, 8, 0, 2048, false, true},
};

static inline linear_case router_shape(int64_t k, int64_t n_logits)
{
  return (linear_case){
      .parts = {{k, n_logits, 0, YK_F16, {0, k}, {0, n_logits}, 0, false}}, .n_parts = 1, .f32_output = true};
}

/* Logits of rows that are not finite are NaNs in both, and become zeros. */
static inline double router_error(op_array *logits, op_array *expected)
{
  for (size_t i = 0; i < logits->n; i++) {
    if (!isnan(expected->values[i])) continue;
    assert_true(isnan(logits->values[i]));
    expected->values[i] = logits->values[i] = 0.0;
  }
  return op_error(logits->values, expected->values, logits->n);
}

/* What a norm and the routing behind it leave. */
typedef struct normed_route {
  op_array residual, y, logits;
  route_found found;
} normed_route;

static inline normed_route route_normed(yk_device *dev, const router_case *c, const linear_run *run,
                                        const route_input *plain, bool is_apart)
{
  op_random random = {.seed = 7};
  const size_t n = (size_t)(c->n_tokens * c->k);
  normed_route r = {.residual = op_array_random(dev, dev->dtype, n, 1.0, &random),
                    .y = op_array_new(dev, dev->dtype, n),
                    .logits = op_array_new(dev, YK_F32, plain->logits->n)};
  op_array partial = op_array_random(dev, dev->dtype, n, 1.0, &random),
           w = op_array_random(dev, dev->dtype, (size_t)c->k, 1.0, &random);
  const yk_add_norm_args norm = {.y = r.y.dev,
                                 .residual = r.residual.dev,
                                 .partials = {partial.dev},
                                 .n_partials = 1,
                                 .w = w.dev,
                                 .n_rows = c->n_tokens,
                                 .hidden = (int32_t)c->k,
                                 .alpha = 0.75f,
                                 .eps = 1e-5f};
  const route_case routed = {.spec = c->spec, .n_tokens = c->n_tokens};
  route_input input = *plain;
  input.logits = &r.logits;
  input.router = run->linear;
  input.x = r.y.dev;
  input.norm = &norm;
  input.is_apart = is_apart;
  r.found = route_run(dev, &routed, &input);
  op_array_fetch(dev, &r.residual), op_array_fetch(dev, &r.y), op_array_fetch(dev, &r.logits);
  op_array_free(dev, &partial), op_array_free(dev, &w);
  return r;
}

static inline void normed_route_free(yk_device *dev, normed_route *r)
{
  op_array_free(dev, &r->residual), op_array_free(dev, &r->y), op_array_free(dev, &r->logits);
  route_found_free(dev, &r->found);
}

/* A norm that a routing does first gives the same bits as one apart, and so does what follows from it. */
static inline void check_router_norm(yk_device *dev, const router_case *c, const linear_run *run,
                                     const route_input *plain)
{
  const size_t n_rows_bytes = (size_t)(c->n_tokens * c->k) * yk_dtype_bytes(dev->dtype);
  const size_t n_choices = (size_t)(c->n_tokens * c->spec.top_k),
               n_slots = (size_t)yk_route_max_slots(&c->spec, c->n_tokens);
  normed_route one = route_normed(dev, c, run, plain, false), apart = route_normed(dev, c, run, plain, true);
  assert_memory_equal(one.residual.bytes, apart.residual.bytes, n_rows_bytes);
  assert_memory_equal(one.y.bytes, apart.y.bytes, n_rows_bytes);
  assert_memory_equal(one.logits.bytes, apart.logits.bytes, one.logits.n * sizeof(float));
  assert_memory_equal(one.found.weights.bytes, apart.found.weights.bytes, n_choices * sizeof(float));
  assert_memory_equal(one.found.choices, apart.found.choices, n_choices * sizeof(int32_t));
  assert_memory_equal(one.found.slot_of_choice, apart.found.slot_of_choice, n_choices * sizeof(int32_t));
  assert_memory_equal(one.found.row_of_slot, apart.found.row_of_slot, n_slots * sizeof(int32_t));
  assert_memory_equal(one.found.starts, apart.found.starts, ((size_t)c->spec.n_local + 1) * sizeof(int32_t));
  assert_memory_equal(one.found.counts, apart.found.counts, (size_t)c->spec.n_experts * sizeof(int64_t));
  normed_route_free(dev, &one), normed_route_free(dev, &apart);
}

static inline void check_router(const op_target *target, yk_dtype dtype, const router_case *c)
{
  op_random random = {.seed = (uint32_t)c->n_tokens};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const int64_t n_logits = c->spec.n_experts + c->n_more_logits;
  const linear_case shape = router_shape(c->k, n_logits);
  linear_run run = linear_run_new(dev, &shape, c->n_tokens, 40 + (uint32_t)c->k);
  if (c->has_padding && c->n_tokens > 5) {
    run.x.values[5 * c->k + 3] = NAN;
    op_array_send(dev, &run.x);
  }
  op_array alone = linear_run_forward(dev, &run, 0, c->n_tokens), logits = op_array_new(dev, YK_F32, alone.n);
  op_array bias = op_array_random(dev, YK_F32, (size_t)c->spec.n_experts, 0.1, &random);
  const route_case routed = {.spec = c->spec, .n_tokens = c->n_tokens};
  int32_t slots[MOST_ROUTER_ROWS], *kv_slots = NULL;
  for (int32_t i = 0; i < c->n_tokens; i++) slots[i] = c->has_padding && i % 4 == 3 ? -1 : i;
  if (c->has_padding) kv_slots = op_send_i32(dev, slots, (size_t)c->n_tokens);
  const route_input input = {.logits = &logits,
                             .stride = n_logits,
                             .bias = c->has_bias ? &bias : NULL,
                             .kv_slots = kv_slots,
                             .router = run.linear,
                             .x = run.x.dev};
  route_found found = route_run(dev, &routed, &input);
  op_array_fetch(dev, &logits);
  for (int32_t row = 0; row < c->n_tokens; row++)
    route_check_row(&routed, row, &logits, n_logits, input.bias, slots[row] < 0, &found);
  route_check_slots(&routed, &found);
  double error = router_error(&logits, &alone);
  if (!(error <= 0x1p-17))
    fail_msg("%s %s router of %d rows, %lld logits: error %.3g", target->name, yk_dtype_name(dtype), c->n_tokens,
             (long long)n_logits, error);
  check_router_norm(dev, c, &run, &input);
  route_found_free(dev, &found);
  op_array_free(dev, &alone), op_array_free(dev, &logits), op_array_free(dev, &bias);
  linear_run_free(dev, &run);
  dev->ops->free(dev, kv_slots);
  dev->ops->destroy(dev);
}

static inline void check_routers(const op_target *target, size_t n_dtypes)
{
  for (size_t i = 0; i < sizeof router_cases / sizeof *router_cases; i++)
    check_router(target, op_dtypes[i % n_dtypes], &router_cases[i]);
}

/* n_tokens rows from `first` on have the same logits, choices and weights, to the bit, as among all rows. */
static inline void check_router_company(yk_device *dev, const yk_route_spec *spec, const linear_run *run, int32_t first,
                                        int32_t n_tokens, const op_array *all_logits, const route_found *all)
{
  const route_case routed = {.spec = *spec, .n_tokens = n_tokens};
  const size_t n_choices = (size_t)(n_tokens * spec->top_k), at = (size_t)(first * spec->top_k);
  op_array logits = op_array_new(dev, YK_F32, (size_t)(n_tokens * spec->n_experts));
  const char *x = (const char *)run->x.dev + (size_t)(first * run->k_local) * yk_dtype_bytes(dev->dtype);
  const route_input input = {.logits = &logits, .stride = spec->n_experts, .router = run->linear, .x = x};
  route_found found = route_run(dev, &routed, &input);
  op_array_fetch(dev, &logits);
  route_check_slots(&routed, &found);
  assert_memory_equal(logits.bytes, (const float *)all_logits->bytes + first * spec->n_experts,
                      logits.n * sizeof(float));
  assert_memory_equal(found.choices, all->choices + at, n_choices * sizeof *found.choices);
  assert_memory_equal(found.weights.bytes, (const float *)all->weights.bytes + at, n_choices * sizeof(float));
  route_found_free(dev, &found);
  op_array_free(dev, &logits);
}

/* Other rows and numbers of rows in turn, on one device: none sees what another has left. */
static inline void check_router_companies(const op_target *target, yk_dtype dtype)
{
  static const int32_t firsts[] = {0, 100, 3, 31, 77, 1, 1, 60, 128, 0, 240};
  static const int32_t sizes[] = {256, 9, 1, 64, 129, 8, 255, 17, 128, 256, 16};
  const yk_route_spec spec = {128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128};
  const route_case routed = {.spec = spec, .n_tokens = 256};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const linear_case shape = router_shape(2048, spec.n_experts);
  linear_run run = linear_run_new(dev, &shape, routed.n_tokens, 40);
  op_array logits = op_array_new(dev, YK_F32, (size_t)(routed.n_tokens * spec.n_experts));
  const route_input input = {.logits = &logits, .stride = spec.n_experts, .router = run.linear, .x = run.x.dev};
  route_found all = route_run(dev, &routed, &input);
  op_array_fetch(dev, &logits);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    check_router_company(dev, &spec, &run, firsts[i], sizes[i], &logits, &all);
  route_found_free(dev, &all);
  op_array_free(dev, &logits);
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
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

static const combine_case combine_cases[] = {
    {7, 260, 3, false, false, false},   {40, 64, 8, true, false, true},
    {3, 20, 2, true, true, false},      {1, 2051, 1, true, true, true},
    {33, 1024, 6, false, false, false}, {1100, 72, 3, false, false, false}, /* so many that blocks have several */
    {900, 40, 8, true, true, false},    {65600, 8, 1, true, false, false}}; /* more than a grid has along y */

/* Residual and norm, one behind the other, of the sum of a residual and a combination: of what it has given where
 * is_there, else the norm's operation has it done. */
static inline op_array norm_of_combination(yk_device *dev, yk_dtype dtype, const yk_combine_args *combine,
                                           bool is_there)
{
  op_random random = {.seed = 3};
  size_t n = (size_t)combine->n_tokens * (size_t)combine->hidden;
  op_array w = op_array_random(dev, dtype, (size_t)combine->hidden, 1.5, &random);
  op_array both = op_array_random(dev, dtype, 2 * n, 1.0, &random);
  const yk_add_norm_args args = {.y = (char *)both.dev + n * yk_dtype_bytes(dtype),
                                 .residual = both.dev,
                                 .partials = {combine->y},
                                 .n_partials = 1,
                                 .w = w.dev,
                                 .n_rows = combine->n_tokens,
                                 .hidden = combine->hidden,
                                 .alpha = 0.7f,
                                 .eps = 1e-6f,
                                 .combine = is_there ? NULL : combine};
  op_ok(dev->ops->add_norm(dev, &args, &err));
  op_array_fetch(dev, &both);
  op_array_free(dev, &w);
  return both;
}

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
  op_array together = norm_of_combination(dev, dtype, &args, false);
  op_array_send(dev, &shared);
  op_ok(dev->ops->combine(dev, &args, &err));
  op_array apart = norm_of_combination(dev, dtype, &args, true);
  assert_memory_equal(together.bytes, apart.bytes, 2 * n * yk_dtype_bytes(dtype));
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
  op_array_free(dev, &together), op_array_free(dev, &apart);
  dev->ops->destroy(dev);
}

static inline void check_combines(const op_target *target, size_t n_dtypes)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; i < sizeof combine_cases / sizeof *combine_cases; i++)
      check_combine(target, op_dtypes[d], &combine_cases[i]);
}

#endif
