/* op_cases_mamba.h - cases of Mamba2 (kernels/mamba.h), for every device, against float64. */
#ifndef YK_TESTS_OP_CASES_MAMBA_H
#define YK_TESTS_OP_CASES_MAMBA_H

#include "op/op_harness.h"

enum { MAMBA_MAX_SEQS = 6, MAMBA_SLOTS = 8, MAMBA_ENTRIES = 4 };

typedef struct mamba_seq {
  int32_t rows, load, save, save_rows;
  int32_t earlier; /* rows before the step */
} mamba_seq;

typedef struct mamba_shape {
  yk_mamba_layout layout;
  bool has_bias;
  int32_t n_seqs;
  mamba_seq seqs[MAMBA_MAX_SEQS];
} mamba_shape;

/* Errors of the reference, which a test must see. */
typedef enum mamba_fault {
  MAMBA_RIGHT,
  MAMBA_NO_DECAY,
  MAMBA_NO_SKIP,
  MAMBA_NO_LIMIT,     /* of the steps */
  MAMBA_SHORT_WINDOW, /* the oldest input of the convolution counts as 0 */
  MAMBA_WRONG_GROUP,  /* every head reads group 0 */
  MAMBA_NORM_FIRST,   /* the norm precedes the gate */
  MAMBA_ONE_NORM,     /* over all groups */
  MAMBA_N_FAULTS
} mamba_fault;

typedef struct mamba_scene {
  const mamba_shape *shape;
  yk_mamba_layout layout;
  float min_step, max_step;
  int32_t row_starts[MAMBA_MAX_SEQS + 1], slots[MAMBA_MAX_SEQS];
  op_array x, conv_w, conv_bias, rate, dt_bias, skip, norm_w, states;
  float *snapshots; /* of the device */
  double *kept;     /* the same values: [MAMBA_ENTRIES, state] */
  double *y;        /* expected; so are states.values and kept once the reference has run */
} mamba_scene;

static inline size_t mamba_y_size(const mamba_scene *s)
{
  return (size_t)(s->row_starts[s->shape->n_seqs] * yk_mamba_width(&s->layout));
}

static inline op_array mamba_around(yk_device *dev, int64_t n, double mean, double sigma, op_random *random)
{
  op_array array = op_array_new(dev, YK_F32, (size_t)n);
  for (size_t i = 0; i < array.n; i++) array.values[i] = mean + sigma * op_normal(random);
  op_array_send(dev, &array);
  return array;
}

static inline void mamba_snapshots_new(yk_device *dev, op_random *random, mamba_scene *s)
{
  const size_t n = MAMBA_ENTRIES * (size_t)yk_mamba_state_floats(&s->layout);
  void *snapshots = NULL;
  op_ok(dev->ops->host_alloc(dev, n * sizeof(float), &snapshots, &err));
  s->snapshots = snapshots;
  s->kept = calloc(n, sizeof *s->kept);
  for (size_t i = 0; i < n; i++) {
    s->snapshots[i] = (float)(0.4 * op_normal(random));
    s->kept[i] = (double)s->snapshots[i];
  }
}

static inline mamba_scene mamba_scene_new(yk_device *dev, const mamba_shape *shape, uint32_t seed)
{
  op_random random = {.seed = seed};
  mamba_scene s = {.shape = shape, .layout = shape->layout, .min_step = 0.05f, .max_step = 1.5f};
  const int64_t n_channels = yk_mamba_channels(&s.layout), n_heads = yk_mamba_n_heads(&s.layout);
  for (int32_t i = 0; i < shape->n_seqs; i++) {
    s.row_starts[i + 1] = s.row_starts[i] + shape->seqs[i].rows;
    s.slots[i] = (3 * i + 1) % MAMBA_SLOTS;
  }
  const int64_t n_x = s.row_starts[shape->n_seqs] * yk_mamba_x_stride(&s.layout);
  s.x = op_array_random(dev, dev->dtype, (size_t)n_x, 1.0, &random);
  s.conv_w = mamba_around(dev, YK_MAMBA_TAPS * n_channels, 0.0, 0.5, &random);
  s.conv_bias = mamba_around(dev, n_channels, 0.0, shape->has_bias ? 0.5 : 0.0, &random);
  s.rate = mamba_around(dev, n_heads, 1.0, 0.2, &random);
  s.dt_bias = mamba_around(dev, n_heads, -1.0, 1.0, &random);
  s.skip = mamba_around(dev, n_heads, 1.0, 0.3, &random);
  s.norm_w = mamba_around(dev, yk_mamba_width(&s.layout), 1.0, 0.2, &random);
  s.states = mamba_around(dev, MAMBA_SLOTS * yk_mamba_state_floats(&s.layout), 0.0, 0.4, &random);
  mamba_snapshots_new(dev, &random, &s);
  s.y = calloc(mamba_y_size(&s) + 1, sizeof *s.y);
  return s;
}

