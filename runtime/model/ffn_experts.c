/* ffn_experts.c - a mixture of experts: each row passes a few of many feed-forward networks, and the shared expert if
 * the family has one. A rank loads the linear layers; the device runs them as one operation (kernels/mixture.h).
 *
 * Routing is bitwise equal on all ranks, because every rank has the same rows and the whole router. A rank holds a
 * share of the channels of every expert, or whole experts (expert_parallel); either way its result is a partial sum,
 * which the all-reduce after the sublayer adds up. A rank without experts contributes its share of the shared expert,
 * or zeros.
 *
 * If the inputs of down are quantised per token and ranks split each expert's channels, the scale of a slot depends on
 * the whole row, of which a rank has a part. The ranks therefore exchange the largest |x| of each slot before down, so
 * all use the integers that a single rank would use. Each rank scales its own integer sums; the result is a partial sum
 * as for any other format. */
#include <stdlib.h>

#include "model/ffn_gated.h"

struct yk_sublayer {
  yk_linear *router;                 /* float32 outputs */
  float *choice_bias;                /* [n_experts] or NULL */
  float *expert_scales;              /* [n_experts] or NULL */
  yk_linear *gate_up, *down;         /* one matrix per expert of the rank; NULL on a rank without experts */
  yk_linear *latent_in, *latent_out; /* NULL without latent experts, and on a rank without experts */
  yk_gated_ffn shared;
  int64_t *counts; /* [n_experts] rows since the start; NULL except on rank 0 */
  int32_t n_experts;
  yk_mixture *mixture;
};

/* ---- Layout of a layer ------------------------------------------------------------------------------------------- */

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

static bool has_latent(const yk_rank_source *source)
{
  return source->config->experts.latent_size > 0 && yk_range_size(source->share.experts) > 0;
}

static yk_gated_ffn_spec shared_of(const yk_rank_source *source, int32_t layer)
{
  return (yk_gated_ffn_spec){layer, YK_ROLE_SHARED_GATE, YK_ROLE_SHARED_UP, YK_ROLE_SHARED_DOWN,
                             source->share.shared_ffn};
}

typedef struct projections {
  yk_linear_spec gate_up, down;
} projections;

/* Whether ranks exchange the maxima of down's inputs. The result is the same on every rank, including a rank without
 * experts. The first expert decides for all experts. */
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

