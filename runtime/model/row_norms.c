#include "model/row_norms.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/layer.h"
#include "model/rope.h"

static int64_t n_elements(const yk_rank_source *source, int32_t layer)
{
  const yk_shard_heads heads = yk_rank_heads_of(source, layer);
  return (yk_range_size(heads.q) + yk_range_size(heads.kv)) * yk_model_config_widths(source->config, layer).head_dim;
}

int64_t yk_row_norms_weight_bytes(const yk_rank_source *source, int32_t layer)
{
  return source->config->row_norms ? n_elements(source, layer) * (int64_t)yk_dtype_bytes(source->dev.dtype) : 0;
}

static int64_t squares_count(int n_ranks, int32_t n_tokens)
{
  return yk_round_up_i64((int64_t)2 * n_ranks * n_tokens, 4); /* the fast case of the communicators */
}

int64_t yk_row_norms_scratch(const yk_rank_source *source)
{
  if (!source->config->row_norms) return 0;
  return squares_count(source->share.n_ranks, source->limits->step.max_tokens) * (int64_t)sizeof(int32_t);
}

/* The weights of the heads, each head's elements in the order in which devices rotate. */
static yk_status load_part(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, yk_range heads, void **out,
                           yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  const yk_attention_widths widths = yk_model_config_widths(c, layer);
  const int32_t n = widths.head_dim;
  yk_vector_view view;
  YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, role, layer, yk_weight_head_norm_size(c, role, layer), &view,
                              err));
  const size_t element_bytes = yk_dtype_bytes(view.dtype);
  const int64_t n_own = yk_range_size(heads) * n;
  char *ordered = malloc((size_t)n_own * element_bytes + 1);
  if (!ordered) return yk_err_set(err, YK_E_NOMEM, "no memory for the norm of %lld elements", (long long)n_own);
  for (int64_t i = 0; i < n_own; i++) {
    int32_t place = (int32_t)(i % n);
    int64_t from = heads.begin * n + i - place + yk_rotary_element(n, widths.rotary_dim, c->rotary_interleaved, place);
    memcpy(ordered + (size_t)i * element_bytes, (const char *)view.data + (size_t)from * element_bytes, element_bytes);
  }
  view.data = ordered;
  view.n = n_own;
  yk_status status = yk_rank_load_norm(loader, &view, out, err);
  free(ordered);
  return status;
}

yk_status yk_row_norms_load(const yk_rank_loader *loader, int32_t layer, yk_row_norms *out, yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  const yk_attention_widths widths = yk_model_config_widths(c, layer);
  const yk_shard_heads heads = yk_rank_heads_of(&loader->source, layer);
  const int64_t q_per_kv = c->n_heads / widths.n_kv_heads;
  *out = (yk_row_norms){.is_used = c->row_norms,
                        .q_size = (int64_t)c->n_heads * widths.head_dim,
                        .k_size = (int64_t)widths.n_kv_heads * widths.head_dim};
  if (!c->row_norms || yk_range_size(heads.q) == 0) return YK_OK;
  /* A KV head that several ranks hold counts where its first query head is. */
  out->first_counted = heads.q.begin % q_per_kv == 0 ? 0 : 1;
  out->n_counted = (int32_t)yk_range_size(heads.kv) - out->first_counted;
  YK_TRY(load_part(loader, YK_ROLE_Q_NORM, layer, heads.q, &out->q_w, err));
  return load_part(loader, YK_ROLE_K_NORM, layer, heads.kv, &out->k_w, err);
}

yk_status yk_row_norms_run(const yk_row_norms *norms, const yk_sublayer_step *s, const yk_head_layout *heads, void *qkv,
                           void *scratch, yk_err *err)
{
  const yk_row_norms_args args = {.qkv = qkv,
                                  .heads = heads,
                                  .first_counted = norms->first_counted,
                                  .n_counted = norms->n_counted,
                                  .n_tokens = s->batch->n_tokens,
                                  .rank = s->comm->rank,
                                  .n_ranks = s->comm->n_ranks,
                                  .squares = scratch,
                                  .q_w = norms->q_w,
                                  .k_w = norms->k_w,
                                  .q_size = norms->q_size,
                                  .k_size = norms->k_size,
                                  .eps = s->norm_eps};
  if (!norms->is_used) return YK_OK;
  YK_RUN(s->operations, OTHER, s->layer, "squares of q and k", s->dev->ops->row_squares(s->dev, &args, err));
  if (args.n_ranks > 1)
    YK_RUN(s->operations, ALL_REDUCE, s->layer, "all-reduce of squares of q and k",
           s->comm->ops->all_reduce_i32(s->comm, args.squares, squares_count(args.n_ranks, args.n_tokens),
                                        YK_REDUCE_MAX, err));
  YK_RUN(s->operations, OTHER, s->layer, "norm of q and k", s->dev->ops->row_norms(s->dev, &args, err));
  return YK_OK;
}