static inline void mamba_scene_free(yk_device *dev, mamba_scene *s)
{
  op_array *const arrays[] = {&s->x,       &s->conv_w, &s->conv_bias, &s->rate,
                              &s->dt_bias, &s->skip,   &s->norm_w,    &s->states};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) op_array_free(dev, arrays[i]);
  dev->ops->host_free(dev, s->snapshots);
  free(s->kept);
  free(s->y);
}

/* ---- The reference ----------------------------------------------------------------------------------------------- */

static inline double mamba_silu(double x)
{
  return x / (1.0 + exp(-x));
}

/* Input of a channel, `back` rows before a row of a sequence. before: the state that the sequence begins with. */
static inline double mamba_input(const mamba_scene *s, const double *before, int32_t seq, int64_t row, int back,
                                 int64_t channel)
{
  const yk_mamba_layout *l = &s->layout;
  const int64_t from = row - back, width = yk_mamba_width(l);
  const int64_t missing = s->row_starts[seq] - from; /* rows before the step: 1 is the newest of the state */
  if (missing <= 0) return s->x.values[from * yk_mamba_x_stride(l) + width + channel];
  return before[width * l->state_size + (YK_MAMBA_TAPS - 1 - missing) * yk_mamba_channels(l) + channel];
}

/* to [channels]: results of the convolution of a row. */
static inline void mamba_convolve(const mamba_scene *s, const double *before, int32_t seq, int64_t row,
                                  mamba_fault fault, double *to)
{
  const int64_t n = yk_mamba_channels(&s->layout);
  for (int64_t channel = 0; channel < n; channel++) {
    double sum = s->conv_bias.values[channel];
    for (int back = 0; back < YK_MAMBA_TAPS - (fault == MAMBA_SHORT_WINDOW); back++)
      sum +=
          s->conv_w.values[(YK_MAMBA_TAPS - 1 - back) * n + channel] * mamba_input(s, before, seq, row, back, channel);
    to[channel] = mamba_silu(sum);
  }
}

static inline double mamba_step_of(const mamba_scene *s, int64_t row, int32_t head, mamba_fault fault)
{
  const int64_t dt_column = yk_mamba_x_stride(&s->layout) - yk_mamba_n_heads(&s->layout) + head;
  const double dt = s->x.values[row * yk_mamba_x_stride(&s->layout) + dt_column] + s->dt_bias.values[head];
  const double step = log1p(exp(dt));
  return fault == MAMBA_NO_LIMIT ? step : fmin(fmax(step, (double)s->min_step), (double)s->max_step);
}

