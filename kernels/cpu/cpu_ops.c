/* cpu_ops.c - the row-wise operations: embedding, norms, rotary embedding with the write to the cache, gather.
 *
 * Each operation processes a row in chunks of float32 on the stack; a row's result depends only on the row. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu_kv_cache.h"
#include "kernels/cpu/cpu_rows.h"

enum {
  CHUNK = 256,               /* elements converted at a time */
  MIN_THREAD_ELEMENTS = 8192 /* below this a thread costs more than it saves */
};

/* Minimum number of rows for a further thread. */
static int64_t min_rows(int64_t elements_per_row)
{
  return elements_per_row >= MIN_THREAD_ELEMENTS ? 1
                                                 : MIN_THREAD_ELEMENTS / (elements_per_row > 0 ? elements_per_row : 1);
}

static int32_t chunk_size(int32_t done, int32_t total)
{
  return total - done < CHUNK ? total - done : CHUNK;
}

typedef struct embed_context {
  yk_cpu_device *cpu;
  const yk_embed_args *args;
} embed_context;

static void embed_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const embed_context *c = context;
  const yk_embed_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  size_t row_bytes = (size_t)a->hidden * yk_dtype_bytes(dtype);
  float chunk[CHUNK];
  for (int64_t row = begin; row < end; row++) {
    int64_t id = (int64_t)a->token_ids[row] - a->first_id, source = id * a->hidden;
    if (a->cleared) memset(yk_cpu_at(dtype, a->cleared, row * a->hidden), 0, row_bytes);
    if (id < 0 || id >= a->n_ids) {
      memset(yk_cpu_at(dtype, a->y, row * a->hidden), 0, row_bytes);
      continue;
    }
    for (int32_t i = 0, n; i < a->hidden; i += n) {
      n = chunk_size(i, a->hidden);
      c->cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, a->table, source + i), (size_t)n);
      for (int32_t j = 0; j < n; j++) chunk[j] *= a->scale;
      c->cpu->simd->from_f32(yk_cpu_at(dtype, a->y, row * a->hidden + i), dtype, chunk, (size_t)n);
    }
  }
}

yk_status yk_cpu_embed(yk_device *dev, const yk_embed_args *args, yk_err *err)
{
  (void)err;
  embed_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, min_rows(args->hidden), embed_rows, &context);
  return YK_OK;
}

void yk_cpu_norm_row(const yk_cpu_device *cpu, void *y, const void *x, const void *w, int32_t n, float eps)
{
  yk_dtype dtype = cpu->base.dtype;
  const yk_cpu_simd *simd = cpu->simd;
  float chunk[CHUNK], weight[CHUNK];
  float squares = 0.0f;
  for (int32_t i = 0, m; i < n; i += m) {
    m = chunk_size(i, n);
    simd->to_f32(chunk, dtype, yk_cpu_at(dtype, x, i), (size_t)m);
    squares += simd->sum_squares(chunk, (size_t)m);
  }
  float factor = 1.0f / sqrtf(squares / (float)n + eps);
  for (int32_t i = 0, m; i < n; i += m) {
    m = chunk_size(i, n);
    simd->to_f32(chunk, dtype, yk_cpu_at(dtype, x, i), (size_t)m);
    for (int32_t j = 0; j < m; j++) chunk[j] *= factor;
    simd->from_f32(yk_cpu_at(dtype, y, i), dtype, chunk, (size_t)m);
    if (!w) continue;
    simd->to_f32(chunk, dtype, yk_cpu_at(dtype, y, i), (size_t)m);
    simd->to_f32(weight, dtype, yk_cpu_at(dtype, w, i), (size_t)m);
    for (int32_t j = 0; j < m; j++) chunk[j] *= weight[j];
    simd->from_f32(yk_cpu_at(dtype, y, i), dtype, chunk, (size_t)m);
  }
}

typedef struct norm_context {
  yk_cpu_device *cpu;
  const yk_rms_norm_args *args;
} norm_context;

static void norm_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const norm_context *c = context;
  const yk_rms_norm_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  for (int64_t row = begin; row < end; row++)
    yk_cpu_norm_row(c->cpu, yk_cpu_at(dtype, a->y, row * a->hidden), yk_cpu_at(dtype, a->x, row * a->x_stride), a->w,
                    a->hidden, a->eps);
}

yk_status yk_cpu_rms_norm(yk_device *dev, const yk_rms_norm_args *args, yk_err *err)
{
  (void)err;
  norm_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, args->n_rows, min_rows(args->hidden), norm_rows, &context);
  return YK_OK;
}

typedef struct add_norm_context {
  yk_cpu_device *cpu;
  const yk_add_norm_args *args;
} add_norm_context;

