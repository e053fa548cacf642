#include "kernels/mixture_calls.h"

#include "base/checked.h"

/* ---- The scratch ------------------------------------------------------------------------------------------------- */

/* Communicators are fastest with counts that are multiples of 4. The elements after the last value are undefined, and
 * their maximum is not read. */
enum { FAST_COUNT = 4 };

/* For a rank that holds parts of experts: such a rank holds a part of every expert, so every choice has a slot. */
static int64_t n_maxima(const yk_mixture_sizes *sizes, int64_t n_rows)
{
  return yk_round_up_i64(n_rows * sizes->route.top_k, FAST_COUNT);
}

/* The shared expert's maxima come first, then its sums. */
static int64_t shared_maxima_bytes(int64_t n_rows)
{
  return yk_round_up_i64(n_rows * (int64_t)sizeof(int32_t), YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t place(int64_t *end, int64_t n_bytes)
{
  int64_t at = *end;
  *end = yk_round_up_i64(at + n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  return at;
}

/* Elements of an expert's inputs and results. */
static int32_t inner_size(const yk_mixture_sizes *sizes)
{
  return sizes->latent > 0 ? sizes->latent : sizes->hidden;
}

/* Elements for max_rows rows of latent experts: inputs, sums of results, and the sums projected back. */
static int64_t latent_elements(const yk_mixture_sizes *sizes)
{
  return sizes->latent > 0 ? sizes->max_rows * (2 * (int64_t)sizes->latent + sizes->hidden) : 0;
}

/* The shared expert's sums share memory with the experts' rows, which are written later. So do gate and up's weighted
 * inputs; without these, their staging buffer. */
yk_mixture_layout yk_mixture_lay_out(const yk_mixture_sizes *sizes, int64_t gate_up_staging_bytes,
                                     int64_t down_staging_bytes)
{
  const yk_route_spec *route = &sizes->route;
  const int64_t n_rows = sizes->max_rows, n_slots = yk_route_max_slots(route, n_rows);
  const int64_t n_choices = n_rows * route->top_k, n_logits = route->n_experts + sizes->has_shared_gate;
  const int64_t word = (int64_t)sizeof(int32_t), element = (int64_t)yk_dtype_bytes(sizes->dtype);
  int64_t end = 0;
  yk_mixture_layout at = {.logits = place(&end, n_rows * n_logits * word),
                          .choices = place(&end, n_choices * word),
                          .weights = place(&end, n_choices * word),
                          .slot_of_choice = place(&end, n_choices * word),
                          .starts = place(&end, (route->n_local + 1) * word),
                          .row_of_slot = place(&end, n_slots * word),
                          .routing = place(&end, yk_route_scratch_bytes(route, n_rows)),
                          .maxima = place(&end, sizes->shares_maxima ? n_maxima(sizes, n_rows) * word : 0),
                          .shared_inner = place(&end, n_rows * sizes->shared_width * element)};
  at.latent = place(&end, latent_elements(sizes) * element);
  at.shared_sums = at.inner = place(&end, n_slots * sizes->width * element);
  at.gate_up_staging = at.outputs = place(&end, n_slots * inner_size(sizes) * element);
  if (sizes->weighs_inputs) at.gate_up_staging = place(&end, gate_up_staging_bytes);
  at.down_staging = place(&end, down_staging_bytes);
  at.end = yk_max_i64(end, at.gate_up_staging + gate_up_staging_bytes);
  if (sizes->shared_in_steps)
    at.end = yk_max_i64(at.end, at.shared_sums + shared_maxima_bytes(n_rows) + n_rows * sizes->hidden * word);
  return at;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static void *scratch_at(const yk_mixture_args *args, int64_t offset)
{
  return (char *)args->scratch + offset;
}

static yk_route_args route_of(const yk_mixture *m, const yk_mixture_args *args)
{
  const yk_mixture_layout *at = &m->at;
  return (yk_route_args){.spec = &m->spec.sizes.route,
                         .router = m->spec.router,
                         .x = args->router_x ? args->router_x : args->x->rows,
                         .logits = scratch_at(args, at->logits),
                         .logits_stride = m->spec.sizes.route.n_experts + m->spec.sizes.has_shared_gate,
                         .bias = m->spec.choice_bias,
                         .expert_scales = m->spec.expert_scales,
                         .kv_slots = args->kv_slots,
                         .n_tokens = args->n_rows,
                         .choices = scratch_at(args, at->choices),
                         .weights = scratch_at(args, at->weights),
                         .starts = scratch_at(args, at->starts),
                         .row_of_slot = scratch_at(args, at->row_of_slot),
                         .slot_of_choice = scratch_at(args, at->slot_of_choice),
                         .counts = m->spec.counts,
                         .scratch = scratch_at(args, at->routing)};
}

static yk_combine_args sum_of(const yk_mixture *m, const yk_mixture_args *args, const yk_route_args *route)
{
  const yk_mixture_sizes *sizes = &m->spec.sizes;
  return (yk_combine_args){.y = args->y->rows,
                           .slots = scratch_at(args, m->at.outputs),
                           .weights = sizes->weighs_inputs ? NULL : route->weights,
                           .slot_of_choice = route->slot_of_choice,
                           .shared = sizes->has_shared ? args->y->rows : NULL,
                           .shared_gate = sizes->has_shared_gate ? route->logits + sizes->route.n_experts : NULL,
                           .shared_gate_stride = route->logits_stride,
                           .n_tokens = args->n_rows,
                           .top_k = sizes->route.top_k,
                           .hidden = sizes->hidden};
}

/* Latent experts read the projected rows; the sum of their results is projected back, to y if nothing else is part of
 * y. */
static void set_latent(const yk_mixture *m, const yk_mixture_args *args, yk_mixture_calls *calls)
{
  const yk_mixture_sizes *sizes = &m->spec.sizes;
  const int32_t n = args->n_rows;
  const int64_t n_bytes = (int64_t)sizes->max_rows * sizes->latent * (int64_t)yk_dtype_bytes(sizes->dtype);
  char *in = scratch_at(args, m->at.latent), *sum = in + n_bytes, *out = sum + n_bytes;
  if (sizes->latent == 0) return;
  calls->latent_in = (yk_linear_args){.x = args->x->rows, .y = in, .n_tokens = n, .y_stride = sizes->latent};
  calls->gate_up.x = in;
  calls->sum.y = sum;
  calls->sum.shared = NULL;
  calls->sum.shared_gate = NULL;
  calls->sum.hidden = sizes->latent;
  calls->latent_out = (yk_linear_args){
      .x = sum, .y = sizes->has_shared ? out : args->y->rows, .n_tokens = n, .y_stride = sizes->hidden};
}

/* The experts read a row of weighted inputs for each slot. */
static void weigh_inputs(const yk_mixture_sizes *sizes, void *rows, yk_mixture_calls *calls)
{
  calls->weigh = (yk_weigh_args){.y = rows,
                                 .x = calls->gate_up.x,
                                 .weights = calls->route.weights,
                                 .slot_of_choice = calls->route.slot_of_choice,
                                 .n_tokens = calls->route.n_tokens,
                                 .top_k = sizes->route.top_k,
                                 .hidden = inner_size(sizes)};
  calls->gate_up.x = rows;
  calls->gate_up.n_rows = calls->gate_up.max_slots;
  calls->gate_up.row_of_slot = NULL;
}

yk_mixture_calls yk_mixture_calls_of(const yk_mixture *m, const yk_mixture_args *args)
{
  const yk_mixture_layout *at = &m->at;
  const yk_mixture_sizes *sizes = &m->spec.sizes;
  const int32_t n = args->n_rows, max_slots = (int32_t)yk_route_max_slots(&sizes->route, n);
  yk_mixture_calls calls = {.route = route_of(m, args), .n_maxima = n_maxima(sizes, n)};
  calls.sum = sum_of(m, args, &calls.route);
  calls.shared_gate_up = (yk_linear_args){
      .x = args->x->rows, .y = scratch_at(args, at->shared_inner), .n_tokens = n, .y_stride = sizes->shared_width};
  calls.shared_down =
      (yk_linear_args){.x = calls.shared_gate_up.y, .y = args->y->rows, .n_tokens = n, .y_stride = sizes->hidden};
  calls.gate_up = (yk_grouped_args){.x = args->x->rows,
                                    .n_rows = n,
                                    .row_of_slot = calls.route.row_of_slot,
                                    .starts = calls.route.starts,
                                    .max_slots = max_slots,
                                    .y = scratch_at(args, at->inner),
                                    .y_stride = sizes->width,
                                    .staging = scratch_at(args, at->gate_up_staging)};
  calls.maxima = (yk_linear_sums_args){
      .x = calls.gate_up.y, .maxima = scratch_at(args, at->maxima), .n_tokens = n * sizes->route.top_k};
  calls.down = (yk_grouped_args){.x = calls.gate_up.y,
                                 .n_rows = max_slots,
                                 .starts = calls.route.starts,
                                 .max_slots = max_slots,
                                 .maxima = sizes->shares_maxima ? calls.maxima.maxima : NULL,
                                 .y = scratch_at(args, at->outputs),
                                 .y_stride = inner_size(sizes),
                                 .staging = scratch_at(args, at->down_staging)};
  set_latent(m, args, &calls);
  if (sizes->weighs_inputs) weigh_inputs(sizes, scratch_at(args, at->outputs), &calls);
  return calls;
}

void yk_mixture_taps_fill(const yk_mixture *m, const yk_mixture_args *args)
{
  const yk_mixture_layout *at = &m->at;
  if (!args->taps) return;
  *args->taps = (yk_mixture_taps){.choices = scratch_at(args, at->choices),
                                  .slot_of_choice = scratch_at(args, at->slot_of_choice),
                                  .weights = scratch_at(args, at->weights),
                                  .starts = scratch_at(args, at->starts),
                                  .row_of_slot = scratch_at(args, at->row_of_slot),
                                  .max_slots = (int32_t)yk_route_max_slots(&m->spec.sizes.route, args->n_rows),
                                  .inner = scratch_at(args, at->inner),
                                  .shared_inner = m->spec.sizes.has_shared ? scratch_at(args, at->shared_inner) : NULL};
}

yk_status yk_grouped_check(const yk_grouped_args *args, bool is_grouped, int32_t max_tokens, yk_err *err)
{
  if (!is_grouped)
    return yk_err_set(err, YK_E_INVAL, "linear: a grouped forward: expected a grouped layer, found another");
  if (args->max_slots > max_tokens)
    return yk_err_set(err, YK_E_INVAL, "linear: expected at most %d slots, found %d", max_tokens, args->max_slots);
  return YK_OK;
}

/* ---- Parts that call linear layers ------------------------------------------------------------------------------- */

yk_status yk_mixture_share_maxima(yk_device *dev, const yk_mixture_linear_ops *ops, const yk_mixture *m,
                                  const yk_mixture_args *args, const yk_mixture_calls *calls, yk_err *err)
{
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_MAXIMA, err));
  YK_TRY(ops->maxima(dev, m->spec.down, &calls->maxima, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_MAXIMA_EXCHANGE, err));
  return args->host->all_reduce(args->host->user, calls->maxima.maxima, calls->n_maxima, YK_REDUCE_MAX, err);
}

/* Down of a shared expert with quantised inputs that are split over ranks (yk_linear_sums_args). */
static yk_status run_shared_down_in_steps(yk_device *dev, const yk_mixture_linear_ops *ops, const yk_mixture *m,
                                          const yk_mixture_args *args, const yk_mixture_calls *calls, yk_err *err)
{
  const yk_mixture_host *host = args->host;
  const int64_t n = args->n_rows;
  int32_t *maxima = scratch_at(args, m->at.shared_sums);
  const yk_linear_sums_args sums = {.x = calls->shared_down.x,
                                    .maxima = maxima,
                                    .sums = (int32_t *)(void *)((char *)maxima + shared_maxima_bytes(n)),
                                    .y = calls->shared_down.y,
                                    .is_zeros = !m->spec.is_first_rank,
                                    .n_tokens = args->n_rows};
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_MAXIMA, err));
  YK_TRY(ops->maxima(dev, m->spec.shared_down, &sums, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_MAXIMA_EXCHANGE, err));
  YK_TRY(host->all_reduce(host->user, maxima, yk_round_up_i64(n, FAST_COUNT), YK_REDUCE_MAX, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_DOWN, err));
  YK_TRY(ops->sums(dev, m->spec.shared_down, &sums, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_SUMS_EXCHANGE, err));
  YK_TRY(host->all_reduce(host->user, sums.sums, n * m->spec.sizes.hidden, YK_REDUCE_SUM, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_SCALING, err));
  return ops->scale(dev, m->spec.shared_down, &sums, err);
}

yk_status yk_mixture_run_shared(yk_device *dev, const yk_mixture_linear_ops *ops, const yk_mixture *m,
                                const yk_mixture_args *args, const yk_mixture_calls *calls, yk_err *err)
{
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_GATE_UP, err));
  YK_TRY(ops->forward(dev, m->spec.shared_gate_up, &calls->shared_gate_up, err));
  if (m->spec.sizes.shared_in_steps) return run_shared_down_in_steps(dev, ops, m, args, calls, err);
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_SHARED_DOWN, err));
  return ops->forward(dev, m->spec.shared_down, &calls->shared_down, err);
}