static yk_status find_sizes(const yk_rank_source *source, int32_t layer, yk_mixture_sizes *out, yk_err *err)
{
  const yk_experts_config *x = &source->config->experts;
  const yk_gated_ffn_spec shared = shared_of(source, layer);
  *out = (yk_mixture_sizes){.route = route_of(source),
                            .max_rows = source->limits->step.max_tokens,
                            .hidden = source->config->hidden_size,
                            .latent = has_latent(source) ? x->latent_size : 0,
                            .width = (int32_t)yk_range_size(source->share.expert_ffn),
                            .shared_width = (int32_t)yk_range_size(source->share.shared_ffn),
                            .has_shared = x->shared_ffn_size > 0,
                            .weighs_inputs = x->weighs_inputs,
                            .has_shared_gate = x->has_shared_gate,
                            .dtype = source->dev.dtype};
  if (out->has_shared) YK_TRY(yk_gated_ffn_in_steps(source, &shared, &out->shared_in_steps, err));
  return find_shares_maxima(source, layer, &out->shares_maxima, err);
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

/* The number of parts of gate_up and down, which the functions below number in this order: gate if the experts have
 * one, up, down. */
static int n_experts_parts(const projections *p)
{
  return p->gate_up.n_parts + p->down.n_parts;
}

static yk_linear_part *part_at(projections *p, int index)
{
  return index < p->gate_up.n_parts ? &p->gate_up.parts[index] : &p->down.parts[0];
}

static yk_weight_role role_of_part(const projections *p, int index)
{
  static const yk_weight_role roles[] = {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP, YK_ROLE_EXPERT_DOWN};
  return roles[index + 3 - n_experts_parts(p)];
}

/* views: [parts, experts - 1] for the rank's experts after the first; NULL to compute sizes only. */
static yk_status specify(const yk_rank_source *source, int32_t layer, yk_weight_view *views, projections *out,
                         yk_err *err)
{
  const yk_route_spec route = route_of(source);
  const yk_linear_spec common = {.n_matrices = route.n_local,
                                 .is_grouped = true,
                                 .max_tokens = (int32_t)yk_route_max_slots(&route, source->limits->step.max_tokens)};
  *out = (projections){common, common};
  out->gate_up.n_parts = yk_ffn_n_inner(&source->config->activation);
  out->gate_up.activation = source->config->activation;
  out->down.n_parts = 1;
  for (int i = 0; i < n_experts_parts(out); i++) {
    const yk_projection projection = {.layer = layer, .role = role_of_part(out, i)};
    yk_weight_view *of_part = views ? views + i * (route.n_local - 1) : NULL;
    YK_TRY(yk_rank_experts_part(source, &projection, source->share.expert_ffn, of_part, part_at(out, i), err));
  }
  return YK_OK;
}

/* The projections before and after latent experts. Every rank with experts has both whole: it projects its partial sum
 * of the experts' results, and the all-reduce of the layer adds up the ranks' projections. */
static yk_status specify_latent(const yk_rank_source *source, int32_t layer, yk_linear_spec *in, yk_linear_spec *out,
                                yk_err *err)
{
  const yk_projection in_proj = {layer, YK_ROLE_EXPERTS_IN, 0}, out_proj = {layer, YK_ROLE_EXPERTS_OUT, 0};
  const yk_range inner = {0, source->config->experts.latent_size}, all = {0, source->config->hidden_size};
  *in = *out = (yk_linear_spec){.n_parts = 1, .n_matrices = 1, .max_tokens = source->limits->step.max_tokens};
  YK_TRY(yk_rank_column_part(source, &in_proj, inner, &in->parts[0], err));
  return yk_rank_column_part(source, &out_proj, all, &out->parts[0], err);
}

/* Set how each part quantises its inputs once loaded. Returns the number of parts whose inputs stay floats. */
static int32_t settle_inputs(const yk_rank_source *source, projections *p)
{
  int32_t n_floats = 0;
  for (int i = 0; i < n_experts_parts(p); i++) {
    yk_inputs *inputs = &part_at(p, i)->weight.inputs;
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
  yk_mixture_sizes sizes;
  projections p;
  bool has_experts = yk_range_size(source->share.experts) > 0;
  *out = (yk_sublayer_bytes){0};
  YK_TRY(specify_router(source, layer, &router, err));
  YK_TRY(find_sizes(source, layer, &sizes, err));
  if (has_experts) {
    YK_TRY(specify(source, layer, NULL, &p, err));
    out->n_float_inputs = settle_inputs(source, &p);
  }
  if (sizes.has_shared) {
    const yk_gated_ffn_spec shared = shared_of(source, layer);
    YK_TRY(yk_gated_ffn_measure(source, &shared, out, err));
  }
  out->scratch =
      yk_repack_mixture_scratch_bytes(dev, &sizes, has_experts ? &p.gate_up : NULL, has_experts ? &p.down : NULL);
  out->weights += yk_repack_bytes(dev, &router);
  out->weights += (x->has_choice_bias + x->has_branches) * x->n_experts * (int64_t)sizeof(float);
  if (source->share.rank == 0) out->weights += x->n_experts * (int64_t)sizeof(int64_t);
  if (!has_experts) return YK_OK;
  if (has_latent(source)) {
    yk_linear_spec in, back;
    YK_TRY(specify_latent(source, layer, &in, &back, err));
    out->weights += yk_repack_bytes(dev, &in) + yk_repack_bytes(dev, &back);
    out->n_unkept += yk_repack_n_unkept(dev, &in) + yk_repack_n_unkept(dev, &back);
    out->n_float_inputs += yk_repack_n_float_inputs(dev, &in) + yk_repack_n_float_inputs(dev, &back);
  }
  out->experts = yk_repack_bytes(dev, &p.gate_up) + yk_repack_bytes(dev, &p.down);
  out->weights += out->experts;
  out->n_unkept += yk_repack_n_unkept(dev, &p.gate_up) + yk_repack_n_unkept(dev, &p.down);
  return YK_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Sets the n_orders of gate and up if a module of the checkpoint has their outputs interleaved. The caller frees
 * *out. */
static yk_status order_interleaved(const yk_rank_source *source, yk_linear_spec *gate_up, int32_t **out, yk_err *err)
{
  if (!source->config->experts.is_interleaved) return YK_OK;
  const yk_range channels = gate_up->parts[0].n;
  int64_t width = yk_range_size(channels), n = gate_up->n_matrices * width;
  int32_t *order = *out = malloc((size_t)(2 * n) * sizeof *order);
  if (!order) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld channels", (long long)n);
  for (int i = 0; i < 2; i++) {
    gate_up->parts[i].n_order = order + i * n;
    for (int64_t j = 0; j < n; j++) order[i * n + j] = (int32_t)(2 * (channels.begin + j % width) + i);
  }
  return YK_OK;
}

static yk_status load_experts(const yk_rank_loader *loader, int32_t layer, yk_sublayer *experts, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  int64_t n_local = yk_range_size(source->share.experts);
  projections p;
  int32_t *order = NULL;
  if (n_local == 0) return YK_OK;
  yk_weight_view *views = calloc((size_t)(3 * (n_local - 1) + 1), sizeof *views);
  if (!views) return yk_err_set(err, YK_E_NOMEM, "no memory for the weights of %lld experts", (long long)n_local);
  yk_status status = specify(source, layer, views, &p, err);
  if (status == YK_OK) status = yk_gated_order_channels(&p.gate_up, &p.down, &order, err);
  if (status == YK_OK && !order) status = order_interleaved(source, &p.gate_up, &order, err);
  if (status == YK_OK) status = yk_rank_load_linear(loader, &p.gate_up, &experts->gate_up, err);
  if (status == YK_OK) status = yk_rank_load_linear(loader, &p.down, &experts->down, err);
  free(order);
  free(views);
  return status;
}

static yk_status load_latent(const yk_rank_loader *loader, int32_t layer, yk_sublayer *experts, yk_err *err)
{
  yk_linear_spec in, out;
  if (!has_latent(&loader->source)) return YK_OK;
  YK_TRY(specify_latent(&loader->source, layer, &in, &out, err));
  YK_TRY(yk_rank_load_linear(loader, &in, &experts->latent_in, err));
  return yk_rank_load_linear(loader, &out, &experts->latent_out, err);
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
    YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_CHOICE_BIAS, layer, x->n_experts, &bias, err));
    YK_TRY(yk_rank_load_floats(loader, &bias, &experts->choice_bias, err));
  }
  if (x->has_branches) {
    yk_vector_view scales;
    YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_EXPERT_SCALES, layer, x->n_experts, &scales, err));
    YK_TRY(yk_rank_load_floats(loader, &scales, &experts->expert_scales, err));
  }
  if (source->share.rank == 0) YK_TRY(yk_rank_alloc(loader, (size_t)x->n_experts * sizeof(int64_t), &counts, err));
  experts->counts = counts;
  return YK_OK;
}

