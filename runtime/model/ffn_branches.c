/* ffn_branches.c - a mixture of experts in parallel with a dense feed-forward network (Gemma4TextDecoderLayer of
 * transformers). Both read the residual x:
 *
 *   y = norm(dense(norm(x))) + norm(experts(norm(x), choices of router(norm(x))))
 *
 * Each norm has separate weights; the weights of the router's norm are router.scale / sqrt(hidden). The norms of the
 * results need sums over all ranks, so each result has an all-reduce, and y is complete on every rank. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "model/layer.h"

struct yk_sublayer {
  yk_sublayer *dense, *experts;
  void *dense_result_w, *experts_w, *experts_result_w, *router_w; /* act [hidden] */
  /* Offsets within the scratch, which begins with y: of rows for the router's inputs, and later for the experts'
   * result; of the scratch that both networks use, one after the other. */
  int64_t rows_offset_bytes, inner_offset_bytes;
};

static int64_t rows_bytes(const yk_rank_source *source)
{
  const int64_t row_bytes = source->config->hidden_size * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  enum { N_NORMS = 4 };
  yk_sublayer_bytes dense, experts;
  YK_TRY(yk_ffn_dense.measure(source, layer, &dense, err));
  YK_TRY(yk_ffn_experts.measure(source, layer, &experts, err));
  const int64_t norms = N_NORMS * source->config->hidden_size * (int64_t)yk_dtype_bytes(source->dev.dtype);
  *out = (yk_sublayer_bytes){.weights = dense.weights + experts.weights + norms,
                             .experts = experts.experts,
                             .n_unkept = dense.n_unkept + experts.n_unkept,
                             .n_float_inputs = dense.n_float_inputs + experts.n_float_inputs,
                             .scratch = 2 * rows_bytes(source) + yk_max_i64(dense.scratch, experts.scratch)};
  return YK_OK;
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const int64_t hidden = loader->source.config->hidden_size;
  const float router_scale = 1.0f / sqrtf((float)hidden);
  yk_sublayer *b = *out = calloc(1, sizeof *b);
  if (!b) return yk_err_set(err, YK_E_NOMEM, "no memory for the feed-forward networks of a layer");
  b->rows_offset_bytes = rows_bytes(&loader->source);
  b->inner_offset_bytes = 2 * rows_bytes(&loader->source);
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_DENSE_RESULT_NORM, layer, hidden, 1, &b->dense_result_w, err));
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_EXPERTS_NORM, layer, hidden, 1, &b->experts_w, err));
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_EXPERTS_RESULT_NORM, layer, hidden, 1, &b->experts_result_w, err));
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_ROUTER_SCALE, layer, hidden, router_scale, &b->router_w, err));
  YK_TRY(yk_ffn_dense.load(loader, layer, &b->dense, err));
  return yk_ffn_experts.load(loader, layer, &b->experts, err);
}

static yk_status normalise(const yk_sublayer_step *s, void *y, const void *x, const void *w, yk_err *err)
{
  const yk_rms_norm_args norm = {.y = y,
                                 .x = x,
                                 .w = w,
                                 .x_stride = s->hidden,
                                 .n_rows = s->batch->n_tokens,
                                 .hidden = s->hidden,
                                 .eps = s->norm_eps};
  YK_RUN(s->operations, OTHER, s->layer, "norm of a branch", s->dev->ops->rms_norm(s->dev, &norm, err));
  return YK_OK;
}

/* y = rms_norm(sum over ranks of s->y, w). */
static yk_status finish(yk_sublayer_step *s, void *y, const void *w, yk_err *err)
{
  const int64_t count = (int64_t)s->batch->n_tokens * s->hidden;
  YK_RUN(s->operations, OTHER, s->layer, "result of a branch", s->dev->ops->partial_complete(s->dev, &s->y, err));
  s->y.state = YK_PARTIAL_ROWS;
  YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce of a branch",
         s->comm->ops->all_reduce(s->comm, s->y.rows, count, s->dev->dtype, err));
  return normalise(s, y, s->y.rows, w, err);
}

static yk_status run(const yk_sublayer *b, yk_sublayer_step *s, char *scratch, yk_err *err)
{
  void *y = scratch, *rows = scratch + b->rows_offset_bytes;
  const void *residual = s->x.residual;
  s->residual = NULL; /* both results are normalised before they are added */
  YK_TRY(yk_sublayer_normalise(s, err));
  YK_TRY(yk_ffn_dense.forward(b->dense, s, err));
  YK_TRY(finish(s, y, b->dense_result_w, err));
  YK_TRY(normalise(s, s->x.rows, residual, b->experts_w, err));
  YK_TRY(normalise(s, rows, residual, b->router_w, err));
  s->router_x = rows;
  YK_TRY(yk_ffn_experts.forward(b->experts, s, err));
  YK_TRY(finish(s, rows, b->experts_result_w, err));
  const yk_add_norm_args sum = {.residual = y,
                                .partials = {rows},
                                .n_partials = 1,
                                .n_rows = s->batch->n_tokens,
                                .hidden = s->hidden,
                                .alpha = 1};
  YK_RUN(s->operations, OTHER, s->layer, "sum of branches", s->dev->ops->add_norm(s->dev, &sum, err));
  s->complete = y;
  return YK_OK;
}

static yk_status forward(const yk_sublayer *b, yk_sublayer_step *s, yk_err *err)
{
  char *scratch = s->scratch;
  s->scratch = scratch + b->inner_offset_bytes;
  yk_status status = run(b, s, scratch, err);
  s->scratch = scratch;
  s->router_x = NULL;
  return status;
}

static yk_status read_rows(const yk_sublayer *b, yk_device *dev, int64_t *rows, yk_err *err)
{
  return yk_ffn_experts.read_expert_rows(b->experts, dev, rows, err);
}

static void destroy(yk_device *dev, yk_sublayer *b)
{
  dev->ops->free(dev, b->dense_result_w);
  dev->ops->free(dev, b->experts_w);
  dev->ops->free(dev, b->experts_result_w);
  dev->ops->free(dev, b->router_w);
  if (b->dense) yk_ffn_dense.destroy(dev, b->dense);
  if (b->experts) yk_ffn_experts.destroy(dev, b->experts);
  free(b);
}

const yk_sublayer_kind yk_ffn_branches = {.name = "mixture of experts in parallel with a dense FFN",
                                          .measure = measure,
                                          .load = load,
                                          .forward = forward,
                                          .read_expert_rows = read_rows,
                                          .destroy = destroy};
