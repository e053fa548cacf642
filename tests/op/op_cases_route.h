/* op_cases_route.h - routing of rows with given logits, against its definition in kernels/experts.h. */
#ifndef YK_TESTS_OP_CASES_ROUTE_H
#define YK_TESTS_OP_CASES_ROUTE_H

#include "op/op_cases_linear.h"
#include "op/op_parts.h"

typedef enum route_logits { ROUTE_RANDOM, ROUTE_EQUAL, ROUTE_ONE_SIDED /* all rows prefer one expert */ } route_logits;

typedef struct route_case {
  yk_route_spec spec;
  int32_t n_tokens, n_more_logits;
  route_logits logits;
  bool has_bias;    /* one that always chooses expert 7 and never expert 2 */
  bool has_padding; /* every fourth row is padding, and some rows are not finite */
  bool has_scales;  /* a factor for each expert */
} route_case;

static const route_case route_cases[] = {
    {{5, 3, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 5}, 40, 1, ROUTE_RANDOM, false, true, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 40, 44},
     300,
     0,
     ROUTE_RANDOM,
     false,
     false,
     false},
    {{12, 3, YK_SCORE_SIGMOID, 4, 2, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 0},
     67,
     0,
     ROUTE_RANDOM,
     true,
     false,
     false},
    {{60, 6, YK_SCORE_SOFTMAX, 6, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 59, 1},
     1,
     0,
     ROUTE_RANDOM,
     false,
     false,
     false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 64},
     70,
     3,
     ROUTE_RANDOM,
     true,
     true,
     false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 1, 0, 256},
     33,
     0,
     ROUTE_EQUAL,
     false,
     false,
     false},
    {{7, 7, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 2, 4}, 9, 0, ROUTE_EQUAL, false, false, false},
    {{8, 1, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 8},
     130,
     0,
     ROUTE_ONE_SIDED,
     false,
     false,
     false},
    {{1, 1, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 0, 1}, 5, 0, ROUTE_RANDOM, false, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128},
     2048,
     0,
     ROUTE_RANDOM,
     false,
     false,
     false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 43, 42},
     257,
     0,
     ROUTE_RANDOM,
     false,
     true,
     false},
    {{8, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 8}, 1000, 0, ROUTE_RANDOM, false, true, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 0, 64}, 31, 0, ROUTE_RANDOM, false, true, false},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 0, 160},
     256,
     0,
     ROUTE_RANDOM,
     false,
     false,
     false},
    {{512, 16, YK_SCORE_SOFTMAX, 64, 9, YK_GROUP_SCORE_LARGEST_TWO, true, 1, 0, 512},
     33,
     0,
     ROUTE_RANDOM,
     false,
     true,
     false},
    {{1000, 32, YK_SCORE_SIGMOID, 40, 20, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 1000},
     32,
     0,
     ROUTE_RANDOM,
     true,
     false,
     false},
    {{5, 5, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 4, 1}, 200, 0, ROUTE_RANDOM, false, false, false},
    {{7, 3, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 7, 0}, 64, 0, ROUTE_RANDOM, false, true, false},
    {{384, 8, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 2.827f, 300, 84},
     513,
     0,
     ROUTE_RANDOM,
     true,
     false,
     false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 8, 0, ROUTE_RANDOM, false, true, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 300, 0, ROUTE_RANDOM, true, true, true},
};

enum { N_ROUTE_CASES = sizeof route_cases / sizeof *route_cases };

/* The index of the largest value that is not taken, the first of equals; marks it as taken. */
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
  double scores[YK_MAX_EXPERTS] = {0}, choice[YK_MAX_EXPERTS] = {0}, sum = 0.0, of_weights = 1e-20;
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

/* Outputs of a route, on the host. */
typedef struct route_found {
  int32_t *choices, *starts, *row_of_slot, *slot_of_choice;
  int64_t *counts;
  op_array weights;
  const op_array *scales; /* of the input */
} route_found;

static inline void *route_fetch(yk_device *dev, void *from, size_t n_bytes)
{
  void *to = calloc(1, n_bytes + 1);
  assert_non_null(to);
  op_ok(dev->ops->download(dev, to, from, n_bytes, &err));
  dev->ops->free(dev, from);
  return to;
}

