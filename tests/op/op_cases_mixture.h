/* op_cases_mixture.h - rows through a mixture of experts, with and without a shared expert, a gate, latent rows,
 * weighted inputs or a router with other rows: the operation, with the device's fusions, equals its parts one by
 * one. */
#ifndef YK_TESTS_OP_CASES_MIXTURE_H
#define YK_TESTS_OP_CASES_MIXTURE_H

#include "op/op_cases_grouped.h"
#include "op/op_cases_router.h"

typedef struct mixture_case {
  int32_t n_rows;
  int64_t hidden, ffn, shared_ffn; /* shared_ffn 0: no shared expert */
  int64_t group, shared_group;     /* 0: plain weights */
  bool is_bytes, is_fp8, is_fp4, has_gate, has_shared_bias, has_bias, has_router_bias;
  bool is_clamped; /* the activation is CLAMPED_SWIGLU */
  bool is_in_one;  /* a device with a kernel for a single token supports this shape */
  int64_t latent;  /* 0: experts of whole rows */
  bool is_plain;   /* squared ReLU without a gate */
  bool weighs_inputs;
  bool has_branches;   /* the router has other rows, and each expert a scale */
  yk_route_spec route; /* n_experts 0: three of six experts, of which the rank holds numbers 1 to 5 */
} mixture_case;

static inline yk_route_spec mixture_route(const mixture_case *c)
{
  if (c->route.n_experts > 0) return c->route;
  return (yk_route_spec){.n_experts = 6,
                         .top_k = 3,
                         .n_groups = 1,
                         .top_groups = 1,
                         .scale = 1.0f,
                         .first_local = 1,
                         .n_local = N_GROUPED_MATRICES};
}

