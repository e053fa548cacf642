/* op_cases_mixture.h - few rows through a mixture of experts with a shared one, or without: with the routing of a lone
 * row before, the shared expert's layers beside and the combination behind, and with the second grouped forward handed
 * to the first, as a device may do them in fewer kernels, they give what the operations give one by one. */
#ifndef YK_TESTS_OP_CASES_MIXTURE_H
#define YK_TESTS_OP_CASES_MIXTURE_H

#include "op/op_cases_grouped.h"

enum { MIXTURE_TOP_K = 3, MIXTURE_EXPERTS = 6 /* of which the rank has numbers 1 to 5 */ };

typedef struct mixture_case {
  int32_t n_rows;
  int64_t hidden, ffn, shared_ffn; /* shared_ffn 0: no shared expert */
  int64_t group, shared_group;     /* 0: plain weights */
  bool is_bytes, has_gate, has_shared_bias, has_bias;
  bool is_in_one; /* a device that does all of a lone row at once does this one so */
} mixture_case;

static const mixture_case mixture_cases[] = {
    {1, 320, 128, 256, 64, 64, .is_in_one = true},                                    /* whole K tiles of experts */
    {1, 416, 96, 160, 32, 32, .has_gate = true, .has_bias = true, .is_in_one = true}, /* tails of K */
    {1, 2048, 256, 896, 128, 128, .has_gate = true, .is_in_one = true},
    {1, 416, 96, 0, 32, 0, .has_bias = true, .is_in_one = true},
    {1, 4480, 640, 0, 128, 0, .has_bias = true, .is_in_one = true}, /* more K tiles than a thread block has warps */
    {1, 2048, 2816, 1408, 64, 64, .is_in_one = true},               /* more weights than shared memory holds */
    {1, 64, 32, 32, 32, 32, .has_gate = false}, /* down has one group of scales in a K tile, gate and up have four */
    {1, 64, 64, 32, 32, 32, .has_gate = true},  /* one in the shared expert's down alone, ... */
    {1, 64, 32, 64, 32, 32, .has_gate = false}, /* ... or in that of the experts alone */
    {1, 256, 64, 64, 64, 64, .has_shared_bias = true}, /* unlike the experts: a bias, ... */
    {1, 256, 64, 192, 32, 64, .has_gate = true},       /* ... groups of its own, ... */
    {1, 256, 64, 128, 64, 0, .has_gate = false},       /* ... or floats */
    {1, 256, 64, 128, 0, 0, .has_gate = true},
    {1, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {2, 320, 128, 256, 64, 64, .has_gate = true},
    {7, 416, 96, 160, 32, 32, .has_gate = true},
    {8, 2048, 256, 896, 128, 128, .has_gate = false},
    {5, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {3, 256, 64, 192, 32, 64, .has_shared_bias = true},
    {20, 320, 128, 256, 64, 64, .has_gate = true},
    {40, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {100, 256, 64, 704, 64, 64, .has_gate = true, .has_bias = true}, /* eleven times as wide as an expert */
};
enum { N_MIXTURE_CASES = sizeof mixture_cases / sizeof *mixture_cases };

typedef struct mixture_shapes {
  linear_case router, gate_up, down, shared_gate_up, shared_down;
} mixture_shapes;

static inline linear_part_case mixture_part(int64_t k, int64_t n, int64_t group, bool is_bytes, bool use_bias)
{
  return (linear_part_case){.k = k,
                            .n = n,
                            .group = group,
                            .dtype = group && is_bytes ? YK_F32 : YK_F16,
                            .k_slice = {0, k},
                            .n_slice = {0, n},
                            .group_local = group,
                            .use_bias = use_bias,
                            .is_bytes = group && is_bytes};
}

static inline linear_case mixture_gate_up(const mixture_case *c, int64_t ffn, int64_t group, bool use_bias)
{
  const linear_part_case part = mixture_part(c->hidden, ffn, group, c->is_bytes, use_bias);
  return (linear_case){.parts = {part, part}, .n_parts = 2, .epilogue = YK_EPILOGUE_SILU_MUL};
}

static inline linear_case mixture_down(const mixture_case *c, int64_t ffn, int64_t group, bool use_bias)
{
  return (linear_case){.parts = {mixture_part(ffn, c->hidden, group, c->is_bytes, use_bias)}, .n_parts = 1};
}

static inline mixture_shapes mixture_shapes_of(const mixture_case *c)
{
  const int64_t shared_ffn = c->shared_ffn ? c->shared_ffn : 64; /* of layers that nobody forwards */
  return (mixture_shapes){.router = {.parts = {mixture_part(c->hidden, MIXTURE_EXPERTS + c->has_gate, 0, false, false)},
                                     .n_parts = 1,
                                     .f32_output = true},
                          .gate_up = mixture_gate_up(c, c->ffn, c->group, c->has_bias),
                          .down = mixture_down(c, c->ffn, c->group, c->has_bias),
                          .shared_gate_up = mixture_gate_up(c, shared_ffn, c->shared_group, c->has_shared_bias),
                          .shared_down = mixture_down(c, shared_ffn, c->shared_group, false)};
}

typedef struct mixture_layers {
  linear_run router, shared_gate_up, shared_down; /* x of the first is the rows */
  grouped_layer gate_up, down;
} mixture_layers;

static inline mixture_layers mixture_layers_new(yk_device *dev, const mixture_shapes *shapes, int32_t n)
{
  static const int32_t starts[N_GROUPED_MATRICES + 1] = {0};
  return (mixture_layers){.router = linear_run_new(dev, &shapes->router, n, 41),
                          .shared_gate_up = linear_run_new(dev, &shapes->shared_gate_up, n, 42),
                          .shared_down = linear_run_new(dev, &shapes->shared_down, n, 43),
                          .gate_up = grouped_layer_new(dev, &shapes->gate_up, n, 44, starts, n * MIXTURE_TOP_K),
                          .down =
                              grouped_layer_new(dev, &shapes->down, n * MIXTURE_TOP_K, 54, starts, n * MIXTURE_TOP_K)};
}

static inline void mixture_layers_free(yk_device *dev, mixture_layers *layers)
{
  linear_run_free(dev, &layers->router);
  linear_run_free(dev, &layers->shared_gate_up);
  linear_run_free(dev, &layers->shared_down);
  grouped_layer_free(dev, &layers->gate_up);
  grouped_layer_free(dev, &layers->down);
}

/* One by one; handed over with the two grouped forwards; and the second of these with the first. */
typedef enum mixture_way { MIXTURE_APART, MIXTURE_TOGETHER, MIXTURE_IN_ONE } mixture_way;

/* What the rows give. is_done: whether the first grouped forward did the second one. */
static inline op_array mixture_forward(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                       const int32_t *kv_slots, mixture_way way, bool *is_done)
{
  const bool together = way != MIXTURE_APART, has_shared = c->shared_ffn > 0;
  const yk_route_spec spec = {.n_experts = MIXTURE_EXPERTS,
                              .top_k = MIXTURE_TOP_K,
                              .n_groups = 1,
                              .top_groups = 1,
                              .scale = 1.0f,
                              .first_local = 1,
                              .n_local = N_GROUPED_MATRICES};
  const int32_t n = c->n_rows, n_slots = n * MIXTURE_TOP_K;
  const int64_t n_logits = MIXTURE_EXPERTS + c->has_gate;
  op_array logits = op_array_new(dev, YK_F32, (size_t)(n * n_logits)),
           weights = op_array_new(dev, YK_F32, (size_t)n_slots);
  op_array inner = slots_new(dev, dev->dtype, (size_t)(n_slots * c->ffn)),
           y = slots_new(dev, dev->dtype, (size_t)(n * c->hidden));
  op_array outputs = slots_new(dev, dev->dtype, (size_t)(n_slots * c->hidden));
  op_array shared = slots_new(dev, dev->dtype, (size_t)(n * (has_shared ? c->shared_ffn : 1)));
  const yk_route_args route = {.spec = &spec,
                               .router = layers->router.linear,
                               .x = layers->router.x.dev,
                               .logits = logits.dev,
                               .logits_stride = n_logits,
                               .kv_slots = kv_slots,
                               .n_tokens = n,
                               .choices = route_room(dev, (size_t)n_slots * 4),
                               .weights = weights.dev,
                               .starts = route_room(dev, (N_GROUPED_MATRICES + 1) * 4),
                               .row_of_slot = route_room(dev, (size_t)n_slots * 4),
                               .slot_of_choice = route_room(dev, (size_t)n_slots * 4),
                               .scratch = route_room(dev, (size_t)yk_route_scratch_bytes(&spec, n))};
  const yk_linear_beside to_shared = {layers->shared_gate_up.linear,
                                      {.x = route.x, .y = shared.dev, .n_tokens = n, .y_stride = c->shared_ffn}};
  const yk_linear_beside from_shared = {layers->shared_down.linear,
                                        {.x = shared.dev, .y = y.dev, .n_tokens = n, .y_stride = c->hidden}};
  const yk_combine_args sum = {.y = y.dev,
                               .slots = outputs.dev,
                               .weights = weights.dev,
                               .slot_of_choice = route.slot_of_choice,
                               .shared = has_shared ? y.dev : NULL,
                               .shared_gate = c->has_gate ? (const float *)logits.dev + MIXTURE_EXPERTS : NULL,
                               .shared_gate_stride = n_logits,
                               .n_tokens = n,
                               .top_k = MIXTURE_TOP_K,
                               .hidden = (int32_t)c->hidden};
  const yk_linear_grouped_args to_outputs = {.x = inner.dev,
                                             .n_rows = n_slots,
                                             .starts = route.starts,
                                             .max_slots = n_slots,
                                             .y = outputs.dev,
                                             .y_stride = c->hidden,
                                             .combine = together ? &sum : NULL,
                                             .beside = together && has_shared ? &from_shared : NULL,
                                             .room = layers->down.room};
  const yk_linear_grouped_next next = {layers->down.linear, &to_outputs, is_done};
  const yk_linear_grouped_args to_inner = {.x = route.x,
                                           .n_rows = n,
                                           .row_of_slot = route.row_of_slot,
                                           .starts = route.starts,
                                           .max_slots = n_slots,
                                           .y = inner.dev,
                                           .y_stride = c->ffn,
                                           .route = together && n == 1 ? &route : NULL,
                                           .beside = together && has_shared ? &to_shared : NULL,
                                           .next = way == MIXTURE_IN_ONE ? &next : NULL,
                                           .room = layers->gate_up.room};
  if (!together || n > 1) op_ok(dev->ops->route(dev, &route, &err));
  *is_done = false;
  if (!together && has_shared) {
    op_ok(dev->ops->linear_forward(dev, to_shared.linear, &to_shared.args, &err));
    op_ok(dev->ops->linear_forward(dev, from_shared.linear, &from_shared.args, &err));
  }
  op_ok(dev->ops->linear_forward_grouped(dev, layers->gate_up.linear, &to_inner, &err));
  if (!*is_done) op_ok(dev->ops->linear_forward_grouped(dev, layers->down.linear, &to_outputs, &err));
  if (!together) op_ok(dev->ops->combine(dev, &sum, &err));
  op_array_fetch(dev, &y);
  dev->ops->free(dev, route.choices), dev->ops->free(dev, route.starts), dev->ops->free(dev, route.row_of_slot);
  dev->ops->free(dev, route.slot_of_choice), dev->ops->free(dev, route.scratch);
  op_array_free(dev, &logits), op_array_free(dev, &weights), op_array_free(dev, &inner);
  op_array_free(dev, &outputs), op_array_free(dev, &shared);
  return y;
}

/* The second time the last row is padding, and has its shared expert alone; the third time rows are of other values,
 * so that nothing may be left of the first.
 * does_all: the device does all of a lone row at once, where the case says so. */
static inline void check_mixture(const op_target *target, yk_dtype dtype, const mixture_case *c, bool does_all,
                                 double tolerance)
{
  enum { MOST_ROWS = 100 };
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const mixture_shapes shapes = mixture_shapes_of(c);
  mixture_layers layers = mixture_layers_new(dev, &shapes, c->n_rows);
  for (int i = 0; i < 3; i++) {
    int32_t slots[MOST_ROWS] = {0};
    bool is_done;
    if (i == 1) slots[c->n_rows - 1] = -1;
    for (size_t j = 0; i == 2 && j < layers.router.x.n; j++) layers.router.x.values[j] *= -1.0;
    op_array_send(dev, &layers.router.x);
    int32_t *kv_slots = op_send_i32(dev, slots, (size_t)c->n_rows);
    op_array apart = mixture_forward(dev, c, &layers, kv_slots, MIXTURE_APART, &is_done);
    for (mixture_way way = MIXTURE_TOGETHER; way <= MIXTURE_IN_ONE; way++) {
      op_array together = mixture_forward(dev, c, &layers, kv_slots, way, &is_done);
      double error = op_error(together.values, apart.values, apart.n);
      if (!(error <= tolerance))
        fail_msg("%s %s mixture, time %d, way %d, %d rows, hidden %lld, shared expert of %lld: error %.3g, tolerance "
                 "%.3g",
                 target->name, yk_dtype_name(dtype), i, (int)way, c->n_rows, (long long)c->hidden,
                 (long long)c->shared_ffn, error, tolerance);
      assert_int_equal(is_done, does_all && c->is_in_one && way == MIXTURE_IN_ONE);
      op_array_free(dev, &together);
    }
    op_array_free(dev, &apart);
    dev->ops->free(dev, kv_slots);
  }
  mixture_layers_free(dev, &layers);
  dev->ops->destroy(dev);
}

#endif
