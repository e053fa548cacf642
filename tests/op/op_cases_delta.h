/* op_cases_delta.h - cases of gated delta nets (kernels/gated_delta.h), for every device, against float64. */
#ifndef YK_TESTS_OP_CASES_DELTA_H
#define YK_TESTS_OP_CASES_DELTA_H

#include "op/op_harness.h"

enum { DELTA_MAX_SEQS = 6, DELTA_SLOTS = 8, DELTA_ENTRIES = 4, DELTA_MAX_DIM = YK_DELTA_MAX_HEAD_DIM };

typedef struct delta_seq {
  int32_t rows, load, save, save_rows;
  int32_t earlier; /* rows before the step */
} delta_seq;

typedef struct delta_shape {
  int32_t n_keys, per_key, key_dim, value_dim;
  bool is_fused;
  int32_t n_seqs;
  delta_seq seqs[DELTA_MAX_SEQS];
} delta_shape;

/* Errors of the reference, which a test must see. */
typedef enum delta_fault {
  DELTA_RIGHT,
  DELTA_LATE_DECAY,   /* the delta precedes the decay */
  DELTA_SHORT_WINDOW, /* the oldest input of the convolution counts as 0 */
  DELTA_WRONG_KEY,    /* every value head reads key head 0 */
  DELTA_GATE_FIRST    /* the gate precedes the norm */
} delta_fault;

/* The layout of separate modules, or of modules interleaved by key head. */
static inline yk_delta_layout delta_layout_of(const delta_shape *s)
{
  const int64_t qk = s->key_dim, v = (int64_t)s->per_key * s->value_dim, n = s->n_keys, per_key = s->per_key;
  yk_delta_layout l = {.n_key_heads = s->n_keys,
                       .values_per_key = s->per_key,
                       .key_dim = s->key_dim,
                       .value_dim = s->value_dim,
                       .x_stride = n * (2 * qk + 2 * v + 2 * per_key)};
  if (s->is_fused) {
    l.k = qk, l.v = 2 * qk, l.z = 2 * qk + v;
    l.qk_step = l.v_step = l.z_step = 2 * (qk + v);
    l.b = n * l.qk_step, l.a = l.b + per_key, l.ba_step = 2 * per_key;
    return l;
  }
  l.k = n * qk, l.v = 2 * l.k, l.z = l.v + n * v, l.b = l.z + n * v, l.a = l.b + n * per_key;
  l.qk_step = qk, l.v_step = l.z_step = v, l.ba_step = per_key;
  return l;
}

typedef struct delta_scene {
  const delta_shape *shape;
  yk_delta_layout layout;
  int32_t row_starts[DELTA_MAX_SEQS + 1], slots[DELTA_MAX_SEQS];
  op_array x, conv_w, rate, dt_bias, norm_w, states;
  float *snapshots; /* of the device */
  double *kept;     /* the same values: [DELTA_ENTRIES, state] */
  double *y;        /* expected; so are states.values and kept once the reference has run */
} delta_scene;

static inline size_t delta_y_size(const delta_scene *s)
{
  return (size_t)s->row_starts[s->shape->n_seqs] * (size_t)yk_delta_n_value_heads(&s->layout) *
         (size_t)s->layout.value_dim;
}

static inline op_array delta_positive(yk_device *dev, size_t n, op_random *random)
{
  op_array array = op_array_new(dev, YK_F32, n);
  for (size_t i = 0; i < n; i++) array.values[i] = 0.1 + op_uniform(random);
  op_array_send(dev, &array);
  return array;
}

