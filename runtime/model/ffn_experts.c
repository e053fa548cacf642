/* ffn_experts.c - a mixture of experts: each row passes a few of many feed-forward networks, and a shared one where the
 * family has that.
 *
 *   router -> float32 logits -> routing -> rows of each expert this rank holds -> gate, up, down -> combination
 *
 * Routing is alike on every rank to the bit, since all have the same rows and the whole router. A rank holds a share of
 * the channels of every expert, or whole experts (expert_parallel); either way its result is a partial sum, which the
 * all-reduce behind the sublayer adds up. A rank without experts gives its share of the shared expert, or zeros.
 *
 * Where ranks cut experts whose inputs are quantised per token, down's x is a part of each slot's row, whose scale
 * depends on the whole: ranks exchange each slot's largest |x| before down, and so all have the integers that one rank
 * has. What these add up to is scaled on each rank by itself, into a partial result as of any format. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/ffn_gated.h"

/* Within the scratch, in bytes. What the shared expert needs lies where the experts' rows come later, but for rows that
 * pass both at once; the room that gate and up want lies where their outputs come. */
typedef struct layout {
  int64_t logits, choices, weights, slot_of_choice, starts, row_of_slot, routing, maxima, shared_inner, inner, outputs,
      down_room, end;
} layout;

struct yk_sublayer {
  yk_route_spec route;
  int32_t n_logits;          /* of a row: the experts', and the shared expert's where it has a factor */
  yk_linear *router;         /* float32 outputs */
  float *choice_bias;        /* [n_experts] or NULL */
  yk_linear *gate_up, *down; /* a matrix for each of the rank's experts; NULL on a rank without */
  int32_t width;             /* the rank's channels of an expert */
  bool shares_maxima;        /* of down's inputs, with all ranks */
  bool has_shared;
  yk_gated_ffn shared;
  int64_t *counts; /* [n_experts] rows since the start; rank 0's alone */
  layout at;
};

/* ---- What there is ----------------------------------------------------------------------------------------------- */

static yk_route_spec route_of(const yk_rank_source *source)
{
  const yk_experts_config *x = &source->config->experts;
  const yk_range *experts = &source->share.experts;
  return (yk_route_spec){.n_experts = x->n_experts,
                         .top_k = x->top_k,
                         .scoring = x->scoring,
                         .n_groups = x->n_groups,
                         .top_groups = x->top_groups,
                         .group_score = x->group_score,
                         .normalise = x->normalise,
                         .scale = x->scale,
                         .first_local = (int32_t)experts->begin,
                         .n_local = (int32_t)yk_range_size(*experts)};
}

static int32_t n_logits_of(const yk_rank_source *source)
{
  return source->config->experts.n_experts + source->config->experts.has_shared_gate;
}

static yk_gated_ffn_spec shared_of(const yk_rank_source *source, int32_t layer)
{
  return (yk_gated_ffn_spec){layer, YK_ROLE_SHARED_GATE, YK_ROLE_SHARED_UP, YK_ROLE_SHARED_DOWN,
                             source->share.shared_ffn};
}

