/* cpu_gated_delta.c - gated delta nets, token by token: see gated_delta.h.
 *
 * One item of work is one value head of one sequence, over all its rows: each value head computes q and k of its key
 * head, which costs little compared with the update of its state. The inputs of the convolution are stored when all
 * heads have read them. No result depends on the number of rows or threads, or on other sequences. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_states.h"

enum { WINDOW = YK_DELTA_TAPS - 1, MAX_DIM = YK_DELTA_MAX_HEAD_DIM };

static const float norm_floor = 1e-6f; /* added to the squared lengths of q and k */

typedef struct delta_context {
  yk_cpu_device *cpu;
  const yk_gated_delta_args *args;
} delta_context;

/* ---- States ------------------------------------------------------------------------------------------------------ */

static int64_t matrix_floats(const yk_delta_layout *layout)
{
  return (int64_t)layout->key_dim * layout->value_dim;
}

static yk_cpu_states states_of(const yk_gated_delta_args *a)
{
  return (yk_cpu_states){a->states, a->snapshots, yk_delta_state_floats(&a->layout), a->batch};
}

/* Offset of the inputs of the convolution in a state. */
static int64_t window_offset(const yk_delta_layout *layout)
{
  return yk_delta_n_value_heads(layout) * matrix_floats(layout);
}

/* ---- One head ---------------------------------------------------------------------------------------------------- */

/* Neighbouring channels of the convolution that a head reads: its q, its k or its v. */
typedef struct channels {
  int64_t column; /* of x */
  int64_t first;  /* channel */
  int32_t n;
  float inputs[YK_DELTA_TAPS][MAX_DIM]; /* the last ones, oldest first */
} channels;

typedef struct head {
  channels q, k, v;
  int64_t z, b, a; /* columns of x */
  int32_t index;   /* value head */
  float *s;        /* [key_dim, value_dim] */
} head;

static void begin_channels(const delta_context *c, int32_t seq, int64_t column, int64_t first, int32_t n, channels *out)
{
  const yk_delta_layout *layout = &c->args->layout;
  const yk_cpu_states states = states_of(c->args);
  const float *before = yk_cpu_state_before(&states, seq);
  *out = (channels){.column = column, .first = first, .n = n};
  if (!before) return;
  const float *window = before + window_offset(layout);
  for (int t = 0; t < WINDOW; t++)
    memcpy(out->inputs[t + 1], window + t * yk_delta_channels(layout) + first, (size_t)n * sizeof(float));
}

/* to = silu(convolution) of a row's channels. */
static void convolve(const delta_context *c, int64_t row, channels *ch, float *to)
{
  const yk_gated_delta_args *a = c->args;
  const yk_activation silu = {.kind = YK_ACTIVATION_SILU};
  const float *w = a->conv_w + ch->first;
  const int64_t n_channels = yk_delta_channels(&a->layout);
  const yk_dtype dtype = c->cpu->base.dtype;
  memmove(ch->inputs[0], ch->inputs[1], WINDOW * sizeof ch->inputs[0]);
  c->cpu->simd->to_f32(ch->inputs[WINDOW], dtype, yk_cpu_at(dtype, a->x, row * a->layout.x_stride + ch->column),
                       (size_t)ch->n);
  for (int32_t i = 0; i < ch->n; i++) to[i] = w[i] * ch->inputs[0][i];
  for (int t = 1; t < YK_DELTA_TAPS; t++)
    for (int32_t i = 0; i < ch->n; i++) to[i] += w[t * n_channels + i] * ch->inputs[t][i];
  c->cpu->simd->activate(&silu, to, NULL, (size_t)ch->n);
}

static void normalise(const yk_cpu_simd *simd, float *x, int32_t n, float scale)
{
  float factor = scale / sqrtf(simd->sum_squares(x, (size_t)n) + norm_floor);
  for (int32_t i = 0; i < n; i++) x[i] *= factor;
}

static float element(const delta_context *c, int64_t row, int64_t column)
{
  return yk_dtype_load(c->cpu->base.dtype, c->args->x, (size_t)(row * c->args->layout.x_stride + column));
}

/* The factor by which the state decays. softplus(x) is x for large x, where exp(x) would overflow. */
static float decay_of(const delta_context *c, int64_t row, const head *h)
{
  float x = element(c, row, h->a) + c->args->dt_bias[h->index];
  float softplus = x > 20.0f ? x : log1pf(expf(x));
  return expf(-c->args->rate[h->index] * softplus);
}

/* y = norm_w * rms_norm(o) * silu(z); o is overwritten. */
static void store_gated(const delta_context *c, int64_t row, const head *h, float *o)
{
  const yk_gated_delta_args *a = c->args;
  const yk_activation silu = {.kind = YK_ACTIVATION_SILU, .is_gated = true};
  const yk_cpu_simd *simd = c->cpu->simd;
  const yk_dtype dtype = c->cpu->base.dtype;
  const int32_t n = a->layout.value_dim;
  float z[MAX_DIM], factor = 1.0f / sqrtf(simd->sum_squares(o, (size_t)n) / (float)n + a->norm_eps);
  for (int32_t i = 0; i < n; i++) o[i] *= factor * a->norm_w[i];
  simd->to_f32(z, dtype, yk_cpu_at(dtype, a->x, row * a->layout.x_stride + h->z), (size_t)n);
  simd->activate(&silu, z, o, (size_t)n);
  int64_t at = (row * yk_delta_n_value_heads(&a->layout) + h->index) * n;
  simd->from_f32(yk_cpu_at(dtype, a->y, at), dtype, z, (size_t)n);
}