static inline delta_scene delta_scene_new(yk_device *dev, const delta_shape *shape, uint32_t seed)
{
  op_random random = {.seed = seed};
  delta_scene s = {.shape = shape, .layout = delta_layout_of(shape)};
  const size_t n_values = (size_t)yk_delta_n_value_heads(&s.layout);
  const size_t n_channels = (size_t)yk_delta_channels(&s.layout), n_floats = (size_t)yk_delta_state_floats(&s.layout);
  for (int32_t i = 0; i < shape->n_seqs; i++) {
    s.row_starts[i + 1] = s.row_starts[i] + shape->seqs[i].rows;
    s.slots[i] = (3 * i + 1) % DELTA_SLOTS;
  }
  const size_t n_x = (size_t)(s.row_starts[shape->n_seqs] * s.layout.x_stride);
  s.x = op_array_random(dev, dev->dtype, n_x, 1.0, &random);
  s.conv_w = op_array_random(dev, YK_F32, YK_DELTA_TAPS * n_channels, 0.5, &random);
  s.rate = delta_positive(dev, n_values, &random);
  s.dt_bias = delta_positive(dev, n_values, &random);
  s.norm_w = delta_positive(dev, (size_t)s.layout.value_dim, &random);
  s.states = op_array_random(dev, YK_F32, DELTA_SLOTS * n_floats, 0.4, &random);
  s.kept = calloc(DELTA_ENTRIES * n_floats, sizeof *s.kept);
  s.y = calloc(delta_y_size(&s) + 1, sizeof *s.y);
  void *snapshots = NULL;
  op_ok(dev->ops->host_alloc(dev, DELTA_ENTRIES * n_floats * sizeof(float), &snapshots, &err));
  s.snapshots = snapshots;
  for (size_t i = 0; i < DELTA_ENTRIES * n_floats; i++) {
    s.snapshots[i] = (float)(0.4 * op_normal(&random));
    s.kept[i] = (double)s.snapshots[i];
  }
  return s;
}

static inline void delta_scene_free(yk_device *dev, delta_scene *s)
{
  op_array *const arrays[] = {&s->x, &s->conv_w, &s->rate, &s->dt_bias, &s->norm_w, &s->states};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) op_array_free(dev, arrays[i]);
  dev->ops->host_free(dev, s->snapshots);
  free(s->kept);
  free(s->y);
}

/* ---- The reference ----------------------------------------------------------------------------------------------- */

static inline double delta_silu(double x)
{
  return x / (1.0 + exp(-x));
}

/* Input of a channel, `back` rows before a row of a sequence. before: the state that the sequence begins with, or NULL.
 * channel: among the channels; column: of x. */
static inline double delta_input(const delta_scene *s, const double *before, int32_t seq, int64_t row, int back,
                                 int64_t channel, int64_t column)
{
  const yk_delta_layout *l = &s->layout;
  const int64_t from = row - back, window = (int64_t)yk_delta_n_value_heads(l) * l->key_dim * l->value_dim;
  const int64_t missing = s->row_starts[seq] - from; /* rows before the step: 1 is the newest of the state */
  if (missing <= 0) return s->x.values[from * l->x_stride + column];
  return before ? before[window + (YK_DELTA_TAPS - 1 - missing) * yk_delta_channels(l) + channel] : 0.0;
}

static inline void delta_convolve(const delta_scene *s, const double *before, int32_t seq, int64_t row, int64_t channel,
                                  int64_t column, int32_t n, delta_fault fault, double *to)
{
  for (int32_t i = 0; i < n; i++) {
    double sum = 0.0;
    for (int back = 0; back < YK_DELTA_TAPS - (fault == DELTA_SHORT_WINDOW); back++)
      sum += s->conv_w.values[(YK_DELTA_TAPS - 1 - back) * yk_delta_channels(&s->layout) + channel + i] *
             delta_input(s, before, seq, row, back, channel + i, column + i);
    to[i] = delta_silu(sum);
  }
}

static inline void delta_normalise(double *x, int32_t n, double scale)
{
  double squares = 1e-6;
  for (int32_t i = 0; i < n; i++) squares += x[i] * x[i];
  for (int32_t i = 0; i < n; i++) x[i] *= scale / sqrt(squares);
}