/* xbc: the row's results of the convolution. state: the head's matrix, advanced in place. */
static inline void mamba_head(mamba_scene *s, const double *xbc, int64_t row, int32_t head, mamba_fault fault,
                              double *state)
{
  const yk_mamba_layout *l = &s->layout;
  const int32_t group = fault == MAMBA_WRONG_GROUP ? 0 : head / l->heads_per_group;
  const double *b = xbc + yk_mamba_width(l) + group * l->state_size, *c = b + l->n_groups * l->state_size;
  const double step = mamba_step_of(s, row, head, fault);
  const double decay = fault == MAMBA_NO_DECAY ? 1.0 : exp(-s->rate.values[head] * step);
  for (int32_t i = 0; i < l->head_dim; i++) {
    const double x = xbc[head * l->head_dim + i];
    double sum = fault == MAMBA_NO_SKIP ? 0.0 : s->skip.values[head] * x;
    for (int32_t j = 0; j < l->state_size; j++) {
      double *element = &state[i * l->state_size + j];
      *element = decay * *element + step * x * b[j];
      sum += *element * c[j];
    }
    s->y[row * yk_mamba_width(l) + head * l->head_dim + i] = sum;
  }
}

static inline void mamba_gate_and_norm(mamba_scene *s, int64_t row, mamba_fault fault)
{
  const yk_mamba_layout *l = &s->layout;
  const int64_t width = yk_mamba_width(l), size = fault == MAMBA_ONE_NORM ? width : width / l->n_groups;
  const double *z = s->x.values + row * yk_mamba_x_stride(l);
  double *y = s->y + row * width;
  for (int64_t first = 0; first < width; first += size) {
    double squares = 0.0;
    for (int64_t i = first; i < first + size; i++) {
      if (fault != MAMBA_NORM_FIRST) y[i] *= mamba_silu(z[i]);
      squares += y[i] * y[i];
    }
    for (int64_t i = first; i < first + size; i++) {
      y[i] *= s->norm_w.values[i] / sqrt(squares / (double)size + 1e-5);
      if (fault == MAMBA_NORM_FIRST) y[i] *= mamba_silu(z[i]);
    }
  }
}

/* The inputs of all channels before row `end`, to a state. */
static inline void mamba_window(const mamba_scene *s, const double *before, int32_t seq, int64_t end, double *state)
{
  const int64_t n = yk_mamba_channels(&s->layout), at = yk_mamba_width(&s->layout) * s->layout.state_size;
  for (int t = 0; t < YK_MAMBA_TAPS - 1; t++)
    for (int64_t channel = 0; channel < n; channel++)
      state[at + t * n + channel] = mamba_input(s, before, seq, end, YK_MAMBA_TAPS - 1 - t, channel);
}

static inline void mamba_reference_seq(mamba_scene *s, int32_t seq, mamba_fault fault)
{
  const yk_mamba_layout *l = &s->layout;
  const mamba_seq *of = &s->shape->seqs[seq];
  const size_t n_floats = (size_t)yk_mamba_state_floats(l), matrix = (size_t)(l->head_dim * l->state_size);
  double *after = s->states.values + (size_t)s->slots[seq] * n_floats, *before = calloc(n_floats, sizeof *before);
  double *xbc = calloc((size_t)yk_mamba_channels(l), sizeof *xbc);
  double *entry = of->save < 0 ? NULL : s->kept + (size_t)of->save * n_floats;
  if (of->load != YK_STATE_ZERO)
    memcpy(before, of->load == YK_STATE_KEEP ? after : s->kept + (size_t)of->load * n_floats,
           n_floats * sizeof *before);
  memcpy(after, before, n_floats * sizeof *before);
  for (int32_t i = 0; i < of->rows; i++) {
    const int64_t row = s->row_starts[seq] + i;
    mamba_convolve(s, before, seq, row, fault, xbc);
    for (int32_t head = 0; head < yk_mamba_n_heads(l); head++)
      mamba_head(s, xbc, row, head, fault, after + (size_t)head * matrix);
    mamba_gate_and_norm(s, row, fault);
    mamba_window(s, before, seq, row + 1, after);
    if (entry && i + 1 == of->save_rows) memcpy(entry, after, n_floats * sizeof *entry);
  }
  free(before);
  free(xbc);
}