static void add_partials(const yk_cpu_device *cpu, const yk_add_norm_args *a, int64_t first)
{
  yk_dtype dtype = cpu->base.dtype;
  float sum[CHUNK], chunk[CHUNK];
  for (int32_t i = 0, n; i < a->hidden; i += n) {
    n = chunk_size(i, a->hidden);
    memset(sum, 0, sizeof sum);
    for (int32_t p = 0; p < a->n_partials; p++) {
      cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, a->partials[p], first + i), (size_t)n);
      for (int32_t j = 0; j < n; j++) sum[j] += chunk[j];
    }
    cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, a->residual, first + i), (size_t)n);
    for (int32_t j = 0; j < n; j++) chunk[j] += a->alpha * sum[j];
    if (a->gain != 0)
      for (int32_t j = 0; j < n; j++) chunk[j] *= a->gain;
    cpu->simd->from_f32(yk_cpu_at(dtype, a->residual, first + i), dtype, chunk, (size_t)n);
  }
}

/* to: act [hidden], the sum of the partials, normalised; then residual += alpha * to. */
static void add_normed_sum(const yk_cpu_device *cpu, const yk_add_norm_args *a, int64_t first, void *to)
{
  yk_add_norm_args sum = *a;
  yk_dtype dtype = cpu->base.dtype;
  sum.residual = a->y;
  sum.alpha = 1;
  sum.gain = 0;
  memset(to, 0, (size_t)a->hidden * yk_dtype_bytes(dtype));
  add_partials(cpu, &sum, first);
  yk_cpu_norm_row(cpu, to, to, a->result_w, a->hidden, a->eps);
  sum = *a;
  sum.partials[0] = a->y;
  sum.n_partials = 1;
  add_partials(cpu, &sum, first);
}

static void add_norm_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const add_norm_context *c = context;
  const yk_add_norm_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  for (int64_t row = begin; row < end; row++) {
    int64_t first = row * a->hidden;
    if (a->result_w)
      add_normed_sum(c->cpu, a, first, yk_cpu_at(dtype, a->y, first));
    else
      add_partials(c->cpu, a, first);
    if (a->w)
      yk_cpu_norm_row(c->cpu, yk_cpu_at(dtype, a->y, first), yk_cpu_at(dtype, a->residual, first), a->w, a->hidden,
                      a->eps);
  }
}

yk_status yk_cpu_add_norm(yk_device *dev, const yk_add_norm_args *args, yk_err *err)
{
  if (args->combine) YK_TRY(yk_cpu_combine(dev, args->combine, err));
  (void)err;
  add_norm_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, args->n_rows, min_rows((int64_t)args->hidden * (2 + args->n_partials)),
                  add_norm_rows, &context);
  return YK_OK;
}

typedef struct rope_context {
  yk_cpu_device *cpu;
  const yk_qk_rope_kv_args *args;
  yk_cpu_kv_side keys, values;
} rope_context;

void yk_cpu_rotate(float *head, const float *rope, int32_t head_dim)
{
  int32_t half = head_dim / 2;
  const float *cosines = rope, *sines = rope + half;
  float *low = head, *high = head + half;
  for (int32_t i = 0; i < half; i++) {
    float a = low[i], b = high[i];
    low[i] = a * cosines[i] - b * sines[i];
    high[i] = b * cosines[i] + a * sines[i];
  }
}

/* One head of q or k in place: RMSNorm if norm_w is not NULL, and the rotation of its halves by the row's angles, if
 * rope is not NULL. */
static void norm_and_rotate(const yk_cpu_device *cpu, const yk_qk_rope_kv_args *a, void *head, const void *norm_w,
                            const float *rope, float *f32)
{
  const int32_t head_dim = a->heads.head_dim;
  yk_dtype dtype = cpu->base.dtype;
  if (norm_w && !a->norms_follow) yk_cpu_norm_row(cpu, head, head, norm_w, head_dim, a->norm_eps);
  if (rope) {
    cpu->simd->to_f32(f32, dtype, head, (size_t)head_dim);
    yk_cpu_rotate(f32, rope, head_dim);
    cpu->simd->from_f32(head, dtype, f32, (size_t)head_dim);
  }
  if (norm_w && a->norms_follow) yk_cpu_norm_row(cpu, head, head, norm_w, head_dim, a->norm_eps);
}

/* Stores the values of a row in the cache. Call it before the keys are normalised and rotated: without columns of
 * values, the projected keys are the values. */