/* S, o = S^T q. */
static inline void delta_recur(const yk_delta_layout *l, double *state, const double *q, const double *k,
                               const double *v, double decay, double beta, delta_fault fault, double *o)
{
  const double first = fault == DELTA_LATE_DECAY ? 1.0 : decay, last = decay / first;
  for (int32_t j = 0; j < l->value_dim; j++) {
    double read = 0.0;
    for (int32_t i = 0; i < l->key_dim; i++) read += first * state[i * l->value_dim + j] * k[i];
    o[j] = 0.0;
    for (int32_t i = 0; i < l->key_dim; i++) {
      double *element = &state[i * l->value_dim + j];
      *element = last * (first * *element + k[i] * beta * (v[j] - read));
      o[j] += *element * q[i];
    }
  }
}

static inline void delta_token(delta_scene *s, const double *before, int32_t seq, int64_t row, int32_t head,
                               delta_fault fault, double *state)
{
  const yk_delta_layout *l = &s->layout;
  const int32_t key = fault == DELTA_WRONG_KEY ? 0 : head / l->values_per_key, j = head % l->values_per_key;
  const int32_t own_key = head / l->values_per_key, n_k = l->key_dim, n_v = l->value_dim;
  const double *x = s->x.values + row * l->x_stride;
  double q[DELTA_MAX_DIM], k[DELTA_MAX_DIM], v[DELTA_MAX_DIM], o[DELTA_MAX_DIM], squares = 0.0;
  delta_convolve(s, before, seq, row, key * n_k, l->q + key * l->qk_step, n_k, fault, q);
  delta_convolve(s, before, seq, row, (l->n_key_heads + key) * n_k, l->k + key * l->qk_step, n_k, fault, k);
  delta_convolve(s, before, seq, row, 2 * l->n_key_heads * n_k + head * n_v, l->v + own_key * l->v_step + j * n_v, n_v,
                 fault, v);
  delta_normalise(q, n_k, 1.0 / sqrt(n_k));
  delta_normalise(k, n_k, 1.0);
  const double a = x[l->a + own_key * l->ba_step + j] + s->dt_bias.values[head];
  const double decay = exp(-s->rate.values[head] * log1p(exp(a)));
  const double beta = 1.0 / (1.0 + exp(-x[l->b + own_key * l->ba_step + j]));
  delta_recur(l, state, q, k, v, decay, beta, fault, o);
  for (int32_t i = 0; i < n_v; i++) {
    const double gate = delta_silu(x[l->z + own_key * l->z_step + j * n_v + i]);
    if (fault == DELTA_GATE_FIRST) o[i] *= gate;
    squares += o[i] * o[i];
  }
  for (int32_t i = 0; i < n_v; i++) {
    const double gate = fault == DELTA_GATE_FIRST ? 1.0 : delta_silu(x[l->z + own_key * l->z_step + j * n_v + i]);
    s->y[(row * yk_delta_n_value_heads(l) + head) * n_v + i] =
        o[i] / sqrt(squares / n_v + 1e-6) * s->norm_w.values[i] * gate;
  }
}

/* The inputs of all channels before row `end`, to a state. */
static inline void delta_window(const delta_scene *s, const double *before, int32_t seq, int64_t end, double *state)
{
  const yk_delta_layout *l = &s->layout;
  const int64_t matrices = (int64_t)yk_delta_n_value_heads(l) * l->key_dim * l->value_dim;
  const int64_t v = (int64_t)l->values_per_key * l->value_dim, n_keys = l->n_key_heads;
  for (int t = 0; t < YK_DELTA_TAPS - 1; t++) {
    double *to = state + matrices + t * yk_delta_channels(l);
    const int back = YK_DELTA_TAPS - 1 - t;
    for (int64_t key = 0; key < n_keys; key++) {
      for (int32_t i = 0; i < l->key_dim; i++) {
        const int64_t q = key * l->key_dim + i, k = n_keys * l->key_dim + q;
        to[q] = delta_input(s, before, seq, end, back, q, l->q + key * l->qk_step + i);
        to[k] = delta_input(s, before, seq, end, back, k, l->k + key * l->qk_step + i);
      }
      for (int64_t i = 0; i < v; i++) {
        const int64_t channel = 2 * n_keys * l->key_dim + key * v + i;
        to[channel] = delta_input(s, before, seq, end, back, channel, l->v + key * l->v_step + i);
      }
    }
  }
}

