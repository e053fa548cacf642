/* cpu_latent.c - latent attention with the weights of kv_b_proj absorbed into queries and results: see latent.h.
 *
 * One item of work is a tile of at most YK_CPU_MAX_QUERIES queries: neighbouring heads of neighbouring rows of one
 * sequence, so that a block of the cache is converted once for all of them. The tokens that a query attends to depend
 * only on its position, never on the tile, so its result does not depend on the batch. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_queries.h"
#include "kernels/cpu/cpu_rows.h"

static yk_status check_width(const yk_latent_layout *layout, yk_err *err)
{
  if (yk_latent_width(layout) <= YK_CPU_MAX_HEAD_DIM && layout->nope_dim <= YK_CPU_MAX_HEAD_DIM &&
      layout->value_dim <= YK_CPU_MAX_HEAD_DIM)
    return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "cpu device: latent attention: expected at most %d values a token and head, found %d, %d and %d",
                    YK_CPU_MAX_HEAD_DIM, yk_latent_width(layout), layout->nope_dim, layout->value_dim);
}

/* ---- Norm, rotation and the write to the cache ------------------------------------------------------------------- */

typedef struct latent_context {
  yk_cpu_device *cpu;
  const yk_latent_attention_args *args;
} latent_context;

static void rotate_in_place(const yk_cpu_device *cpu, void *at, const float *rope, int32_t rope_dim, float *f32)
{
  cpu->simd->to_f32(f32, cpu->base.dtype, at, (size_t)rope_dim);
  yk_cpu_rotate(f32, rope, rope_dim);
  cpu->simd->from_f32(at, cpu->base.dtype, f32, (size_t)rope_dim);
}

static void cache_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const latent_context *c = context;
  const yk_latent_attention_args *a = c->args;
  const yk_latent_layout *layout = &a->layout;
  yk_dtype dtype = c->cpu->base.dtype;
  int32_t width = yk_latent_width(layout), head_width = layout->nope_dim + layout->rope_dim;
  float *f32 = c->cpu->scratch[thread].keys;
  for (int64_t row = begin; row < end; row++) {
    const float *rope = a->rope + (int64_t)a->batch->positions[row] * layout->rope_dim;
    void *latent = yk_cpu_at(dtype, a->latent, row * a->latent_stride);
    yk_cpu_norm_row(c->cpu, latent, latent, a->norm_w, layout->kv_rank, a->norm_eps);
    rotate_in_place(c->cpu, yk_cpu_at(dtype, latent, layout->kv_rank), rope, layout->rope_dim, f32);
    for (int32_t h = 0; h < layout->n_heads; h++) {
      int64_t at = row * a->q_stride + (int64_t)h * head_width + layout->nope_dim;
      rotate_in_place(c->cpu, yk_cpu_at(dtype, a->q, at), rope, layout->rope_dim, f32);
    }
    memcpy(yk_cpu_at(dtype, a->cache, (int64_t)a->batch->kv_slots[row] * width), latent,
           (size_t)width * yk_dtype_bytes(dtype));
  }
}

/* ---- Attention --------------------------------------------------------------------------------------------------- */

/* Queries of one item: rows first_row .. first_row + n_rows - 1 of one sequence, heads first_head .. + n_heads - 1;
 * query q belongs to row q / n_heads. */
typedef struct tile {
  const int32_t *block_table;
  int64_t first_row;
  int32_t n_rows, first_head, n_heads;
  yk_cpu_query queries[YK_CPU_MAX_QUERIES];
} tile;

/* Rows [row, row + YK_KV_BLOCK_TOKENS) of K[h], then V[h], as floats: [n, kv_rank]. Returns n. */
static int convert_up_rows(const latent_context *c, int64_t head, int32_t row, int32_t end, float *to)
{
  const yk_latent_layout *layout = &c->args->layout;
  int n = (int)yk_min_i64(end - row, YK_KV_BLOCK_TOKENS);
  int64_t at = (head * (layout->nope_dim + layout->value_dim) + row) * layout->kv_rank;
  c->cpu->simd->to_f32(to, c->cpu->base.dtype, yk_cpu_at(c->cpu->base.dtype, c->args->kv_up, at),
                       (size_t)n * (size_t)layout->kv_rank);
  return n;
}