static yk_status create_mixture(const yk_rank_loader *loader, const yk_mixture_sizes *sizes, yk_sublayer *experts,
                                yk_err *err)
{
  const yk_mixture_spec spec = {.sizes = *sizes,
                                .router = experts->router,
                                .gate_up = experts->gate_up,
                                .down = experts->down,
                                .latent_in = experts->latent_in,
                                .latent_out = experts->latent_out,
                                .shared_gate_up = experts->shared.gate_up,
                                .shared_down = experts->shared.down.linear,
                                .choice_bias = experts->choice_bias,
                                .expert_scales = experts->expert_scales,
                                .counts = experts->counts,
                                .is_first_rank = loader->source.share.rank == 0};
  return loader->dev->ops->mixture_create(loader->dev, &spec, &experts->mixture, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_device_ops *ops = loader->dev->ops;
  const yk_gated_ffn_spec shared = shared_of(source, layer);
  yk_mixture_sizes sizes;
  if (!ops->mixture_forward)
    return yk_err_set(err, YK_E_UNSUPPORTED, "the %s device does not support mixtures of experts", ops->name);
  YK_TRY(find_sizes(source, layer, &sizes, err));
  yk_sublayer *experts = *out = calloc(1, sizeof *experts);
  if (!experts) return yk_err_set(err, YK_E_NOMEM, "no memory for the experts of a layer");
  experts->n_experts = sizes.route.n_experts;
  YK_TRY(load_router(loader, layer, experts, err));
  YK_TRY(load_experts(loader, layer, experts, err));
  YK_TRY(load_latent(loader, layer, experts, err));
  if (sizes.has_shared) YK_TRY(yk_gated_ffn_load(loader, &shared, &experts->shared, err));
  return create_mixture(loader, &sizes, experts, err);
}

static void destroy(yk_device *dev, yk_sublayer *experts)
{
  if (experts->mixture) dev->ops->mixture_destroy(dev, experts->mixture);
  dev->ops->linear_destroy(dev, experts->router);
  dev->ops->linear_destroy(dev, experts->gate_up);
  dev->ops->linear_destroy(dev, experts->down);
  dev->ops->linear_destroy(dev, experts->latent_in);
  dev->ops->linear_destroy(dev, experts->latent_out);
  dev->ops->free(dev, experts->choice_bias);
  dev->ops->free(dev, experts->expert_scales);
  dev->ops->free(dev, experts->counts);
  yk_gated_ffn_destroy(dev, &experts->shared);
  free(experts);
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* User data of the phase callbacks. */
typedef struct host {
  const yk_sublayer_step *s;
  bool begin_failed; /* begin has set an error, which needs no operation's name */
} host;

static yk_status begin(void *user, yk_mixture_phase phase, yk_err *err)
{
  static const struct {
    yk_operation_kind kind;
    const char *name;
  } phases[YK_MIXTURE_N_PHASES] = {
      [YK_MIXTURE_ROUTING] = {YK_OPERATION_OTHER, "routing"},
      [YK_MIXTURE_SHARED_GATE_UP] = {YK_OPERATION_GEMM_GATE_UP, "gate_up_proj"},
      [YK_MIXTURE_SHARED_MAXIMA] = {YK_OPERATION_OTHER, "largest inputs"},
      [YK_MIXTURE_SHARED_MAXIMA_EXCHANGE] = {YK_OPERATION_ALL_REDUCE, "all-reduce of largest inputs"},
      [YK_MIXTURE_SHARED_DOWN] = {YK_OPERATION_GEMM_DOWN, "down_proj"},
      [YK_MIXTURE_SHARED_SUMS_EXCHANGE] = {YK_OPERATION_ALL_REDUCE, "all-reduce of integer sums"},
      [YK_MIXTURE_SHARED_SCALING] = {YK_OPERATION_OTHER, "scaling of sums"},
      [YK_MIXTURE_LATENT_IN] = {YK_OPERATION_GEMM_GATE_UP, "projection to latent experts"},
      [YK_MIXTURE_LATENT_OUT] = {YK_OPERATION_GEMM_DOWN, "projection from latent experts"},
      [YK_MIXTURE_GATE_UP] = {YK_OPERATION_GEMM_GATE_UP, "experts' gate_up_proj"},
      [YK_MIXTURE_MAXIMA] = {YK_OPERATION_OTHER, "largest inputs of experts"},
      [YK_MIXTURE_MAXIMA_EXCHANGE] = {YK_OPERATION_ALL_REDUCE, "all-reduce of largest inputs of experts"},
      [YK_MIXTURE_DOWN] = {YK_OPERATION_GEMM_DOWN, "experts' down_proj"},
      [YK_MIXTURE_COMBINATION] = {YK_OPERATION_OTHER, "combination of experts"}};
  host *h = user;
  yk_status status = yk_operation_begin(h->s->operations, phases[phase].kind, h->s->layer, phases[phase].name, err);
  h->begin_failed = status != YK_OK;
  return status;
}

static yk_status all_reduce(void *user, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  yk_comm *comm = ((const host *)user)->s->comm;
  return comm->ops->all_reduce_i32(comm, data, count, reduction, err);
}

static yk_status forward(const yk_sublayer *e, yk_sublayer_step *s, yk_err *err)
{
  host h = {.s = s};
  const yk_mixture_host follower = {.user = &h, .begin = begin, .all_reduce = all_reduce};
  const yk_mixture_args args = {.x = &s->x,
                                .y = &s->y,
                                .router_x = s->router_x,
                                .kv_slots = s->batch->kv_slots,
                                .n_rows = s->batch->n_tokens,
                                .scratch = s->scratch,
                                .host = &follower};
  yk_status status = s->dev->ops->mixture_forward(s->dev, e->mixture, &args, err);
  if (status == YK_OK || h.begin_failed) return status;
  return yk_operation_name_error(s->operations, s->layer, atomic_load(&s->operations->name), status, err);
}

static yk_status read_rows(const yk_sublayer *e, yk_device *dev, int64_t *rows, yk_err *err)
{
  return dev->ops->download(dev, rows, e->counts, (size_t)e->n_experts * sizeof *rows, err);
}

const yk_sublayer_kind yk_ffn_experts = {.name = "mixture of experts",
                                         .reader = YK_READER_ROUTER,
                                         .measure = measure,
                                         .load = load,
                                         .forward = forward,
                                         .read_expert_rows = read_rows,
                                         .destroy = destroy};
