#include "model/row_parallel.h"

#include "base/checked.h"
#include "model/invariance.h"
#include "model/layer.h"

bool yk_row_parallel_in_steps(const yk_rank_source *source, const yk_linear_spec *spec)
{
  return source->share.n_ranks > 1 && yk_linear_has_sums(spec) && !yk_repack_dequantises(&source->dev, spec, 0);
}

/* The count of maxima is rounded up to a multiple of 4, the fast case of the communicators. The values of the extra
 * elements are never used. */
enum { FAST_COUNT = 4 };

/* Offset of the sums, which follow the maxima. */
static int64_t maxima_bytes(int64_t n_rows)
{
  return yk_round_up_i64(n_rows * (int64_t)sizeof(int32_t), YK_DEVICE_ALIGNMENT_BYTES);
}

int64_t yk_row_parallel_scratch(const yk_rank_source *source, const yk_linear_spec *spec)
{
  int64_t n_rows = source->limits->step.max_tokens, n = yk_range_size(spec->parts[0].n);
  if (yk_invariance_has_tree(source)) return n_rows * n * (int64_t)sizeof(float);
  return yk_row_parallel_in_steps(source, spec) ? maxima_bytes(n_rows) + n_rows * n * (int64_t)sizeof(int32_t) : 0;
}

yk_status yk_row_parallel_load(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_row_parallel *out,
                               yk_err *err)
{
  out->in_steps = yk_row_parallel_in_steps(&loader->source, spec);
  out->in_tree = yk_invariance_has_tree(&loader->source);
  return yk_rank_load_linear(loader, spec, &out->linear, err);
}

static yk_linear_sums_args sums_args(const yk_sublayer_step *s, const yk_row_parallel_args *args)
{
  int32_t n = s->batch->n_tokens;
  return (yk_linear_sums_args){.x = args->x,
                               .maxima = args->scratch,
                               .sums = (int32_t *)(void *)((char *)args->scratch + maxima_bytes(n)),
                               .y = args->y,
                               .is_zeros = s->comm->rank != 0,
                               .n_tokens = n,
                               .adapters = s->batch->adapters};
}

static yk_status exchange_maxima(const yk_row_parallel *layer, const yk_sublayer_step *s,
                                 const yk_row_parallel_args *args, yk_err *err)
{
  const yk_linear_sums_args sums = sums_args(s, args);
  YK_RUN(s->operations, OTHER, s->layer, "largest inputs",
         s->dev->ops->linear_maxima(s->dev, layer->linear, &sums, err));
  YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce of largest inputs",
         s->comm->ops->all_reduce_i32(s->comm, sums.maxima, yk_round_up_i64(sums.n_tokens, FAST_COUNT), YK_REDUCE_MAX,
                                      err));
  return YK_OK;
}

/* Turns floats, which write the sublayer's result, into a sum into the residual where the device can. Returns whether
 * it did. */
static bool add_to_residual(const yk_row_parallel *layer, const yk_sublayer_step *s, yk_linear_args *floats)
{
  const yk_device_ops *ops = s->dev->ops;
  yk_linear_args sum = *floats;
  sum.y = s->residual;
  sum.adds = true;
  sum.alpha = s->alpha;
  if (!s->residual || floats->y != s->y.rows || !ops->linear_fuses) return false;
  if (!ops->linear_fuses(s->dev, layer->linear, &sum)) return false;
  *floats = sum;
  return true;
}

static yk_status multiply(const yk_row_parallel *layer, yk_sublayer_step *s, const yk_row_parallel_args *args,
                          yk_err *err)
{
  const yk_linear_sums_args sums = sums_args(s, args);
  if (layer->in_steps) return s->dev->ops->linear_sums(s->dev, layer->linear, &sums, err);
  yk_linear_args floats = {.x = args->x,
                           .y = layer->in_tree ? args->scratch : args->y,
                           .n_tokens = s->batch->n_tokens,
                           .y_stride = s->hidden,
                           .adapters = s->batch->adapters};
  if (add_to_residual(layer, s, &floats)) s->y.state = YK_PARTIAL_ADDED;
  return s->dev->ops->linear_forward(s->dev, layer->linear, &floats, err);
}

static yk_status add_sums(const yk_row_parallel *layer, const yk_sublayer_step *s, const yk_row_parallel_args *args,
                          yk_err *err)
{
  const yk_linear_sums_args sums = sums_args(s, args);
  YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce of integer sums",
         s->comm->ops->all_reduce_i32(s->comm, sums.sums, (int64_t)sums.n_tokens * s->hidden, YK_REDUCE_SUM, err));
  YK_RUN(s->operations, OTHER, s->layer, "scaling of sums",
         s->dev->ops->linear_scale(s->dev, layer->linear, &sums, err));
  return YK_OK;
}

static yk_status add_tree(yk_sublayer_step *s, const yk_row_parallel_args *args, yk_err *err)
{
  const yk_round_sums_args rounded = {
      .y = args->y, .sums = args->scratch, .count = (int64_t)s->batch->n_tokens * s->hidden};
  YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce in a tree",
         s->comm->ops->all_reduce_tree(s->comm, args->scratch, rounded.count, err));
  YK_RUN(s->operations, OTHER, s->layer, "rounding of sums", s->dev->ops->round_sums(s->dev, &rounded, err));
  s->complete = args->y;
  return YK_OK;
}

yk_status yk_row_parallel_run(const yk_row_parallel *layer, yk_sublayer_step *s, const yk_row_parallel_args *args,
                              yk_operation_kind kind, const char *name, yk_err *err)
{
  if (layer->in_steps) YK_TRY(exchange_maxima(layer, s, args, err));
  YK_TRY(yk_operation_begin(s->operations, kind, s->layer, name, err));
  YK_TRY(yk_operation_name_error(s->operations, s->layer, name, multiply(layer, s, args, err), err));
  if (layer->in_tree) return add_tree(s, args, err);
  return layer->in_steps ? add_sums(layer, s, args, err) : YK_OK;
}