static void advance(const delta_context *c, int64_t row, head *h)
{
  const yk_delta_layout *layout = &c->args->layout;
  const yk_cpu_simd *simd = c->cpu->simd;
  const int32_t n_k = layout->key_dim;
  const size_t n_v = (size_t)layout->value_dim;
  float q[MAX_DIM], k[MAX_DIM], v[MAX_DIM], read[MAX_DIM] = {0}, o[MAX_DIM] = {0};
  convolve(c, row, &h->q, q);
  convolve(c, row, &h->k, k);
  convolve(c, row, &h->v, v);
  normalise(simd, q, n_k, 1.0f / sqrtf((float)n_k));
  normalise(simd, k, n_k, 1.0f);
  const float beta = 1.0f / (1.0f + expf(-element(c, row, h->b))), decay = decay_of(c, row, h);
  simd->weighted_sum(read, 0.0f, k, h->s, n_k, n_v);
  for (size_t i = 0; i < n_v; i++) v[i] = beta * (v[i] - decay * read[i]);
  for (int32_t i = 0; i < n_k; i++) simd->weighted_sum(h->s + (size_t)i * n_v, decay, &k[i], v, 1, n_v);
  simd->weighted_sum(o, 0.0f, q, h->s, n_k, n_v);
  store_gated(c, row, h, o);
}

static void run_head(const delta_context *c, int32_t seq, int32_t index)
{
  const yk_gated_delta_args *a = c->args;
  const yk_delta_layout *layout = &a->layout;
  const int32_t key = index / layout->values_per_key, j = index % layout->values_per_key;
  const int32_t n_k = layout->key_dim, n_v = layout->value_dim;
  const int64_t first_v = 2 * (int64_t)layout->n_key_heads * n_k, s_at = index * matrix_floats(layout);
  const yk_cpu_states states = states_of(a);
  const yk_cpu_save save = yk_cpu_save_of(&states, seq);
  head h = {.z = layout->z + key * layout->z_step + j * n_v,
            .b = layout->b + key * layout->ba_step + j,
            .a = layout->a + key * layout->ba_step + j,
            .index = index,
            .s = yk_cpu_state_begin(&states, seq, s_at, matrix_floats(layout))};
  begin_channels(c, seq, layout->q + key * layout->qk_step, (int64_t)key * n_k, n_k, &h.q);
  begin_channels(c, seq, layout->k + key * layout->qk_step, ((int64_t)layout->n_key_heads + key) * n_k, n_k, &h.k);
  begin_channels(c, seq, layout->v + key * layout->v_step + j * n_v, first_v + (int64_t)index * n_v, n_v, &h.v);
  for (int64_t row = a->batch->row_starts[seq]; row < a->batch->row_starts[seq + 1]; row++) {
    advance(c, row, &h);
    yk_cpu_state_save(&save, row, s_at, matrix_floats(layout), h.s);
  }
}

/* Thread t takes every n_threads-th item: sequences differ in their rows, so ranges would not balance. */
static void run_share(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const delta_context *c = context;
  const yk_batch *batch = c->args->batch;
  const int32_t n_heads = yk_delta_n_value_heads(&c->args->layout);
  for (int64_t share = begin; share < end; share++)
    for (int64_t item = share; item < (int64_t)batch->n_seqs * n_heads; item += c->cpu->n_threads)
      if (batch->seq_slots[item / n_heads] >= 0) run_head(c, (int32_t)(item / n_heads), (int32_t)(item % n_heads));
}

/* ---- The inputs of the convolution ------------------------------------------------------------------------------- */

/* A row's inputs of all channels. */
static void gather_channels(const void *context, int64_t row, float *to)
{
  const delta_context *c = context;
  const yk_gated_delta_args *a = c->args;
  const yk_delta_layout *layout = &a->layout;
  const yk_dtype dtype = c->cpu->base.dtype;
  const struct {
    int64_t column, step;
    int32_t n;
  } kinds[] = {{layout->q, layout->qk_step, layout->key_dim},
               {layout->k, layout->qk_step, layout->key_dim},
               {layout->v, layout->v_step, layout->values_per_key * layout->value_dim}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int32_t key = 0; key < layout->n_key_heads; key++, to += kinds[i].n)
      c->cpu->simd->to_f32(to, dtype,
                           yk_cpu_at(dtype, a->x, row * layout->x_stride + kinds[i].column + key * kinds[i].step),
                           (size_t)kinds[i].n);
}

static void store_windows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const delta_context *c = context;
  const yk_gated_delta_args *a = c->args;
  const yk_cpu_window window = {.states = states_of(a),
                                .offset = window_offset(&a->layout),
                                .n_channels = yk_delta_channels(&a->layout),
                                .n_inputs = WINDOW,
                                .gather = gather_channels,
                                .user = c};
  for (int64_t seq = begin; seq < end; seq++)
    if (a->batch->seq_slots[seq] >= 0) yk_cpu_window_store(&window, (int32_t)seq);
}

static bool is_head_dim(int32_t n)
{
  return n > 0 && n % YK_DELTA_HEAD_UNIT == 0 && n <= MAX_DIM;
}

yk_status yk_cpu_gated_delta(yk_device *dev, const yk_gated_delta_args *args, yk_err *err)
{
  const yk_delta_layout *layout = &args->layout;
  if (!is_head_dim(layout->key_dim) || !is_head_dim(layout->value_dim))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "cpu device: gated delta: expected heads of a multiple of %d elements up to %d, found %d and %d",
                      YK_DELTA_HEAD_UNIT, MAX_DIM, layout->key_dim, layout->value_dim);
  delta_context context = {yk_cpu_device_of(dev), args};
  yk_cpu_pool_run(context.cpu->pool, context.cpu->n_threads, 1, run_share, &context);
  yk_cpu_pool_run(context.cpu->pool, args->batch->n_seqs, 1, store_windows, &context);
  return YK_OK;
}
