/* cpu_attention.c - softmax attention over the paged cache, prefill and decode rows mixed.
 *
 * One item of work is one KV head and a tile of neighbouring rows of one sequence, so that a block of keys and values
 * is converted once for all query heads that share it. Each query processes the cache's blocks in rising order. The
 * tokens that a query attends to depend only on its position, never on the tile, so its result does not depend on the
 * batch. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_kv_cache.h"
#include "kernels/cpu/cpu_queries.h"
#include "kernels/cpu/cpu_rows.h"

typedef struct attention_context {
  yk_cpu_device *cpu;
  const yk_attention_args *args;
  yk_cpu_kv_side keys, values;
} attention_context;

/* Queries of one item: rows first_row .. first_row + n_rows - 1 of one sequence, heads first_head .. + n_heads - 1. */
typedef struct tile {
  const int32_t *block_table;
  int64_t first_row;
  int32_t n_rows;
  int32_t kv_head, first_head, n_heads;
  yk_cpu_query queries[YK_CPU_MAX_QUERIES]; /* [n_rows * n_heads] */
} tile;

static int32_t first_visible(const yk_attention_args *a, int32_t position)
{
  if (a->window_is_chunk) return position / a->window_tokens * a->window_tokens;
  return a->window_tokens > 0 && position >= a->window_tokens ? position - a->window_tokens + 1 : 0;
}

static void load_queries(const attention_context *c, tile *t, yk_cpu_scratch *scratch)
{
  const yk_attention_args *a = c->args;
  const yk_head_layout *heads = &a->heads;
  yk_dtype dtype = c->cpu->base.dtype;
  int32_t head_dim = heads->head_dim, n_queries = t->n_rows * t->n_heads;
  for (int32_t q = 0; q < n_queries; q++) {
    int64_t row = t->first_row + q / t->n_heads, head = t->first_head + q % t->n_heads;
    int64_t source = row * yk_head_layout_width(heads) + head * head_dim;
    float *query = scratch->queries + (int64_t)q * head_dim;
    c->cpu->simd->to_f32(query, dtype, yk_cpu_at(dtype, a->qkv, source), (size_t)head_dim);
    const float scale = a->scale * yk_score_growth_at(&a->growth, a->batch->positions[row]);
    for (int32_t i = 0; i < head_dim; i++) query[i] *= scale;
    t->queries[q] = (yk_cpu_query){query, scratch->outputs + (int64_t)q * head_dim, -INFINITY, 0.0f};
    if (!a->sinks) continue;
    t->queries[q].maximum = a->sinks[head]; /* as after a token with this score and a value of zeros */
    t->queries[q].sum = 1.0f;
  }
  memset(scratch->outputs, 0, (size_t)n_queries * (size_t)head_dim * sizeof(float));
}

void yk_cpu_attend(const yk_cpu_simd *simd, yk_cpu_query *query, const float *keys, const float *values, int n,
                   size_t dim)
{
  float weights[YK_KV_BLOCK_TOKENS], maximum = query->maximum;
  simd->dot_rows(weights, query->q, keys, n, dim);
  for (int i = n; i < YK_KV_BLOCK_TOKENS; i++) weights[i] = -INFINITY;
  float sum = simd->softmax(weights, YK_KV_BLOCK_TOKENS, &maximum);
  float correction = maximum == query->maximum ? 1.0f : expf(query->maximum - maximum); /* 0 for the first block */
  query->maximum = maximum;
  query->sum = query->sum * correction + sum;
  simd->weighted_sum(query->output, correction, weights, values, n, dim);
}

/* output *= sigmoid of the gate of a row's head. */
static void apply_gate(const attention_context *c, int64_t row, int64_t head, float *output)
{
  const yk_head_layout *heads = &c->args->heads;
  const int64_t first = row * yk_head_layout_width(heads) + yk_head_layout_kv_columns(heads) +
                        (heads->n_q_heads + head) * heads->head_dim;
  for (int32_t i = 0; i < heads->head_dim; i++) {
    float gate = yk_dtype_load(c->cpu->base.dtype, c->args->qkv, (size_t)(first + i));
    output[i] /= 1.0f + expf(-gate);
  }
}