static inline void *route_memory(yk_device *dev, size_t n_bytes)
{
  void *memory = NULL;
  op_ok(dev->ops->alloc(dev, n_bytes + 1, &memory, &err));
  return memory;
}

typedef struct route_input {
  const op_array *logits;
  int64_t stride;
  const op_array *bias; /* or NULL */
  const int32_t *kv_slots;
  const yk_linear *router;      /* or NULL: logits are given */
  const void *x;                /* of the router */
  const yk_add_norm_args *norm; /* that computes x, or NULL: x is given */
  bool is_apart;                /* the norm is a separate operation */
  const op_array *scales;       /* factors of experts, or NULL */
} route_input;

/* Twice, so that counts must accumulate. */
static inline route_found route_run(yk_device *dev, const route_case *c, const route_input *input)
{
  const yk_route_spec *spec = &c->spec;
  size_t n_choices = (size_t)(c->n_tokens * spec->top_k), n_slots = (size_t)yk_route_max_slots(spec, c->n_tokens);
  route_found found = {.weights = op_array_new(dev, YK_F32, n_choices), .scales = input->scales};
  const yk_route_args args = {.spec = spec,
                              .norm = input->is_apart ? NULL : input->norm,
                              .router = input->router,
                              .x = input->x,
                              .logits = input->logits->dev,
                              .logits_stride = input->stride,
                              .bias = input->bias ? input->bias->dev : NULL,
                              .expert_scales = input->scales ? input->scales->dev : NULL,
                              .kv_slots = input->kv_slots,
                              .n_tokens = c->n_tokens,
                              .choices = route_memory(dev, n_choices * 4),
                              .weights = found.weights.dev,
                              .starts = route_memory(dev, ((size_t)spec->n_local + 1) * 4),
                              .row_of_slot = route_memory(dev, n_slots * 4),
                              .slot_of_choice = route_memory(dev, n_choices * 4),
                              .counts = route_memory(dev, (size_t)spec->n_experts * 8),
                              .scratch = route_memory(dev, (size_t)yk_route_scratch_bytes(spec, c->n_tokens))};
  for (int i = 0; i < 2; i++) {
    if (input->is_apart) op_ok(dev->ops->add_norm(dev, input->norm, &err));
    op_ok(op_parts_of(dev).route(dev, &args, &err));
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
    if (sound && !is_padding && found->scales) weights[j] *= found->scales->values[choices[j]];
    assert_int_equal(found->choices[at], expected);
    if (is_padding)
      assert_true(weight == 0.0);
    else if (!sound)
      assert_true(isnan(weight));
    else if (!(fabs(weight - weights[j]) <= 2e-6 * fabs(weights[j])))
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
  op_array scales = op_array_random(dev, YK_F32, (size_t)c->spec.n_experts, 1.0, &random);
  int32_t slots[2048] = {0}, *kv_slots = NULL;
  if (c->has_bias) {
    bias = op_array_random(dev, YK_F32, (size_t)c->spec.n_experts, 0.1, &random);
    bias.values[7] = 10.0;
    bias.values[2] = -10.0;
    op_array_send(dev, &bias);
  }
  for (int32_t i = 0; i < c->n_tokens; i++) slots[i] = c->has_padding && i % 4 == 3 ? -1 : i;
  if (c->has_padding) kv_slots = op_send_i32(dev, slots, (size_t)c->n_tokens);
  const route_input input = {.logits = &logits,
                             .stride = stride,
                             .bias = c->has_bias ? &bias : NULL,
                             .kv_slots = kv_slots,
                             .scales = c->has_scales ? &scales : NULL};
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
  op_array_free(dev, &logits), op_array_free(dev, &scales);
  if (c->has_bias) op_array_free(dev, &bias);
  dev->ops->free(dev, kv_slots);
  dev->ops->destroy(dev);
}

static inline void check_routes(const op_target *target)
{
  for (int i = 0; i < N_ROUTE_CASES; i++) check_route(target, &route_cases[i]);
}

#endif