/* Replaces states.values, kept and y by the results of the operation. */
static inline void delta_reference(delta_scene *s, delta_fault fault)
{
  const yk_delta_layout *l = &s->layout;
  const size_t n_floats = (size_t)yk_delta_state_floats(l), matrix = (size_t)(l->key_dim * l->value_dim);
  for (int32_t seq = 0; seq < s->shape->n_seqs; seq++) {
    const delta_seq *of = &s->shape->seqs[seq];
    double *after = s->states.values + (size_t)s->slots[seq] * n_floats, *before = calloc(n_floats, sizeof *before);
    if (of->load != YK_STATE_ZERO)
      memcpy(before, of->load == YK_STATE_KEEP ? after : s->kept + (size_t)of->load * n_floats,
             n_floats * sizeof *before);
    double *entry = of->save < 0 ? NULL : s->kept + (size_t)of->save * n_floats;
    memcpy(after, before, n_floats * sizeof *before);
    for (int32_t i = 0; i < of->rows; i++) {
      const int64_t row = s->row_starts[seq] + i;
      for (int32_t head = 0; head < yk_delta_n_value_heads(l); head++)
        delta_token(s, before, seq, row, head, fault, after + (size_t)head * matrix);
      delta_window(s, before, seq, row + 1, after);
      if (entry && i + 1 == of->save_rows) memcpy(entry, after, n_floats * sizeof *entry);
    }
    free(before);
  }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* The device's arrays of a step. */
typedef struct delta_step {
  int32_t *arrays[7]; /* row starts, slots, loads, saves, rows of saves, tokens, sequences of rows */
  void *scratch;
  yk_batch batch;
} delta_step;

static inline delta_step delta_step_new(yk_device *dev, const delta_scene *s)
{
  const int32_t n = s->shape->n_seqs;
  int32_t of[4][DELTA_MAX_SEQS], most = 0;
  for (int32_t i = 0; i < n; i++) {
    const delta_seq *seq = &s->shape->seqs[i];
    of[0][i] = seq->load, of[1][i] = seq->save, of[2][i] = seq->save_rows, of[3][i] = seq->earlier + seq->rows;
    if (seq->rows > most) most = seq->rows;
  }
  delta_step step = {.arrays = {op_send_i32(dev, s->row_starts, (size_t)n + 1), op_send_i32(dev, s->slots, (size_t)n),
                                op_send_i32(dev, of[0], (size_t)n), op_send_i32(dev, of[1], (size_t)n),
                                op_send_i32(dev, of[2], (size_t)n), op_send_i32(dev, of[3], (size_t)n),
                                op_send_seq_of_row(dev, s->row_starts, n)}};
  const size_t n_floats = (size_t)(s->row_starts[n] * yk_delta_scratch_floats(&s->layout));
  op_ok(dev->ops->alloc(dev, n_floats * sizeof(float), &step.scratch, &err));
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

static inline void delta_step_free(yk_device *dev, delta_step *step)
{
  for (size_t i = 0; i < sizeof step->arrays / sizeof *step->arrays; i++) dev->ops->free(dev, step->arrays[i]);
  dev->ops->free(dev, step->scratch);
}

static inline yk_gated_delta_args delta_args(const delta_scene *s, const delta_step *step, void *y)
{
  return (yk_gated_delta_args){.y = y,
                               .x = s->x.dev,
                               .scratch = step->scratch,
                               .layout = s->layout,
                               .conv_w = s->conv_w.dev,
                               .rate = s->rate.dev,
                               .dt_bias = s->dt_bias.dev,
                               .norm_w = s->norm_w.dev,
                               .norm_eps = 1e-6f,
                               .states = s->states.dev,
                               .snapshots = s->snapshots,
                               .batch = &step->batch};
}

typedef struct delta_errors {
  double y, states, snapshots;
} delta_errors;

/* Errors against the reference, of all states and snapshots, also of those that the step leaves alone. */
static inline delta_errors delta_errors_of(const op_target *target, yk_dtype dtype, const delta_shape *shape,
                                           uint32_t seed, delta_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  delta_scene s = delta_scene_new(dev, shape, seed);
  delta_step step = delta_step_new(dev, &s);
  op_array y = op_array_new(dev, dtype, delta_y_size(&s));
  const yk_gated_delta_args args = delta_args(&s, &step, y.dev);
  op_ok(dev->ops->gated_delta(dev, &args, &err));
  delta_reference(&s, fault);
  op_array_fetch(dev, &y);
  double *expected = malloc((s.states.n + 1) * sizeof *expected);
  memcpy(expected, s.states.values, s.states.n * sizeof *expected);
  op_array_fetch(dev, &s.states);
  const size_t n_kept = DELTA_ENTRIES * (size_t)yk_delta_state_floats(&s.layout);
  double *snapshots = malloc((n_kept + 1) * sizeof *snapshots);
  for (size_t i = 0; i < n_kept; i++) snapshots[i] = (double)s.snapshots[i];
  const delta_errors errors = {op_error(y.values, s.y, y.n), op_error(s.states.values, expected, s.states.n),
                               op_error(snapshots, s.kept, n_kept)};
  free(expected);
  free(snapshots);
  op_array_free(dev, &y);
  delta_step_free(dev, &step);
  delta_scene_free(dev, &s);
  dev->ops->destroy(dev);
  return errors;
}

static const delta_shape delta_shapes[] = {
    {2, 1, 16, 16, false, 1, {{5, YK_STATE_ZERO, -1, 0, 0}}},
    {3, 2, 16, 32, true, 3, {{1, YK_STATE_KEEP, -1, 0, 0}, {7, 2, 0, 3, 0}, {2, YK_STATE_ZERO, 1, 2, 0}}},
    {1, 3, 256, 48, false, 2, {{4, YK_STATE_KEEP, 3, 1, 0}, {1, 1, -1, 0, 0}}},
    {2, 2, 112, 256, false, 2, {{3, YK_STATE_ZERO, -1, 0, 0}, {2, YK_STATE_KEEP, 0, 2, 0}}},
    {5,
     1,
     128,
     128,
     false,
     3,
     {{1, YK_STATE_KEEP, -1, 0, 0}, {1, 2, 0, 1, 0}, {1, YK_STATE_ZERO, -1, 0, 0}}}, /* decode */
    {2,
     3,
     128,
     128,
     true,
     4,
     {{1, YK_STATE_KEEP, -1, 0, 0}, {9, YK_STATE_ZERO, 1, 4, 0}, {2, 3, -1, 0, 0}, {3, YK_STATE_KEEP, 0, 3, 0}}},
};
enum { N_DELTA_SHAPES = sizeof delta_shapes / sizeof *delta_shapes };

static inline void check_delta(const op_target *target, yk_dtype dtype, const delta_shape *shape, uint32_t seed,
                               const delta_errors *tolerance)
{
  const delta_errors e = delta_errors_of(target, dtype, shape, seed, DELTA_RIGHT);
  if (!(e.y <= tolerance->y && e.states <= tolerance->states && e.snapshots <= tolerance->snapshots))
    fail_msg("%s %s gated_delta, %d heads of %d and %d, seed %u: errors of y %.3g, states %.3g, snapshots %.3g",
             target->name, yk_dtype_name(dtype), shape->n_keys * shape->per_key, shape->key_dim, shape->value_dim, seed,
             e.y, e.states, e.snapshots);
}

/* Each fault must exceed ten times the tolerance of y. */
static inline void check_delta_faults(const op_target *target, yk_dtype dtype, const delta_errors *tolerance)
{
  for (int fault = DELTA_LATE_DECAY; fault <= DELTA_GATE_FIRST; fault++)
    for (int i = 1; i < N_DELTA_SHAPES; i += N_DELTA_SHAPES - 2) {
      const delta_errors e = delta_errors_of(target, dtype, &delta_shapes[i], 5, (delta_fault)fault);
      if (!(e.y > 10.0 * tolerance->y)) fail_msg("fault %d of shape %d: error of y %.3g", fault, i, e.y);
    }
}

#endif