static int64_t place(int64_t *end, int64_t n_bytes)
{
  int64_t at = *end;
  *end = yk_round_up_i64(at + n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  return at;
}

typedef struct projections {
  yk_linear_spec gate_up, down;
} projections;

/* Whether ranks share the maxima of down's inputs: alike on all, also on one without experts. The first expert stands
 * for all. */
static yk_status find_shares_maxima(const yk_rank_source *source, int32_t layer, bool *out, yk_err *err)
{
  const yk_projection first = {.layer = layer, .role = YK_ROLE_EXPERT_DOWN};
  yk_linear_spec down = {.n_parts = 1, .n_matrices = 1, .is_grouped = true};
  *out = false;
  if (source->share.n_ranks == 1 || source->limits->expert_parallel) return YK_OK;
  YK_TRY(yk_rank_row_part(source, &first, source->share.expert_ffn, true, &down.parts[0], err));
  *out = yk_rank_experts_quantise(&down.parts[0].weight.inputs) && !yk_repack_dequantises(&source->dev, &down, 0);
  return YK_OK;
}

/* Maxima of n_rows rows whose experts are cut: a rank that has any has all of them. A multiple of 4: communicators are
 * fastest with such counts, and what the largest of the rest may be nobody reads. */
static int64_t n_maxima(const yk_route_spec *route, int64_t n_rows)
{
  return yk_round_up_i64(n_rows * route->top_k, 4);
}

/* p: NULL on a rank without experts. */
static layout lay_out(const yk_rank_source *source, const projections *p, bool shares_maxima, int64_t shared_scratch)
{
  const yk_route_spec route = route_of(source);
  const int64_t n_rows = source->limits->step.max_tokens, n_slots = yk_route_max_slots(&route, n_rows);
  const int64_t word = (int64_t)sizeof(int32_t), element = (int64_t)yk_dtype_bytes(source->dev.dtype);
  int64_t end = 0;
  layout at = {.logits = place(&end, n_rows * n_logits_of(source) * word),
               .choices = place(&end, n_rows * route.top_k * word),
               .weights = place(&end, n_rows * route.top_k * word),
               .slot_of_choice = place(&end, n_rows * route.top_k * word),
               .starts = place(&end, (route.n_local + 1) * word),
               .row_of_slot = place(&end, n_slots * word),
               .routing = place(&end, yk_route_scratch_bytes(&route, n_rows)),
               .maxima = place(&end, shares_maxima ? n_maxima(&route, n_rows) * word : 0),
               .shared_inner = place(&end, n_rows * yk_range_size(source->share.shared_ffn) * element)};
  at.inner = place(&end, n_slots * yk_range_size(source->share.expert_ffn) * element);
  at.outputs = place(&end, n_slots * source->config->hidden_size * element);
  at.down_room = place(&end, p ? yk_repack_scratch_bytes(&source->dev, &p->down) : 0);
  at.end = yk_max_i64(end, at.inner + shared_scratch);
  if (p) at.end = yk_max_i64(at.end, at.outputs + yk_repack_scratch_bytes(&source->dev, &p->gate_up));
  return at;
}

static yk_status specify_router(const yk_rank_source *source, int32_t layer, yk_linear_spec *out, yk_err *err)
{
  const yk_projection router = {.layer = layer, .role = YK_ROLE_ROUTER};
  const yk_projection score = {.layer = layer, .role = YK_ROLE_SHARED_SCORE};
  const yk_experts_config *x = &source->config->experts;
  *out = (yk_linear_spec){
      .n_parts = 1, .n_matrices = 1, .f32_output = true, .max_tokens = source->limits->step.max_tokens};
  YK_TRY(yk_rank_column_part(source, &router, (yk_range){0, x->n_experts}, &out->parts[0], err));
  if (!x->has_shared_gate) return YK_OK;
  out->n_parts = 2;
  return yk_rank_column_part(source, &score, (yk_range){0, 1}, &out->parts[1], err);
}

/* views: [3, experts - 1] for the rank's experts after the first, or NULL: for sizes alone. */
static yk_status specify(const yk_rank_source *source, int32_t layer, yk_weight_view *views, projections *out,
                         yk_err *err)
{
  static const yk_weight_role roles[] = {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP, YK_ROLE_EXPERT_DOWN};
  const yk_route_spec route = route_of(source);
  const yk_linear_spec common = {.n_matrices = route.n_local,
                                 .is_grouped = true,
                                 .max_tokens = (int32_t)yk_route_max_slots(&route, source->limits->step.max_tokens)};
  *out = (projections){common, common};
  out->gate_up.n_parts = 2;
  out->gate_up.epilogue = YK_EPILOGUE_SILU_MUL;
  out->down.n_parts = 1;
  yk_linear_part *const parts[] = {&out->gate_up.parts[0], &out->gate_up.parts[1], &out->down.parts[0]};
  for (int i = 0; i < 3; i++) {
    const yk_projection projection = {.layer = layer, .role = roles[i]};
    yk_weight_view *of_part = views ? views + i * (route.n_local - 1) : NULL;
    YK_TRY(yk_rank_experts_part(source, &projection, source->share.expert_ffn, of_part, parts[i], err));
  }
  return YK_OK;
}

/* What loading makes of inputs that the checkpoint quantises. Returns of how many parts they stay floats. */
static int32_t settle_inputs(const yk_rank_source *source, projections *p)
{
  yk_linear_part *const parts[] = {&p->gate_up.parts[0], &p->gate_up.parts[1], &p->down.parts[0]};
  int32_t n_floats = 0;
  for (int i = 0; i < 3; i++) {
    yk_inputs *inputs = &parts[i]->weight.inputs;
    if (inputs->kind == YK_INPUTS_FLOAT || yk_rank_experts_quantise(inputs)) continue;
    *inputs = (yk_inputs){.kind = YK_INPUTS_FLOAT};
    n_floats++;
  }
  return n_floats + yk_repack_n_float_inputs(&source->dev, &p->gate_up) +
         yk_repack_n_float_inputs(&source->dev, &p->down);
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  const yk_experts_config *x = &source->config->experts;
  yk_linear_spec router;
  projections p;
  bool has_experts = yk_range_size(source->share.experts) > 0, shares_maxima;
  *out = (yk_sublayer_bytes){0};
  YK_TRY(specify_router(source, layer, &router, err));
  YK_TRY(find_shares_maxima(source, layer, &shares_maxima, err));
  if (has_experts) {
    YK_TRY(specify(source, layer, NULL, &p, err));
    out->n_float_inputs = settle_inputs(source, &p);
  }
  if (x->shared_ffn_size > 0) {
    const yk_gated_ffn_spec shared = shared_of(source, layer);
    YK_TRY(yk_gated_ffn_measure(source, &shared, out, err));
  }
  out->scratch = lay_out(source, has_experts ? &p : NULL, shares_maxima, out->scratch).end;
  out->weights += yk_repack_bytes(dev, &router);
  if (x->has_choice_bias) out->weights += x->n_experts * (int64_t)sizeof(float);
  if (source->share.rank == 0) out->weights += x->n_experts * (int64_t)sizeof(int64_t);
  if (!has_experts) return YK_OK;
  out->experts = yk_repack_bytes(dev, &p.gate_up) + yk_repack_bytes(dev, &p.down);
  out->weights += out->experts;
  out->n_unkept += yk_repack_n_unkept(dev, &p.gate_up) + yk_repack_n_unkept(dev, &p.down);
  return YK_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Lays out the scratch too: shared_scratch is what the shared expert needs of it. */
static yk_status load_experts(const yk_rank_loader *loader, int32_t layer, int64_t shared_scratch, yk_sublayer *experts,
                              yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  int64_t n_local = yk_range_size(source->share.experts);
  projections p;
  int32_t *order = NULL;
  YK_TRY(find_shares_maxima(source, layer, &experts->shares_maxima, err));
  experts->at = lay_out(source, NULL, experts->shares_maxima, shared_scratch);
  if (n_local == 0) return YK_OK;
  yk_weight_view *views = calloc((size_t)(3 * (n_local - 1) + 1), sizeof *views);
  if (!views) return yk_err_set(err, YK_E_NOMEM, "no memory for the weights of %lld experts", (long long)n_local);
  yk_status status = specify(source, layer, views, &p, err);
  if (status == YK_OK) experts->at = lay_out(source, &p, experts->shares_maxima, shared_scratch);
  if (status == YK_OK) status = yk_gated_order_channels(&p.gate_up, &p.down, &order, err);
  if (status == YK_OK) status = yk_rank_load_linear(loader, &p.gate_up, &experts->gate_up, err);
  if (status == YK_OK) status = yk_rank_load_linear(loader, &p.down, &experts->down, err);
  free(order);
  free(views);
  return status;
}

static yk_status load_router(const yk_rank_loader *loader, int32_t layer, yk_sublayer *experts, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_experts_config *x = &source->config->experts;
  yk_linear_spec router;
  void *counts = NULL;
  YK_TRY(specify_router(source, layer, &router, err));
  YK_TRY(yk_rank_load_linear(loader, &router, &experts->router, err));
  if (x->has_choice_bias) {
    yk_vector_view bias;
    YK_TRY(yk_checkpoint_choice_bias(source->checkpoint, layer, x->n_experts, &bias, err));
    YK_TRY(yk_rank_load_floats(loader, &bias, &experts->choice_bias, err));
  }
  if (source->share.rank == 0) YK_TRY(yk_rank_alloc(loader, (size_t)x->n_experts * sizeof(int64_t), &counts, err));
  experts->counts = counts;
  return YK_OK;
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_device_ops *ops = loader->dev->ops;
  const yk_gated_ffn_spec shared = shared_of(source, layer);
  yk_sublayer_bytes of_shared = {0};
  if (!ops->route || !ops->linear_forward_grouped || !ops->combine)
    return yk_err_set(err, YK_E_UNSUPPORTED, "the %s device has no operations of a mixture of experts", ops->name);
  yk_sublayer *experts = *out = calloc(1, sizeof *experts);
  if (!experts) return yk_err_set(err, YK_E_NOMEM, "no memory for the experts of a layer");
  experts->route = route_of(source);
  experts->n_logits = n_logits_of(source);
  experts->width = (int32_t)yk_range_size(source->share.expert_ffn);
  experts->has_shared = source->config->experts.shared_ffn_size > 0;
  if (experts->has_shared) YK_TRY(yk_gated_ffn_measure(source, &shared, &of_shared, err));
  YK_TRY(load_router(loader, layer, experts, err));
  YK_TRY(load_experts(loader, layer, of_shared.scratch, experts, err));
  return experts->has_shared ? yk_gated_ffn_load(loader, &shared, &experts->shared, err) : YK_OK;
}

static void destroy(yk_device *dev, yk_sublayer *experts)
{
  dev->ops->linear_destroy(dev, experts->router);
  dev->ops->linear_destroy(dev, experts->gate_up);
  dev->ops->linear_destroy(dev, experts->down);
  dev->ops->free(dev, experts->choice_bias);
  dev->ops->free(dev, experts->counts);
  if (experts->has_shared) yk_gated_ffn_destroy(dev, &experts->shared);
  free(experts);
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

static void *scratch_at(const yk_sublayer_step *s, int64_t offset)
{
  return (char *)s->scratch + offset;
}

static yk_route_args routing_of(const yk_sublayer *e, const yk_sublayer_step *s)
{
  const layout *at = &e->at;
  return (yk_route_args){.spec = &e->route,
                         .norm = s->norm,
                         .router = e->router,
                         .x = s->x,
                         .logits = scratch_at(s, at->logits),
                         .logits_stride = e->n_logits,
                         .bias = e->choice_bias,
                         .kv_slots = s->batch->kv_slots,
                         .n_tokens = s->batch->n_tokens,
                         .choices = scratch_at(s, at->choices),
                         .weights = scratch_at(s, at->weights),
                         .starts = scratch_at(s, at->starts),
                         .row_of_slot = scratch_at(s, at->row_of_slot),
                         .slot_of_choice = scratch_at(s, at->slot_of_choice),
                         .counts = e->counts,
                         .scratch = scratch_at(s, at->routing)};
}

/* What down's inputs are quantised with: the largest of each slot's whole row. */
static yk_status share_maxima(const yk_sublayer *e, const yk_sublayer_step *s, yk_err *err)
{
  const int32_t n_rows = s->batch->n_tokens;
  const yk_linear_sums_args args = {
      .x = scratch_at(s, e->at.inner), .maxima = scratch_at(s, e->at.maxima), .n_tokens = n_rows * e->route.top_k};
  YK_RUN(s->operations, OTHER, s->layer, "largest inputs of experts",
         s->dev->ops->linear_maxima(s->dev, e->down, &args, err));
  YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce of largest inputs of experts",
         s->comm->ops->all_reduce_i32(s->comm, args.maxima, n_maxima(&e->route, n_rows), YK_REDUCE_MAX, err));
  return YK_OK;
}

/* The outputs of the rank's experts, and their sum. route: NULL where the rows are routed already. shared: NULL where
 * there is no shared expert, or it has its part of the sum. sum: NULL where others add them up. */
static yk_status run_experts(const yk_sublayer *e, const yk_sublayer_step *s, const yk_route_args *route,
                             const yk_gated_ffn_forwards *shared, const yk_combine_args *sum, yk_err *err)
{
  const layout *at = &e->at;
  const int32_t max_slots = (int32_t)yk_route_max_slots(&e->route, s->batch->n_tokens);
  bool down_is_done = false;
  yk_linear_grouped_args to_inner = {.x = s->x,
                                     .n_rows = s->batch->n_tokens,
                                     .row_of_slot = scratch_at(s, at->row_of_slot),
                                     .starts = scratch_at(s, at->starts),
                                     .max_slots = max_slots,
                                     .y = scratch_at(s, at->inner),
                                     .y_stride = e->width,
                                     .route = route,
                                     .beside = shared ? &shared->gate_up : NULL,
                                     .room = scratch_at(s, at->outputs)};
  const yk_linear_grouped_args to_outputs = {.x = to_inner.y,
                                             .n_rows = max_slots,
                                             .starts = to_inner.starts,
                                             .max_slots = max_slots,
                                             .maxima = e->shares_maxima ? scratch_at(s, at->maxima) : NULL,
                                             .y = scratch_at(s, at->outputs),
                                             .y_stride = s->hidden,
                                             .combine = sum,
                                             .beside = shared ? &shared->down : NULL,
                                             .room = scratch_at(s, at->down_room)};
  const yk_linear_grouped_next next = {e->down, &to_outputs, &down_is_done};
  if (!e->shares_maxima) to_inner.next = &next; /* else ranks exchange in between */
  YK_RUN(s->operations, GEMM_GATE_UP, s->layer, "experts' gate_up_proj",
         s->dev->ops->linear_forward_grouped(s->dev, e->gate_up, &to_inner, err));
  if (down_is_done) return YK_OK;
  if (e->shares_maxima) YK_TRY(share_maxima(e, s, err));
  YK_RUN(s->operations, GEMM_DOWN, s->layer, "experts' down_proj",
         s->dev->ops->linear_forward_grouped(s->dev, e->down, &to_outputs, err));
  return YK_OK;
}

static yk_status forward(const yk_sublayer *e, const yk_sublayer_step *s, yk_err *err)
{
  const layout *at = &e->at;
  const float *logits = scratch_at(s, at->logits);
  const bool has_gate = e->n_logits > e->route.n_experts;
  const yk_combine_args sum = {.y = s->y,
                               .slots = scratch_at(s, at->outputs),
                               .weights = scratch_at(s, at->weights),
                               .slot_of_choice = scratch_at(s, at->slot_of_choice),
                               .shared = e->has_shared ? s->y : NULL,
                               .shared_gate = has_gate ? logits + e->route.n_experts : NULL,
                               .shared_gate_stride = e->n_logits,
                               .n_tokens = s->batch->n_tokens,
                               .top_k = e->route.top_k,
                               .hidden = s->hidden};
  /* A lone row is routed with its experts' first GEMM, and its outputs are combined with their last one; rows pass the
   * shared expert beside their experts: a device may do each in one kernel. More rows than one are combined by the
   * all-reduce. */
  const yk_route_args route = routing_of(e, s);
  const bool together = e->gate_up && s->batch->n_tokens == 1;
  const bool beside = e->gate_up && e->has_shared && !e->shared.down.in_steps;
  const yk_gated_ffn_forwards shared = yk_gated_ffn_beside(&e->shared, s, scratch_at(s, at->shared_inner));
  if (!together) YK_RUN(s->operations, OTHER, s->layer, "routing", s->dev->ops->route(s->dev, &route, err));
  if (e->has_shared && !beside) YK_TRY(yk_gated_ffn_forward(&e->shared, s, scratch_at(s, at->inner), err));
  const bool combines = together || !s->combine;
  if (!combines) *s->combine = sum;
  if (e->gate_up)
    return run_experts(e, s, together ? &route : NULL, beside ? &shared : NULL, combines ? &sum : NULL, err);
  if (e->shares_maxima) YK_TRY(share_maxima(e, s, err));
  if (!combines) return YK_OK;
  YK_RUN(s->operations, OTHER, s->layer, "combination of experts", s->dev->ops->combine(s->dev, &sum, err));
  return YK_OK;
}

static yk_status read_rows(const yk_sublayer *e, yk_device *dev, int64_t *rows, yk_err *err)
{
  return dev->ops->download(dev, rows, e->counts, (size_t)e->route.n_experts * sizeof *rows, err);
}

const yk_sublayer_kind yk_ffn_experts = {.name = "mixture of experts",
                                         .routes_rows = true,
                                         .measure = measure,
                                         .load = load,
                                         .forward = forward,
                                         .read_expert_rows = read_rows,
                                         .destroy = destroy};