static const mixture_case mixture_cases[] = {
    {1, 320, 128, 256, 64, 64, .is_in_one = true},                                    /* whole K tiles of experts */
    {1, 416, 96, 160, 32, 32, .has_gate = true, .has_bias = true, .is_in_one = true}, /* tails of K */
    {1, 2048, 256, 896, 128, 128, .has_gate = true, .is_in_one = true},
    {1, 416, 96, 0, 32, 0, .has_bias = true, .is_in_one = true},
    {1, 4480, 640, 0, 128, 0, .has_bias = true, .is_in_one = true}, /* more K tiles than a thread block has warps */
    {1, 2048, 2816, 1408, 64, 64, .is_in_one = true},               /* more weights than shared memory holds */
    {1, 64, 32, 32, 32, 32, .has_gate = false}, /* down has one group of scales in a K tile, gate and up have four */
    {1, 64, 64, 32, 32, 32, .has_gate = true},  /* one in the shared expert's down alone, ... */
    {1, 64, 32, 64, 32, 32, .has_gate = false}, /* ... or in the experts' down alone */
    {1, 256, 64, 64, 64, 64, .has_shared_bias = true}, /* different from the experts: a bias, ... */
    {1, 256, 64, 192, 32, 64, .has_gate = true},       /* ... other groups, ... */
    {1, 256, 64, 128, 64, 0, .has_gate = false},       /* ... or floats */
    {1, 256, 64, 128, 0, 0, .has_gate = true},
    {1, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {1, 256, 128, 384, 128, 128, .is_fp8 = true, .has_bias = true},
    {1, 288, 96, 0, 32, 0, .is_fp4 = true, .is_in_one = true},
    {1, 320, 128, 256, 16, 16, .is_fp4 = true, .has_gate = true, .is_in_one = true},
    {1, 320, 96, 160, 32, 32, .is_fp4 = true, .has_gate = true, .has_bias = true, .is_in_one = true},
    {1, 416, 96, 0, 32, 0, .has_bias = true, .has_router_bias = true, .is_clamped = true, .is_in_one = true},
    /* gpt-oss on eight and on four ranks */
    {1, 2880, 352, 0, 32, 0, .is_fp4 = true, .has_bias = true, .has_router_bias = true, .is_clamped = true,
     .is_in_one = true},
    {1, 2880, 736, 0, 32, 0, .is_fp4 = true, .has_bias = true, .has_router_bias = true, .is_clamped = true,
     .is_in_one = true},
    {2, 320, 128, 256, 64, 64, .has_gate = true},
    {7, 416, 96, 160, 32, 32, .has_gate = true},
    {8, 2048, 256, 896, 128, 128, .has_gate = false},
    {5, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {3, 256, 64, 192, 32, 64, .has_shared_bias = true},
    {6, 256, 128, 384, 128, 128, .is_fp8 = true, .has_gate = true},
    {20, 320, 128, 256, 64, 64, .has_gate = true},
    {40, 256, 128, 384, 128, 128, .is_bytes = true, .has_gate = true},
    {100, 256, 64, 704, 64, 64, .has_gate = true, .has_bias = true}, /* eleven times as wide as an expert */
    {1, 416, 96, 192, 32, 32, .is_plain = true, .is_in_one = true},
    {1, 320, 96, 0, 32, 0, .has_bias = true, .is_plain = true, .is_in_one = true},
    {1, 320, 128, 256, 16, 16, .is_fp4 = true, .has_gate = true, .is_plain = true, .is_in_one = true},
    {6, 320, 128, 256, 64, 64, .is_plain = true},
    {40, 256, 64, 128, 0, 0, .is_plain = true},
    {5, 256, 128, 128, 128, 128, .is_plain = true, .is_fp8 = true},
    {1, 320, 128, 256, 64, 64, .latent = 192, .is_plain = true},
    {9, 320, 128, 256, 64, 64, .latent = 192, .is_plain = true},
    {33, 256, 64, 0, 64, 0, .latent = 64, .is_plain = true}, /* without a shared expert */
    {1, 320, 128, 256, 64, 64, .weighs_inputs = true},
    {7, 320, 128, 256, 64, 64, .weighs_inputs = true},
    {40, 256, 128, 384, 128, 128, .is_bytes = true, .weighs_inputs = true},
    {1, 320, 128, 0, 64, 0, .has_branches = true},
    {8, 2048, 256, 0, 128, 0, .has_branches = true},
    {40, 256, 64, 0, 64, 0, .has_branches = true},
    {3, 288, 96, 160, 32, 32, .is_fp4 = true, .has_gate = true},
    {8, 320, 128, 256, 16, 16, .is_fp4 = true, .has_bias = true},
    {4, 2880, 352, 0, 32, 0, .is_fp4 = true, .has_bias = true, .has_router_bias = true, .is_clamped = true},
    {90, 288, 96, 0, 32, 0, .is_fp4 = true, .has_bias = true, .has_router_bias = true, .is_clamped = true},
};
enum { N_MIXTURE_CASES = sizeof mixture_cases / sizeof *mixture_cases };

typedef struct mixture_shapes {
  linear_case router, gate_up, down, shared_gate_up, shared_down, latent_in, latent_out;
} mixture_shapes;

/* Elements of an expert's inputs and results. */
static inline int64_t mixture_inner(const mixture_case *c)
{
  return c->latent > 0 ? c->latent : c->hidden;
}

static inline linear_part_case mixture_part(const mixture_case *c, int64_t k, int64_t n, int64_t group, bool use_bias)
{
  const bool is_bytes = group && (c->is_bytes || c->is_fp8 || c->is_fp4);
  return (linear_part_case){.k = k,
                            .n = n,
                            .group = group,
                            .dtype = is_bytes ? YK_F32 : YK_F16,
                            .k_slice = {0, k},
                            .n_slice = {0, n},
                            .group_local = group,
                            .use_bias = use_bias,
                            .is_bytes = is_bytes,
                            .is_fp8 = is_bytes && c->is_fp8,
                            .is_fp4 = is_bytes && c->is_fp4};
}

static inline linear_case mixture_gate_up(const mixture_case *c, int64_t k, int64_t ffn, int64_t group, bool use_bias)
{
  const linear_part_case part = mixture_part(c, k, ffn, group, use_bias);
  const yk_activation silu = YK_GATED_SILU, clamped = {YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 0.7f};
  if (c->is_plain) return (linear_case){.parts = {part}, .n_parts = 1, .activation = {.kind = YK_ACTIVATION_RELU2}};
  return (linear_case){.parts = {part, part}, .n_parts = 2, .activation = c->is_clamped ? clamped : silu};
}

static inline linear_case mixture_one(const mixture_case *c, int64_t k, int64_t n, int64_t group, bool use_bias)
{
  return (linear_case){.parts = {mixture_part(c, k, n, group, use_bias)}, .n_parts = 1};
}

static inline mixture_shapes mixture_shapes_of(const mixture_case *c)
{
  /* of layers without a forward */
  const int64_t shared_ffn = c->shared_ffn ? c->shared_ffn : 64, latent = c->latent ? c->latent : 64;
  const int64_t inner = mixture_inner(c);
  const linear_part_case router =
      mixture_part(c, c->hidden, mixture_route(c).n_experts + c->has_gate, 0, c->has_router_bias);
  return (mixture_shapes){.router = {.parts = {router}, .n_parts = 1, .f32_output = true},
                          .gate_up = mixture_gate_up(c, inner, c->ffn, c->group, c->has_bias),
                          .down = mixture_one(c, c->ffn, inner, c->group, c->has_bias),
                          .shared_gate_up =
                              mixture_gate_up(c, c->hidden, shared_ffn, c->shared_group, c->has_shared_bias),
                          .shared_down = mixture_one(c, shared_ffn, c->hidden, c->shared_group, false),
                          .latent_in = mixture_one(c, c->hidden, latent, 0, false),
                          .latent_out = mixture_one(c, latent, c->hidden, 0, false)};
}

/* x of router is the rows; that of shared_gate_up the rows of another router. */
typedef struct mixture_layers {
  linear_run router, shared_gate_up, shared_down, latent_in, latent_out;
  grouped_layer gate_up, down;
  op_array expert_scales;
} mixture_layers;

static inline grouped_layer mixture_experts_new(yk_device *dev, const mixture_case *c, const linear_case *shape,
                                                int32_t n_rows, uint32_t seed)
{
  static const int32_t starts[257] = {0};
  const yk_route_spec route = mixture_route(c);
  return grouped_layer_of(dev, shape, n_rows, seed, route.n_local, starts, c->n_rows * route.top_k, NULL);
}

static inline mixture_layers mixture_layers_new(yk_device *dev, const mixture_case *c, const mixture_shapes *shapes)
{
  op_random random = {.seed = 46};
  const yk_route_spec route = mixture_route(c);
  const int32_t n = c->n_rows;
  return (mixture_layers){.router = linear_run_new(dev, &shapes->router, n, 41),
                          .shared_gate_up = linear_run_new(dev, &shapes->shared_gate_up, n, 42),
                          .shared_down = linear_run_new(dev, &shapes->shared_down, n, 43),
                          .latent_in = linear_run_new(dev, &shapes->latent_in, n, 47),
                          .latent_out = linear_run_new(dev, &shapes->latent_out, n, 48),
                          .expert_scales = op_array_random(dev, YK_F32, (size_t)route.n_experts, 1.0, &random),
                          .gate_up = mixture_experts_new(dev, c, &shapes->gate_up, n, 44),
                          .down = mixture_experts_new(dev, c, &shapes->down, n * route.top_k, 54)};
}

static inline void mixture_layers_free(yk_device *dev, mixture_layers *layers)
{
  linear_run_free(dev, &layers->router);
  linear_run_free(dev, &layers->shared_gate_up);
  linear_run_free(dev, &layers->shared_down);
  linear_run_free(dev, &layers->latent_in);
  linear_run_free(dev, &layers->latent_out);
  op_array_free(dev, &layers->expert_scales);
  grouped_layer_free(dev, &layers->gate_up);
  grouped_layer_free(dev, &layers->down);
}

/* ---- Part by part ------------------------------------------------------------------------------------------------ */

static inline yk_mixture_sizes mixture_sizes_of(const mixture_case *c, yk_dtype dtype)
{
  return (yk_mixture_sizes){.route = mixture_route(c),
                            .max_rows = c->n_rows,
                            .hidden = (int32_t)c->hidden,
                            .width = (int32_t)c->ffn,
                            .shared_width = (int32_t)c->shared_ffn,
                            .latent = (int32_t)c->latent,
                            .weighs_inputs = c->weighs_inputs,
                            .has_shared = c->shared_ffn > 0,
                            .has_shared_gate = c->has_gate,
                            .dtype = dtype};
}

/* Arguments and arrays of a layer's parts. */
typedef struct mixture_parts {
  yk_mixture_sizes sizes;
  op_array logits, weights, inner, outputs, shared, y;
  op_array inputs, sums, back; /* of the experts if not the rows; of latent experts: sums and the sums' projection */
  yk_route_args route;
  yk_linear_args to_shared, from_shared;
  yk_grouped_args to_inner, to_outputs;
  yk_combine_args sum;
} mixture_parts;

static inline void mixture_parts_route(yk_device *dev, const mixture_case *c, mixture_parts *p)
{
  const int32_t n_slots = c->n_rows * mixture_route(c).top_k;
  const int64_t n_logits = mixture_route(c).n_experts + c->has_gate;
  p->sizes = mixture_sizes_of(c, dev->dtype);
  p->logits = op_array_new(dev, YK_F32, (size_t)(c->n_rows * n_logits));
  p->weights = op_array_new(dev, YK_F32, (size_t)n_slots);
  p->route = (yk_route_args){.spec = &p->sizes.route,
                             .logits = p->logits.dev,
                             .logits_stride = n_logits,
                             .n_tokens = c->n_rows,
                             .choices = route_memory(dev, (size_t)n_slots * 4),
                             .weights = p->weights.dev,
                             .starts = route_memory(dev, (size_t)(p->sizes.route.n_local + 1) * 4),
                             .row_of_slot = route_memory(dev, (size_t)n_slots * 4),
                             .slot_of_choice = route_memory(dev, (size_t)n_slots * 4),
                             .scratch = route_memory(dev, (size_t)yk_route_scratch_bytes(&p->sizes.route, c->n_rows))};
}

static inline void mixture_parts_experts(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                         const void *x, mixture_parts *p)
{
  const int32_t n = c->n_rows, n_slots = n * mixture_route(c).top_k;
  const int64_t inner = mixture_inner(c);
  const bool adds_shared = c->shared_ffn > 0 && c->latent == 0;
  p->inner = slots_new(dev, dev->dtype, (size_t)(n_slots * c->ffn));
  p->outputs = slots_new(dev, dev->dtype, (size_t)(n_slots * inner));
  p->inputs = slots_new(dev, dev->dtype, (size_t)(n_slots * inner));
  p->sums = slots_new(dev, dev->dtype, (size_t)(n * inner));
  p->back = slots_new(dev, dev->dtype, (size_t)(n * c->hidden));
  p->shared = slots_new(dev, dev->dtype, (size_t)(n * (c->shared_ffn > 0 ? c->shared_ffn : 1)));
  p->y = slots_new(dev, dev->dtype, (size_t)(n * c->hidden));
  p->to_shared = (yk_linear_args){.x = x, .y = p->shared.dev, .n_tokens = n, .y_stride = c->shared_ffn};
  p->from_shared = (yk_linear_args){.x = p->shared.dev, .y = p->y.dev, .n_tokens = n, .y_stride = c->hidden};
  p->to_inner = (yk_grouped_args){.x = x,
                                  .n_rows = n,
                                  .row_of_slot = p->route.row_of_slot,
                                  .starts = p->route.starts,
                                  .max_slots = n_slots,
                                  .y = p->inner.dev,
                                  .y_stride = c->ffn,
                                  .staging = layers->gate_up.staging};
  p->to_outputs = (yk_grouped_args){.x = p->inner.dev,
                                    .n_rows = n_slots,
                                    .starts = p->route.starts,
                                    .max_slots = n_slots,
                                    .y = p->outputs.dev,
                                    .y_stride = inner,
                                    .staging = layers->down.staging};
  p->sum =
      (yk_combine_args){.y = c->latent > 0 ? p->sums.dev : p->y.dev,
                        .slots = p->outputs.dev,
                        .weights = c->weighs_inputs ? NULL : p->weights.dev,
                        .slot_of_choice = p->route.slot_of_choice,
                        .shared = adds_shared ? p->y.dev : NULL,
                        .shared_gate = c->has_gate ? (const float *)p->logits.dev + mixture_route(c).n_experts : NULL,
                        .shared_gate_stride = p->route.logits_stride,
                        .n_tokens = n,
                        .top_k = mixture_route(c).top_k,
                        .hidden = (int32_t)inner};
}

/* Frees all but y. */
static inline void mixture_parts_free(yk_device *dev, mixture_parts *p)
{
  dev->ops->free(dev, p->route.choices), dev->ops->free(dev, p->route.starts);
  dev->ops->free(dev, p->route.row_of_slot), dev->ops->free(dev, p->route.slot_of_choice);
  dev->ops->free(dev, p->route.scratch);
  op_array_free(dev, &p->logits), op_array_free(dev, &p->weights), op_array_free(dev, &p->inner);
  op_array_free(dev, &p->outputs), op_array_free(dev, &p->shared);
  op_array_free(dev, &p->inputs), op_array_free(dev, &p->sums), op_array_free(dev, &p->back);
}

/* Each slot's row of the rows at to_inner.x times the weight of its choice, rounded once. */
static inline void mixture_weigh(yk_device *dev, const mixture_case *c, mixture_parts *p)
{
  const size_t n = (size_t)mixture_inner(c), n_choices = (size_t)(c->n_rows * mixture_route(c).top_k);
  const size_t row_bytes = n * yk_dtype_bytes(dev->dtype);
  int32_t *slots = calloc(n_choices, sizeof *slots);
  char *rows = calloc((size_t)c->n_rows, row_bytes);
  op_ok(dev->ops->download(dev, slots, p->route.slot_of_choice, n_choices * sizeof *slots, &err));
  op_ok(dev->ops->download(dev, rows, p->to_inner.x, (size_t)c->n_rows * row_bytes, &err));
  op_array_fetch(dev, &p->weights);
  for (size_t choice = 0; choice < n_choices; choice++)
    for (size_t i = 0; slots[choice] >= 0 && i < n; i++) {
      const float x = yk_dtype_load(dev->dtype, rows + choice / mixture_route(c).top_k * row_bytes, i);
      p->inputs.values[(size_t)slots[choice] * n + i] = (double)((float)p->weights.values[choice] * x);
    }
  op_array_send(dev, &p->inputs);
  free(slots);
  free(rows);
  p->to_inner.x = p->inputs.dev;
  p->to_inner.n_rows = (int32_t)n_choices;
  p->to_inner.row_of_slot = NULL;
}

/* Adds the projection of the experts' sums to the rows of the shared expert, or to nothing. */
static inline void mixture_add_back(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                    mixture_parts *p)
{
  const yk_linear_args to_back = {.x = p->sums.dev, .y = p->back.dev, .n_tokens = c->n_rows, .y_stride = c->hidden};
  op_ok(dev->ops->linear_forward(dev, layers->latent_out.linear, &to_back, &err));
  op_array_fetch(dev, &p->back);
  op_array_fetch(dev, &p->y);
  for (size_t i = 0; i < p->y.n; i++)
    p->y.values[i] = (double)((float)p->back.values[i] + (c->shared_ffn > 0 ? (float)p->y.values[i] : 0.0f));
  op_array_send(dev, &p->y);
}

/* Results of the rows x. */
static inline op_array mixture_apart(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                     const int32_t *kv_slots, const void *x)
{
  const op_parts parts = op_parts_of(dev);
  mixture_parts p;
  mixture_parts_route(dev, c, &p);
  p.route.router = layers->router.linear;
  p.route.x = c->has_branches ? layers->shared_gate_up.x.dev : x;
  p.route.kv_slots = kv_slots;
  p.route.expert_scales = c->has_branches ? layers->expert_scales.dev : NULL;
  mixture_parts_experts(dev, c, layers, x, &p);
  op_ok(parts.route(dev, &p.route, &err));
  if (c->shared_ffn > 0) {
    op_ok(dev->ops->linear_forward(dev, layers->shared_gate_up.linear, &p.to_shared, &err));
    op_ok(dev->ops->linear_forward(dev, layers->shared_down.linear, &p.from_shared, &err));
  }
  if (c->latent > 0) {
    const yk_linear_args to_latent = {.x = x, .y = p.inputs.dev, .n_tokens = c->n_rows, .y_stride = c->latent};
    op_ok(dev->ops->linear_forward(dev, layers->latent_in.linear, &to_latent, &err));
    p.to_inner.x = p.inputs.dev;
  }
  if (c->weighs_inputs) mixture_weigh(dev, c, &p);
  op_ok(parts.grouped(dev, layers->gate_up.linear, &p.to_inner, &err));
  op_ok(parts.grouped(dev, layers->down.linear, &p.to_outputs, &err));
  op_ok(parts.combine(dev, &p.sum, &err));
  if (c->latent > 0) mixture_add_back(dev, c, layers, &p);
  op_array_fetch(dev, &p.y);
  mixture_parts_free(dev, &p);
  return p.y;
}

/* ---- The operation ----------------------------------------------------------------------------------------------- */

/* A function that runs a forward: the device's, or a test program's. */
typedef yk_status (*mixture_way)(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                 const yk_mixture_args *args, yk_err *err);

static inline yk_status mixture_whole(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                      const yk_mixture_args *args, yk_err *err)
{
  (void)c;
  return dev->ops->mixture_forward(dev, mixture, args, err);
}

/* With taps, which return the inputs of the experts' and the shared expert's down. */
static inline yk_status mixture_tapped(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                       const yk_mixture_args *args, yk_err *err)
{
  yk_mixture_taps taps = {.max_slots = -1};
  yk_mixture_args tapped = *args;
  tapped.taps = &taps;
  yk_status status = dev->ops->mixture_forward(dev, mixture, &tapped, err);
  assert_int_equal(taps.max_slots, c->n_rows * mixture_route(c).top_k);
  assert_true(taps.choices && taps.weights && taps.slot_of_choice && taps.starts && taps.row_of_slot && taps.inner);
  assert_int_equal(taps.shared_inner != NULL, c->shared_ffn > 0);
  return status;
}

static inline yk_mixture *mixture_new(yk_device *dev, const mixture_case *c, const mixture_layers *layers)
{
  const bool has_shared = c->shared_ffn > 0;
  const yk_mixture_spec spec = {.sizes = mixture_sizes_of(c, dev->dtype),
                                .router = layers->router.linear,
                                .gate_up = layers->gate_up.linear,
                                .down = layers->down.linear,
                                .latent_in = c->latent > 0 ? layers->latent_in.linear : NULL,
                                .latent_out = c->latent > 0 ? layers->latent_out.linear : NULL,
                                .expert_scales = c->has_branches ? layers->expert_scales.dev : NULL,
                                .shared_gate_up = has_shared ? layers->shared_gate_up.linear : NULL,
                                .shared_down = has_shared ? layers->shared_down.linear : NULL};
  yk_mixture *mixture = NULL;
  op_ok(dev->ops->mixture_create(dev, &spec, &mixture, &err));
  return mixture;
}

/* Results of rows in one way. x: rows, or partial rows that become rows. */
static inline op_array mixture_forward(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                       const int32_t *kv_slots, mixture_way way, yk_normed *x)
{
  static const yk_mixture_host nobody = {.user = NULL};
  yk_mixture *mixture = mixture_new(dev, c, layers);
  op_array y = slots_new(dev, dev->dtype, (size_t)(c->n_rows * c->hidden));
  yk_partial partial = {.rows = y.dev};
  void *scratch = route_memory(dev, (size_t)mixture->at.end);
  const yk_mixture_args args = {.x = x,
                                .y = &partial,
                                .router_x = c->has_branches ? layers->shared_gate_up.x.dev : NULL,
                                .kv_slots = kv_slots,
                                .n_rows = c->n_rows,
                                .scratch = scratch,
                                .host = &nobody};
  op_ok(way(c, dev, mixture, &args, &err));
  assert_int_equal(x->state, YK_NORMED_ROWS);
  op_ok(dev->ops->partial_complete(dev, &partial, &err));
  op_array_fetch(dev, &y);
  dev->ops->free(dev, scratch);
  dev->ops->mixture_destroy(dev, mixture);
  return y;
}

/* A norm before the mixture, of residual and partial rows, and the rows that a separate norm gives. */
typedef struct mixture_norm {
  op_array residual, partial, w, rows, apart;
} mixture_norm;

static inline yk_normed mixture_pending(const mixture_case *c, const mixture_norm *norm)
{
  return (yk_normed){.state = YK_NORMED_PENDING,
                     .rows = norm->rows.dev,
                     .partial = {.rows = norm->partial.dev},
                     .residual = norm->residual.dev,
                     .w = norm->w.dev,
                     .n_rows = c->n_rows,
                     .hidden = (int32_t)c->hidden,
                     .alpha = 0.75f,
                     .eps = 1e-5f};
}

static inline mixture_norm mixture_norm_new(yk_device *dev, const mixture_case *c)
{
  op_random random = {.seed = 17};
  const size_t n = (size_t)(c->n_rows * c->hidden);
  mixture_norm norm = {.residual = op_array_random(dev, dev->dtype, n, 1.0, &random),
                       .partial = op_array_random(dev, dev->dtype, n, 1.0, &random),
                       .w = op_array_random(dev, dev->dtype, (size_t)c->hidden, 1.0, &random),
                       .rows = op_array_new(dev, dev->dtype, n),
                       .apart = op_array_new(dev, dev->dtype, n)};
  const yk_normed pending = mixture_pending(c, &norm);
  yk_add_norm_args apart = yk_normed_add_norm(&pending);
  apart.y = norm.apart.dev;
  op_ok(dev->ops->add_norm(dev, &apart, &err));
  op_array_fetch(dev, &norm.apart);
  op_array_send(dev, &norm.residual);
  return norm;
}

static inline void mixture_norm_free(yk_device *dev, mixture_norm *norm)
{
  op_array *arrays[] = {&norm->residual, &norm->partial, &norm->w, &norm->rows, &norm->apart};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) op_array_free(dev, arrays[i]);
}

/* The norm gives the same bits as a separate norm, wherever it is computed, and the mixture the results of these
 * rows. */
static inline void check_mixture_norm(yk_device *dev, const mixture_case *c, const mixture_layers *layers,
                                      mixture_way way, double tolerance)
{
  mixture_norm norm = mixture_norm_new(dev, c);
  yk_normed x = mixture_pending(c, &norm);
  op_array expected = mixture_apart(dev, c, layers, NULL, norm.apart.dev);
  op_array y = mixture_forward(dev, c, layers, NULL, way, &x);
  op_array_fetch(dev, &norm.rows);
  assert_memory_equal(norm.rows.bytes, norm.apart.bytes, norm.rows.n * yk_dtype_bytes(dev->dtype));
  double error = op_error(y.values, expected.values, y.n);
  if (!(error <= tolerance)) fail_msg("mixture of %d rows behind a norm: error %.3g", c->n_rows, error);
  op_array_free(dev, &y), op_array_free(dev, &expected);
  mixture_norm_free(dev, &norm);
}

/* The second time the last row is padding, and gets its shared expert alone. The third time rows have other values, so
 * that leftovers of the first run would be detected. ways: [n_ways], of which the first also runs after a norm. */
static inline void check_mixture(const op_target *target, yk_dtype dtype, const mixture_case *c,
                                 const mixture_way *ways, int n_ways, double tolerance)
{
  enum { MOST_ROWS = 128 };
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  const mixture_shapes shapes = mixture_shapes_of(c);
  mixture_layers layers = mixture_layers_new(dev, c, &shapes);
  for (int i = 0; i < 3; i++) {
    int32_t slots[MOST_ROWS] = {0};
    if (i == 1) slots[c->n_rows - 1] = -1;
    for (size_t j = 0; i == 2 && j < layers.router.x.n; j++) layers.router.x.values[j] *= -1.0;
    op_array_send(dev, &layers.router.x);
    int32_t *kv_slots = op_send_i32(dev, slots, (size_t)c->n_rows);
    op_array apart = mixture_apart(dev, c, &layers, kv_slots, layers.router.x.dev);
    for (int way = 0; way < n_ways; way++) {
      yk_normed x = {.rows = layers.router.x.dev};
      op_array together = mixture_forward(dev, c, &layers, kv_slots, ways[way], &x);
      double error = op_error(together.values, apart.values, apart.n);
      if (!(error <= tolerance))
        fail_msg("%s %s mixture, time %d, way %d, %d rows, hidden %lld, shared expert of %lld: error %.3g, tolerance "
                 "%.3g",
                 target->name, yk_dtype_name(dtype), i, way, c->n_rows, (long long)c->hidden, (long long)c->shared_ffn,
                 error, tolerance);
      op_array_free(dev, &together);
    }
    op_array_free(dev, &apart);
    dev->ops->free(dev, kv_slots);
  }
  check_mixture_norm(dev, c, &layers, ways[0], tolerance);
  mixture_layers_free(dev, &layers);
  dev->ops->destroy(dev);
}

#endif