/* Sets query q of the tile: K^T q_nope, then q_rope, both times scale; and the destination of its output. */
static void begin_query(const latent_context *c, tile *t, int32_t q, yk_cpu_scratch *scratch)
{
  const yk_latent_attention_args *a = c->args;
  const yk_latent_layout *layout = &a->layout;
  const yk_cpu_simd *simd = c->cpu->simd;
  yk_dtype dtype = c->cpu->base.dtype;
  int32_t width = yk_latent_width(layout);
  int64_t row = t->first_row + q / t->n_heads, head = t->first_head + q % t->n_heads;
  int64_t at = row * a->q_stride + head * (layout->nope_dim + layout->rope_dim);
  float *query = scratch->queries + (int64_t)q * width, *output = scratch->outputs + (int64_t)q * width;
  float nope[YK_CPU_MAX_HEAD_DIM];
  simd->to_f32(nope, dtype, yk_cpu_at(dtype, a->q, at), (size_t)layout->nope_dim);
  memset(query, 0, (size_t)layout->kv_rank * sizeof *query);
  for (int32_t i = 0, n; i < layout->nope_dim; i += n) {
    n = convert_up_rows(c, head, i, layout->nope_dim, scratch->values);
    simd->weighted_sum(query, 1.0f, nope + i, scratch->values, n, (size_t)layout->kv_rank);
  }
  simd->to_f32(query + layout->kv_rank, dtype, yk_cpu_at(dtype, a->q, at + layout->nope_dim), (size_t)layout->rope_dim);
  const float scale = a->scale * yk_score_growth_at(&a->growth, a->batch->positions[row]);
  for (int32_t i = 0; i < width; i++) query[i] *= scale;
  memset(output, 0, (size_t)width * sizeof *output);
  t->queries[q] = (yk_cpu_query){query, output, -INFINITY, 0.0f};
}

/* y = V times the weighted sum of latent vectors. */
static void end_query(const latent_context *c, const tile *t, int32_t q, yk_cpu_scratch *scratch)
{
  const yk_latent_attention_args *a = c->args;
  const yk_latent_layout *layout = &a->layout;
  int64_t row = t->first_row + q / t->n_heads, head = t->first_head + q % t->n_heads;
  float *output = t->queries[q].output, y[YK_CPU_MAX_HEAD_DIM];
  for (int32_t i = 0; i < layout->kv_rank; i++) output[i] /= t->queries[q].sum;
  for (int32_t i = 0, n; i < layout->value_dim; i += n) {
    n = convert_up_rows(c, head, layout->nope_dim + i, layout->nope_dim + layout->value_dim, scratch->values);
    c->cpu->simd->dot_rows(y + i, output, scratch->values, n, (size_t)layout->kv_rank);
  }
  yk_dtype dtype = c->cpu->base.dtype;
  c->cpu->simd->from_f32(yk_cpu_at(dtype, a->y, (row * layout->n_heads + head) * layout->value_dim), dtype, y,
                         (size_t)layout->value_dim);
}

static void attend_tile(const latent_context *c, tile *t, yk_cpu_scratch *scratch)
{
  const yk_latent_attention_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  int32_t width = yk_latent_width(&a->layout), n_queries = t->n_rows * t->n_heads;
  const int32_t *positions = a->batch->positions + t->first_row;
  int32_t last_token = positions[t->n_rows - 1];
  for (int32_t q = 0; q < n_queries; q++) begin_query(c, t, q, scratch);
  for (int32_t block = 0; block <= last_token / YK_KV_BLOCK_TOKENS; block++) {
    int32_t block_first = block * YK_KV_BLOCK_TOKENS;
    int32_t n_used = (int32_t)yk_min_i64(YK_KV_BLOCK_TOKENS, last_token + 1 - block_first);
    int64_t cached = (int64_t)t->block_table[block] * YK_KV_BLOCK_TOKENS * width;
    c->cpu->simd->to_f32(scratch->keys, dtype, yk_cpu_at(dtype, a->cache, cached), (size_t)(n_used * width));
    for (int32_t q = 0; q < n_queries; q++) {
      int32_t n_seen = (int32_t)yk_min_i64(positions[q / t->n_heads] + 1 - block_first, YK_KV_BLOCK_TOKENS);
      if (n_seen > 0) yk_cpu_attend(c->cpu->simd, &t->queries[q], scratch->keys, scratch->keys, n_seen, (size_t)width);
    }
  }
  for (int32_t q = 0; q < n_queries; q++) end_query(c, t, q, scratch);
}

/* One item: at most YK_CPU_MAX_QUERIES heads, in tiles. */
static void attend_rows(const void *context, int thread, const yk_cpu_queries *queries)
{
  const latent_context *c = context;
  const int32_t head = queries->part * YK_CPU_MAX_QUERIES;
  const int32_t n_heads = (int32_t)yk_min_i64(c->args->layout.n_heads - head, YK_CPU_MAX_QUERIES);
  const yk_batch *batch = c->args->batch;
  int32_t rows_per_tile = YK_CPU_MAX_QUERIES / n_heads;
  for (int64_t first = queries->begin; first < queries->end; first += rows_per_tile) {
    tile t = {.block_table = batch->block_tables + (int64_t)queries->seq * batch->block_table_stride,
              .first_row = first,
              .n_rows = (int32_t)yk_min_i64(rows_per_tile, queries->end - first),
              .first_head = head,
              .n_heads = n_heads};
    attend_tile(c, &t, &c->cpu->scratch[thread]);
  }
}

yk_status yk_cpu_latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err)
{
  YK_TRY(check_width(&args->layout, err));
  latent_context context = {yk_cpu_device_of(dev), args};
  const int32_t n_parts = (int32_t)yk_ceil_div_i64(args->layout.n_heads, YK_CPU_MAX_QUERIES);
  yk_cpu_pool_run(context.cpu->pool, args->batch->n_tokens, 1, cache_rows, &context);
  yk_cpu_queries_run(context.cpu, args->batch, n_parts, attend_rows, &context);
  return YK_OK;
}
