/* op_cases_router.h - routing with the router's product before it, and a norm before that. Logits are those of the
 * router's own forward, and the routing follows from them. */
#ifndef YK_TESTS_OP_CASES_ROUTER_H
#define YK_TESTS_OP_CASES_ROUTER_H

#include "each_case.h"
#include "op/op_cases_route.h"

/* The sums of the router's own forward may be in another order. */
typedef struct router_case {
  yk_route_spec spec;
  int32_t n_tokens, n_more_logits;
  int64_t k;
  bool has_padding; /* every fourth row is padding, and a row of x is not finite */
  bool has_bias, has_scales;
} router_case;

enum { MOST_ROUTER_ROWS = 320 };

static const router_case router_cases[] = {
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 1, 0, 2048, false, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 8, 1, 2560, true, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 1, 1, 256, false, false, false},
    {{5, 2, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 5}, 3, 1, 72, false, false, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 7, 0, 416, true, false, false},
    {{60, 4, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1, 7, 0}, 8, 0, 104, false, false, false},
    {{300, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 300}, 4, 0, 64, false, false, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 64}, 37, 1, 96, true, false, false},
    {{16, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 16}, 2, 0, 67, false, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 9, 0, 2048, false, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 30, 64}, 17, 2, 2560, true, false, false},
    {{64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 64}, 64, 1, 2048, true, true, false},
    {{61, 5, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 3, 41}, 255, 0, 136, true, true, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 256, 0, 2048, true, false, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 64, 64}, 257, 0, 512, true, false, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 36, 0, 7168, true, true, false},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 20, 80}, 128, 0, 264, false, false, false},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 20, 80}, 129, 0, 264, false, true, false},
    {{96, 31, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 96}, 130, 33, 64, true, false, false},
    {{96, 32, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 96}, 12, 0, 64, false, false, false},
    {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256}, 5, 0, 7168, true, true, false},
    {{160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16, 0, 160}, 1, 0, 5120, false, false, false},
    /* Enough choices that a GPU multiplies and routes in two kernels. */
    {{96, 32, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 8, 80}, 7, 1, 264, true, true, false},
    {{160, 32, YK_SCORE_SIGMOID, 8, 3, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 160}, 8, 0, 2048, false, true, false},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 1, 0, 2816, false, false, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 8, 0, 2816, true, false, true},
    {{128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1, 0, 128}, 40, 0, 2816, true, false, true},
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

/* Outputs of a norm and the routing after it. */
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

/* A norm fused into routing gives the same bits as a separate norm, and so does the routing. */
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
  if (op_is_left_out(c->k * (c->n_tokens + c->spec.n_experts))) return;
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
  op_array scales = op_array_random(dev, YK_F32, (size_t)c->spec.n_experts, 1.0, &random);
  const route_case routed = {.spec = c->spec, .n_tokens = c->n_tokens};
  int32_t slots[MOST_ROUTER_ROWS] = {0}, *kv_slots = NULL;
  for (int32_t i = 0; i < c->n_tokens; i++) slots[i] = c->has_padding && i % 4 == 3 ? -1 : i;
  if (c->has_padding) kv_slots = op_send_i32(dev, slots, (size_t)c->n_tokens);
  const route_input input = {.logits = &logits,
                             .stride = n_logits,
                             .bias = c->has_bias ? &bias : NULL,
                             .kv_slots = kv_slots,
                             .router = run.linear,
                             .x = run.x.dev,
                             .scales = c->has_scales ? &scales : NULL};
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
  op_array_free(dev, &scales);
  linear_run_free(dev, &run);
  dev->ops->free(dev, kv_slots);
  dev->ops->destroy(dev);
}

static inline void check_routers(const op_target *target, size_t n_dtypes)
{
  for (size_t i = 0; each_case(i, i < sizeof router_cases / sizeof *router_cases); i++)
    check_router(target, op_dtypes[i % n_dtypes], &router_cases[i]);
}

/* n_tokens rows from `first` on have the same logits, choices and weights, bit for bit, as among all rows. */
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

/* Different rows and numbers of rows, one after the other, on one device: no result depends on leftovers of an earlier
 * run. */
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
  for (size_t i = 0; each_case(i, i < sizeof sizes / sizeof *sizes); i++)
    check_router_company(dev, &spec, &run, firsts[i], sizes[i], &logits, &all);
  route_found_free(dev, &all);
  op_array_free(dev, &logits);
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

#endif