static void store_outputs(const attention_context *c, const tile *t)
{
  const yk_attention_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  int32_t head_dim = a->heads.head_dim;
  for (int32_t q = 0; q < t->n_rows * t->n_heads; q++) {
    int64_t row = t->first_row + q / t->n_heads, head = t->first_head + q % t->n_heads;
    float *output = t->queries[q].output;
    for (int32_t i = 0; i < head_dim; i++) output[i] /= t->queries[q].sum;
    if (a->heads.has_gates) apply_gate(c, row, head, output);
    c->cpu->simd->from_f32(yk_cpu_at(dtype, a->y, (row * a->heads.n_q_heads + head) * head_dim), dtype, output,
                           (size_t)head_dim);
  }
}

static void attend_tile(const attention_context *c, tile *t, yk_cpu_scratch *scratch)
{
  const yk_attention_args *a = c->args;
  int32_t head_dim = a->heads.head_dim;
  const int32_t *positions = a->batch->positions + t->first_row;
  int32_t first_token = first_visible(a, positions[0]), last_token = positions[t->n_rows - 1];
  load_queries(c, t, scratch);
  for (int32_t block = first_token / YK_KV_BLOCK_TOKENS; block <= last_token / YK_KV_BLOCK_TOKENS; block++) {
    int32_t block_first = block * YK_KV_BLOCK_TOKENS;
    int32_t n_used = (int32_t)yk_min_i64(YK_KV_BLOCK_TOKENS, last_token + 1 - block_first);
    yk_cpu_kv_load(c->cpu, &c->keys, t->block_table[block], t->kv_head, n_used, scratch->keys);
    yk_cpu_kv_load(c->cpu, &c->values, t->block_table[block], t->kv_head, n_used, scratch->values);
    for (int32_t q = 0; q < t->n_rows * t->n_heads; q++) {
      int32_t position = positions[q / t->n_heads];
      int32_t begin = (int32_t)yk_max_i64(first_visible(a, position) - block_first, 0);
      int32_t end = (int32_t)yk_min_i64(position + 1 - block_first, YK_KV_BLOCK_TOKENS);
      if (begin < end)
        yk_cpu_attend(c->cpu->simd, &t->queries[q], scratch->keys + begin * head_dim,
                      scratch->values + begin * head_dim, end - begin, (size_t)head_dim);
    }
  }
  store_outputs(c, t);
}

/* Local query heads [*first, *end) that read the local KV head. */
static void query_heads_of(const yk_head_layout *heads, int32_t kv_head, int32_t *first, int32_t *end)
{
  int32_t group_first = (heads->kv_head_first + kv_head) * heads->q_per_kv - heads->q_head_first;
  *first = (int32_t)yk_max_i64(group_first, 0);
  *end = (int32_t)yk_min_i64(group_first + heads->q_per_kv, heads->n_q_heads);
}

/* One item: all query heads of a KV head, in tiles of at most YK_CPU_MAX_QUERIES queries. */
static void attend_rows(const void *context, int thread, const yk_cpu_queries *queries)
{
  const attention_context *c = context;
  const int32_t kv_head = queries->part;
  const yk_attention_args *a = c->args;
  yk_cpu_scratch *scratch = &c->cpu->scratch[thread];
  int32_t first_head, end_head;
  query_heads_of(&a->heads, kv_head, &first_head, &end_head);
  for (int32_t head = first_head, n_heads; head < end_head; head += n_heads) {
    n_heads = (int32_t)yk_min_i64(end_head - head, YK_CPU_MAX_QUERIES);
    int32_t rows_per_tile = YK_CPU_MAX_QUERIES / n_heads;
    for (int64_t first = queries->begin; first < queries->end; first += rows_per_tile) {
      tile t = {.block_table = a->batch->block_tables + (int64_t)queries->seq * a->batch->block_table_stride,
                .first_row = first,
                .n_rows = (int32_t)yk_min_i64(rows_per_tile, queries->end - first),
                .kv_head = kv_head,
                .first_head = head,
                .n_heads = n_heads};
      attend_tile(c, &t, scratch);
    }
  }
}

yk_status yk_cpu_attention(yk_device *dev, const yk_attention_args *args, yk_err *err)
{
  if (args->heads.head_dim > YK_CPU_MAX_HEAD_DIM)
    return yk_err_set(err, YK_E_UNSUPPORTED, "cpu device: head_dim: expected at most %d, found %d", YK_CPU_MAX_HEAD_DIM,
                      args->heads.head_dim);
  attention_context context = {yk_cpu_device_of(dev), args, yk_cpu_kv_keys(&args->kv, &args->heads, dev->dtype),
                               yk_cpu_kv_values(&args->kv, &args->heads, dev->dtype)};
  yk_cpu_queries_run(context.cpu, args->batch, args->heads.n_kv_heads, attend_rows, &context);
  return YK_OK;
}
