/* cpu_mamba.c - Mamba2, token by token: see mamba.h.
 *
 * Four passes, whose items are independent: the convolution, by row and block of channels; the heads, by sequence and
 * head, each over all rows of the sequence; gate and norm, by row and group; the new window of the convolution, by
 * sequence. No result depends on the number of rows or threads, or on other sequences. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_states.h"

enum { WINDOW = YK_MAMBA_TAPS - 1, BLOCK_CHANNELS = 512 };

typedef struct mamba_context {
  yk_cpu_device *cpu;
  const yk_mamba_args *args;
} mamba_context;

static yk_cpu_states states_of(const yk_mamba_args *a)
{
  return (yk_cpu_states){a->states, a->snapshots, yk_mamba_state_floats(&a->layout), a->batch};
}

static int64_t matrices_floats(const yk_mamba_layout *layout)
{
  return yk_mamba_width(layout) * layout->state_size;
}

static bool is_padding(const yk_mamba_args *a, int64_t seq)
{
  return a->batch->seq_slots[seq] < 0;
}

/* ---- The convolution --------------------------------------------------------------------------------------------- */

/* Inputs of a row's neighbouring channels. */
static void load_inputs(const mamba_context *c, int64_t row, int64_t channel, int64_t n, float *to)
{
  const yk_mamba_args *a = c->args;
  const yk_dtype dtype = c->cpu->base.dtype;
  const int64_t column = yk_mamba_width(&a->layout) + channel;
  c->cpu->simd->to_f32(to, dtype, yk_cpu_at(dtype, a->x, row * yk_mamba_x_stride(&a->layout) + column), (size_t)n);
}

/* Inputs of neighbouring channels, `ago` rows before a row of a sequence. Inputs before the sequence's first row of the
 * step are in the state that the sequence begins with. */
static void load_earlier(const mamba_context *c, int32_t seq, int64_t row, int ago, int64_t channel, int64_t n,
                         float *to)
{
  const yk_mamba_args *a = c->args;
  const int64_t first = a->batch->row_starts[seq];
  const yk_cpu_states states = states_of(a);
  if (row - ago >= first) {
    load_inputs(c, row - ago, channel, n, to);
    return;
  }
  const float *before = yk_cpu_state_before(&states, seq);
  const float *window = before ? before + matrices_floats(&a->layout) : NULL;
  const int64_t place = row - ago - first + WINDOW;
  if (window)
    memcpy(to, window + place * yk_mamba_channels(&a->layout) + channel, (size_t)n * sizeof *to);
  else
    memset(to, 0, (size_t)n * sizeof *to);
}

/* Results of n neighbouring channels of a row; n is at most BLOCK_CHANNELS. */
static void convolve(const mamba_context *c, int64_t row, int64_t channel, int64_t n)
{
  const yk_mamba_args *a = c->args;
  const yk_activation silu = {.kind = YK_ACTIVATION_SILU};
  const int64_t n_channels = yk_mamba_channels(&a->layout);
  float inputs[BLOCK_CHANNELS], *to = a->scratch + row * yk_mamba_scratch_floats(&a->layout) + channel;
  for (int64_t i = 0; i < n; i++) to[i] = a->conv_bias ? a->conv_bias[channel + i] : 0.0f;
  for (int t = 0; t < YK_MAMBA_TAPS; t++) {
    const float *w = a->conv_w + t * n_channels + channel;
    load_earlier(c, a->batch->seq_of_row[row], row, WINDOW - t, channel, n, inputs);
    for (int64_t i = 0; i < n; i++) to[i] += w[i] * inputs[i];
  }
  c->cpu->simd->activate(&silu, to, NULL, (size_t)n);
}