static void store_values(const rope_context *c, int64_t row, float *f32)
{
  const yk_qk_rope_kv_args *a = c->args;
  const yk_dtype dtype = c->cpu->base.dtype;
  const yk_head_layout *heads = &a->heads;
  const int32_t head_dim = heads->head_dim;
  const int64_t before = heads->n_q_heads + (heads->kv_columns == YK_KV_COLUMNS_BOTH ? heads->n_kv_heads : 0);
  float normed[YK_CPU_MAX_HEAD_DIM]; /* act */
  for (int32_t h = 0; h < heads->n_kv_heads; h++) {
    const void *v = yk_cpu_at(dtype, a->qkv, row * yk_head_layout_width(heads) + (before + h) * head_dim);
    if (a->norms_values) yk_cpu_norm_row(c->cpu, normed, v, NULL, head_dim, a->norm_eps);
    yk_cpu_kv_store(c->cpu, &c->values, a->batch->kv_slots[row], h, a->norms_values ? normed : v, f32);
  }
}

static void rope_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const rope_context *c = context;
  const yk_qk_rope_kv_args *a = c->args;
  yk_dtype dtype = c->cpu->base.dtype;
  const yk_head_layout *heads = &a->heads;
  const int32_t n_q = heads->n_q_heads, head_dim = heads->head_dim;
  const int32_t n_kv = heads->kv_columns == YK_KV_COLUMNS_NONE ? 0 : heads->n_kv_heads;
  float *f32 = c->cpu->scratch[thread].keys;
  for (int64_t row = begin; row < end; row++) {
    int64_t first = row * yk_head_layout_width(heads);
    const float *rope = a->rope ? a->rope + (int64_t)a->batch->positions[row] * head_dim : NULL;
    if (n_kv > 0) store_values(c, row, f32);
    for (int32_t h = 0; h < n_q + n_kv; h++)
      norm_and_rotate(c->cpu, a, yk_cpu_at(dtype, a->qkv, first + (int64_t)h * head_dim),
                      h < n_q ? a->q_norm_w : a->k_norm_w, rope, f32);
    for (int32_t h = 0; h < n_kv; h++)
      yk_cpu_kv_store(c->cpu, &c->keys, a->batch->kv_slots[row], h,
                      yk_cpu_at(dtype, a->qkv, first + (int64_t)(n_q + h) * head_dim), f32);
  }
}

yk_status yk_cpu_qk_rope_kv(yk_device *dev, const yk_qk_rope_kv_args *args, yk_err *err)
{
  const yk_head_layout *heads = &args->heads;
  if (heads->head_dim > YK_CPU_MAX_HEAD_DIM)
    return yk_err_set(err, YK_E_UNSUPPORTED, "cpu device: head_dim: expected at most %d, found %d", YK_CPU_MAX_HEAD_DIM,
                      heads->head_dim);
  rope_context context = {yk_cpu_device_of(dev), args, yk_cpu_kv_keys(&args->kv, heads, dev->dtype),
                          yk_cpu_kv_values(&args->kv, heads, dev->dtype)};
  const int64_t elements = yk_head_layout_width(heads);
  yk_cpu_pool_run(context.cpu->pool, args->batch->n_tokens, min_rows(elements), rope_rows, &context);
  return YK_OK;
}

typedef struct gather_context {
  size_t row_bytes;
  const yk_gather_rows_args *args;
} gather_context;

static void gather_range(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const gather_context *c = context;
  for (int64_t i = begin; i < end; i++)
    memcpy((char *)c->args->y + (size_t)i * c->row_bytes,
           (const char *)c->args->x + (size_t)c->args->rows[i] * c->row_bytes, c->row_bytes);
}

yk_status yk_cpu_gather_rows(yk_device *dev, const yk_gather_rows_args *args, yk_err *err)
{
  (void)err;
  gather_context context = {(size_t)args->hidden * yk_dtype_bytes(dev->dtype), args};
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->n_rows, min_rows(args->hidden), gather_range, &context);
  return YK_OK;
}

yk_status yk_cpu_round_sums(yk_device *dev, const yk_round_sums_args *args, yk_err *err)
{
  (void)err;
  yk_cpu_device_of(dev)->simd->from_f32(args->y, dev->dtype, args->sums, (size_t)args->count);
  return YK_OK;
}

/* An infinite logit stays infinite, so that sampling reports the row as failed. */
static void cap_columns(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const yk_cap_logits_args *a = context;
  for (int32_t row = 0; row < a->n_rows; row++) {
    float *logits = a->logits + row * a->stride;
    for (int64_t i = begin; i < end; i++)
      if (!isinf(logits[i])) logits[i] = a->cap * tanhf(logits[i] / a->cap);
  }
}

yk_status yk_cpu_cap_logits(yk_device *dev, const yk_cap_logits_args *args, yk_err *err)
{
  enum { MIN_COLUMNS = 512 };
  yk_cap_logits_args a = *args;
  (void)err;
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->n, MIN_COLUMNS, cap_columns, &a);
  return YK_OK;
}