/* Replaces states.values, kept and y by the results of the operation. */
static inline void mamba_reference(mamba_scene *s, mamba_fault fault)
{
  for (int32_t seq = 0; seq < s->shape->n_seqs; seq++) mamba_reference_seq(s, seq, fault);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* The device's arrays of a step. */
typedef struct mamba_step {
  int32_t *arrays[7]; /* row starts, slots, loads, saves, rows of saves, tokens, sequences of rows */
  float *scratch;
  yk_batch batch;
} mamba_step;

static inline mamba_step mamba_step_new(yk_device *dev, const mamba_scene *s)
{
  const int32_t n = s->shape->n_seqs;
  int32_t of[4][MAMBA_MAX_SEQS], most = 0;
  for (int32_t i = 0; i < n; i++) {
    const mamba_seq *seq = &s->shape->seqs[i];
    of[0][i] = seq->load, of[1][i] = seq->save, of[2][i] = seq->save_rows, of[3][i] = seq->earlier + seq->rows;
    if (seq->rows > most) most = seq->rows;
  }
  mamba_step step = {.arrays = {op_send_i32(dev, s->row_starts, (size_t)n + 1), op_send_i32(dev, s->slots, (size_t)n),
                                op_send_i32(dev, of[0], (size_t)n), op_send_i32(dev, of[1], (size_t)n),
                                op_send_i32(dev, of[2], (size_t)n), op_send_i32(dev, of[3], (size_t)n),
                                op_send_seq_of_row(dev, s->row_starts, n)}};
  const size_t n_floats = (size_t)(s->row_starts[n] * yk_mamba_scratch_floats(&s->layout));
  void *scratch = NULL;
  op_ok(dev->ops->alloc(dev, n_floats * sizeof(float), &scratch, &err));
  step.scratch = scratch;
  step.batch = (yk_batch){.n_tokens = s->row_starts[n],
                          .n_seqs = n,
                          .max_rows_per_seq = most,
                          .row_starts = step.arrays[0],
                          .seq_slots = step.arrays[1],
                          .state_loads = step.arrays[2],
                          .state_saves = step.arrays[3],
                          .state_save_rows = step.arrays[4],
                          .kv_tokens = step.arrays[5],
                          .seq_of_row = step.arrays[6]};
  return step;
}

static inline void mamba_step_free(yk_device *dev, mamba_step *step)
{
  for (size_t i = 0; i < sizeof step->arrays / sizeof *step->arrays; i++) dev->ops->free(dev, step->arrays[i]);
  dev->ops->free(dev, step->scratch);
}

static inline yk_mamba_args mamba_args(const mamba_scene *s, const mamba_step *step, void *y)
{
  return (yk_mamba_args){.y = y,
                         .x = s->x.dev,
                         .scratch = step->scratch,
                         .layout = s->layout,
                         .conv_w = s->conv_w.dev,
                         .conv_bias = s->shape->has_bias ? s->conv_bias.dev : NULL,
                         .rate = s->rate.dev,
                         .dt_bias = s->dt_bias.dev,
                         .skip = s->skip.dev,
                         .norm_w = s->norm_w.dev,
                         .min_step = s->min_step,
                         .max_step = s->max_step,
                         .norm_eps = 1e-5f,
                         .states = s->states.dev,
                         .snapshots = s->snapshots,
                         .batch = &step->batch};
}

typedef struct mamba_errors {
  double y, states, snapshots;
} mamba_errors;

/* Errors against the reference, of all states and snapshots, also of those that the step leaves alone. */
static inline mamba_errors mamba_errors_of(const op_target *target, yk_dtype dtype, const mamba_shape *shape,
                                           uint32_t seed, mamba_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  mamba_scene s = mamba_scene_new(dev, shape, seed);
  mamba_step step = mamba_step_new(dev, &s);
  op_array y = op_array_new(dev, dtype, mamba_y_size(&s));
  const yk_mamba_args args = mamba_args(&s, &step, y.dev);
  op_ok(dev->ops->mamba(dev, &args, &err));
  mamba_reference(&s, fault);
  op_array_fetch(dev, &y);
  double *expected = malloc((s.states.n + 1) * sizeof *expected);
  memcpy(expected, s.states.values, s.states.n * sizeof *expected);
  op_array_fetch(dev, &s.states);
  const size_t n_kept = MAMBA_ENTRIES * (size_t)yk_mamba_state_floats(&s.layout);
  double *snapshots = malloc((n_kept + 1) * sizeof *snapshots);
  for (size_t i = 0; i < n_kept; i++) snapshots[i] = (double)s.snapshots[i];
  const mamba_errors errors = {op_error(y.values, s.y, y.n), op_error(s.states.values, expected, s.states.n),
                               op_error(snapshots, s.kept, n_kept)};
  free(expected);
  free(snapshots);
  op_array_free(dev, &y);
  mamba_step_free(dev, &step);
  mamba_scene_free(dev, &s);
  dev->ops->destroy(dev);
  return errors;
}

static const mamba_shape mamba_shapes[] = {
    {{1, 1, 16, 16}, false, 1, {{5, YK_STATE_ZERO, -1, 0, 0}}},
    {{2, 3, 64, 128}, true, 1, {{6, YK_STATE_ZERO, -1, 0, 0}}},
    {{1, 4, 80, 16}, false, 3, {{1, YK_STATE_KEEP, -1, 0, 0}, {7, 2, 0, 3, 0}, {2, YK_STATE_ZERO, 1, 2, 0}}},
    {{5, 1, 16, 48}, true, 2, {{3, YK_STATE_ZERO, -1, 0, 0}, {2, YK_STATE_KEEP, 0, 2, 0}}},
    {{1, 2, 64, 256}, true, 2, {{4, YK_STATE_KEEP, 3, 1, 0}, {1, 1, -1, 0, 0}}},
    {{2, 3, 16, 32}, true, 2, {{20, YK_STATE_KEEP, 3, 11, 0}, {3, YK_STATE_KEEP, -1, 0, 0}}}, /* many rows */
    {{3, 5, 64, 128}, true, 2, {{3, YK_STATE_KEEP, 0, 2, 0}, {17, YK_STATE_ZERO, -1, 0, 0}}}, /* odd rows of x */
    {{4, 8, 64, 128}, true, 3, {{1, YK_STATE_KEEP, -1, 0, 0}, {1, 2, 0, 1, 0}, {1, YK_STATE_ZERO, -1, 0, 0}}},
    {{2, 4, 64, 128},
     true,
     4,
     {{1, YK_STATE_KEEP, -1, 0, 0}, {9, YK_STATE_ZERO, 1, 4, 0}, {2, 3, -1, 0, 0}, {3, YK_STATE_KEEP, 0, 3, 0}}},
};
enum { N_MAMBA_SHAPES = sizeof mamba_shapes / sizeof *mamba_shapes };

static inline void check_mamba(const op_target *target, yk_dtype dtype, const mamba_shape *shape, uint32_t seed,
                               const mamba_errors *tolerance)
{
  const mamba_errors e = mamba_errors_of(target, dtype, shape, seed, MAMBA_RIGHT);
  if (!(e.y <= tolerance->y && e.states <= tolerance->states && e.snapshots <= tolerance->snapshots))
    fail_msg("%s %s mamba, %d groups of %d heads of %d, states of %d, seed %u: errors of y %.3g, states %.3g, "
             "snapshots %.3g",
             target->name, yk_dtype_name(dtype), shape->layout.n_groups, shape->layout.heads_per_group,
             shape->layout.head_dim, shape->layout.state_size, seed, e.y, e.states, e.snapshots);
}

/* Each fault must exceed ten times the tolerance of y. */
static inline void check_mamba_faults(const op_target *target, yk_dtype dtype, const mamba_errors *tolerance)
{
  for (int fault = MAMBA_NO_DECAY; fault < MAMBA_N_FAULTS; fault++) {
    const mamba_errors e = mamba_errors_of(target, dtype, &mamba_shapes[N_MAMBA_SHAPES - 1], 5, (mamba_fault)fault);
    if (!(e.y > 10.0 * tolerance->y)) fail_msg("fault %d: error of y %.3g", fault, e.y);
  }
}

#endif