static int64_t n_blocks(const yk_mamba_layout *layout)
{
  return (yk_mamba_channels(layout) + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS;
}

static void convolve_items(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const mamba_context *c = context;
  const int64_t blocks = n_blocks(&c->args->layout), n_channels = yk_mamba_channels(&c->args->layout);
  for (int64_t item = begin; item < end; item++) {
    const int64_t row = item / blocks, channel = item % blocks * BLOCK_CHANNELS;
    if (!is_padding(c->args, c->args->batch->seq_of_row[row]))
      convolve(c, row, channel, yk_min_i64(BLOCK_CHANNELS, n_channels - channel));
  }
}

/* ---- The heads --------------------------------------------------------------------------------------------------- */

/* The step of a row's head. Above 20 softplus(x) is x, as in PyTorch, since exp(x) could overflow. */
static float step_of(const mamba_context *c, int64_t row, int32_t head)
{
  const yk_mamba_args *a = c->args;
  const int64_t stride = yk_mamba_x_stride(&a->layout), column = stride - yk_mamba_n_heads(&a->layout) + head;
  const float x = yk_dtype_load(c->cpu->base.dtype, a->x, (size_t)(row * stride + column)) + a->dt_bias[head];
  const float softplus = x > 20.0f ? x : log1pf(expf(x));
  if (softplus < a->min_step) return a->min_step;
  return softplus > a->max_step ? a->max_step : softplus; /* a NaN stays a NaN */
}

/* One row of a head. s: the head's state [head_dim, state_size], updated in place. */
static void advance(const mamba_context *c, int64_t row, int32_t head, float *s)
{
  const yk_mamba_args *a = c->args;
  const yk_mamba_layout *layout = &a->layout;
  const yk_cpu_simd *simd = c->cpu->simd;
  const size_t n = (size_t)layout->state_size;
  const int64_t width = yk_mamba_width(layout), n_dims = layout->head_dim;
  const float *results = a->scratch + row * yk_mamba_scratch_floats(layout);
  const float *x = results + head * n_dims, *b = results + width + head / layout->heads_per_group * (int64_t)n;
  const float *of_c = b + layout->n_groups * (int64_t)n;
  float *y = a->scratch + row * yk_mamba_scratch_floats(layout) + yk_mamba_channels(layout) + head * n_dims;
  const float step = step_of(c, row, head), decay = expf(-a->rate[head] * step);
  for (int64_t i = 0; i < n_dims; i++) {
    const float weight = step * x[i];
    simd->weighted_sum(s + i * (int64_t)n, decay, &weight, b, 1, n);
  }
  simd->dot_rows(y, of_c, s, (int)n_dims, n);
  for (int64_t i = 0; i < n_dims; i++) y[i] += a->skip[head] * x[i];
}

static void run_head(const mamba_context *c, int32_t seq, int32_t head)
{
  const yk_mamba_args *a = c->args;
  const yk_cpu_states states = states_of(a);
  const yk_cpu_save save = yk_cpu_save_of(&states, seq);
  const int64_t n = (int64_t)a->layout.head_dim * a->layout.state_size, at = head * n;
  float *s = yk_cpu_state_begin(&states, seq, at, n);
  for (int64_t row = a->batch->row_starts[seq]; row < a->batch->row_starts[seq + 1]; row++) {
    advance(c, row, head, s);
    yk_cpu_state_save(&save, row, at, n, s);
  }
}

/* Thread t takes the items t, t + n_threads and so on: sequences differ in their number of rows, so contiguous ranges
 * of items would not balance. */
static void run_share(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const mamba_context *c = context;
  const int32_t n_heads = yk_mamba_n_heads(&c->args->layout);
  for (int64_t share = begin; share < end; share++)
    for (int64_t item = share; item < (int64_t)c->args->batch->n_seqs * n_heads; item += c->cpu->n_threads)
      if (!is_padding(c->args, item / n_heads)) run_head(c, (int32_t)(item / n_heads), (int32_t)(item % n_heads));
}

/* ---- Gate, norm and the inputs of the convolution ---------------------------------------------------------------- */

static void store_group(const mamba_context *c, int64_t row, int32_t group)
{
  const yk_mamba_args *a = c->args;
  const yk_activation silu = {.kind = YK_ACTIVATION_SILU, .is_gated = true};
  const yk_cpu_simd *simd = c->cpu->simd;
  const yk_dtype dtype = c->cpu->base.dtype;
  const int64_t n = (int64_t)a->layout.heads_per_group * a->layout.head_dim, first = group * n;
  float *results = a->scratch + row * yk_mamba_scratch_floats(&a->layout);
  float *gated = results + first; /* overwrites the group's x, which only the heads read */
  simd->to_f32(gated, dtype, yk_cpu_at(dtype, a->x, row * yk_mamba_x_stride(&a->layout) + first), (size_t)n);
  simd->activate(&silu, gated, results + yk_mamba_channels(&a->layout) + first, (size_t)n);
  const float factor = 1.0f / sqrtf(simd->sum_squares(gated, (size_t)n) / (float)n + a->norm_eps);
  for (int64_t i = 0; i < n; i++) gated[i] *= factor * a->norm_w[first + i];
  simd->from_f32(yk_cpu_at(dtype, a->y, row * yk_mamba_width(&a->layout) + first), dtype, gated, (size_t)n);
}

static void store_groups(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const mamba_context *c = context;
  const int32_t n_groups = c->args->layout.n_groups;
  for (int64_t item = begin; item < end; item++)
    if (!is_padding(c->args, c->args->batch->seq_of_row[item / n_groups]))
      store_group(c, item / n_groups, (int32_t)(item % n_groups));
}

static void gather(const void *context, int64_t row, float *to)
{
  const mamba_context *c = context;
  load_inputs(c, row, 0, yk_mamba_channels(&c->args->layout), to);
}

static void store_windows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const mamba_context *c = context;
  const yk_mamba_args *a = c->args;
  const yk_cpu_window window = {.states = states_of(a),
                                .offset = matrices_floats(&a->layout),
                                .n_channels = yk_mamba_channels(&a->layout),
                                .n_inputs = WINDOW,
                                .gather = gather,
                                .user = c};
  for (int64_t seq = begin; seq < end; seq++)
    if (!is_padding(a, seq)) yk_cpu_window_store(&window, (int32_t)seq);
}

yk_status yk_cpu_mamba(yk_device *dev, const yk_mamba_args *args, yk_err *err)
{
  const yk_mamba_layout *layout = &args->layout;
  if (layout->head_dim % YK_MAMBA_UNIT != 0 || layout->state_size % YK_MAMBA_UNIT != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "cpu device: mamba: expected heads and states of multiples of %d elements, found %d and %d",
                      YK_MAMBA_UNIT, layout->head_dim, layout->state_size);
  mamba_context c = {yk_cpu_device_of(dev), args};
  yk_cpu_pool *pool = c.cpu->pool;
  const int64_t n_rows = args->batch->n_tokens;
  yk_cpu_pool_run(pool, n_rows * n_blocks(layout), 1, convolve_items, &c);
  yk_cpu_pool_run(pool, c.cpu->n_threads, 1, run_share, &c);
  yk_cpu_pool_run(pool, n_rows * layout->n_groups, 1, store_groups, &c);
  yk_cpu_pool_run(pool, args->batch->n_seqs, 1, store_windows, &c);
  return YK_OK;
}
