/* test_op_cpu_delta.c - gated delta nets on the CPU device, every instruction set: against transformers, and the same
 * bits however tokens, heads and threads are divided. */
#include "golden/delta_goldens.h"
#include "op/op_cases_delta.h"
#include "op/op_cpu_target.h"

enum { MAX_SEQS = 4, MAX_ROWS = 64 };

/* A net and the rows of its sequences. */
typedef struct net {
  yk_delta_layout layout;
  const float *conv_w, *rate, *dt_bias, *norm_w;
} net;

/* The layout of separate modules. */
static yk_delta_layout split_layout(int32_t n_keys, int32_t per_key, int32_t key_dim, int32_t value_dim)
{
  int64_t keys = (int64_t)n_keys * key_dim, values = (int64_t)n_keys * per_key * value_dim, n = n_keys * per_key;
  return (yk_delta_layout){.n_key_heads = n_keys,
                           .values_per_key = per_key,
                           .key_dim = key_dim,
                           .value_dim = value_dim,
                           .k = keys,
                           .v = 2 * keys,
                           .z = 2 * keys + values,
                           .b = 2 * (keys + values),
                           .a = 2 * (keys + values) + n,
                           .qk_step = key_dim,
                           .v_step = per_key * value_dim,
                           .z_step = per_key * value_dim,
                           .ba_step = per_key,
                           .x_stride = 2 * (keys + values + n)};
}

static size_t y_width(const net *n)
{
  return (size_t)(yk_delta_n_value_heads(&n->layout) * n->layout.value_dim);
}

/* Sequences of one step. */
typedef struct step {
  int32_t n_seqs, row_starts[MAX_SEQS + 1], slots[MAX_SEQS], loads[MAX_SEQS], saves[MAX_SEQS];
  int32_t save_rows[MAX_SEQS];
} step;

/* save: after the last row. */
static step step_of(int32_t slot, int32_t n_rows, int32_t load, int32_t save)
{
  return (step){
      .n_seqs = 1, .row_starts = {0, n_rows}, .slots = {slot}, .loads = {load}, .saves = {save}, .save_rows = {n_rows}};
}

typedef struct tables {
  float *states, *snapshots;
} tables;

/* x, y and the states are host memory, as all memory of a CPU device. */
static void run(yk_device *dev, const net *n, const step *s, const void *x, void *y, tables t)
{
  const yk_batch batch = {.n_tokens = s->row_starts[s->n_seqs],
                          .n_seqs = s->n_seqs,
                          .row_starts = s->row_starts,
                          .seq_slots = s->slots,
                          .state_loads = s->loads,
                          .state_saves = s->saves,
                          .state_save_rows = s->save_rows};
  const yk_gated_delta_args args = {.y = y,
                                    .x = x,
                                    .layout = n->layout,
                                    .conv_w = n->conv_w,
                                    .rate = n->rate,
                                    .dt_bias = n->dt_bias,
                                    .norm_w = n->norm_w,
                                    .norm_eps = 1e-6f,
                                    .states = t.states,
                                    .snapshots = t.snapshots,
                                    .batch = &batch};
  op_ok(dev->ops->gated_delta(dev, &args, &err));
}

/* ---- Against transformers ---------------------------------------------------------------------------------------- */

static const net golden = {.conv_w = delta_golden_conv_w,
                           .rate = delta_golden_rate,
                           .dt_bias = delta_golden_dt_bias,
                           .norm_w = delta_golden_norm_w};

static net golden_net(void)
{
  net n = golden;
  n.layout = split_layout(DELTA_GOLDEN_KEYS, DELTA_GOLDEN_VALUES / DELTA_GOLDEN_KEYS, DELTA_GOLDEN_KEY_DIM,
                          DELTA_GOLDEN_VALUE_DIM);
  return n;
}

static void check_golden(const op_target *target)
{
  const net n = golden_net();
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  float *states = calloc((size_t)yk_delta_state_floats(&n.layout), sizeof *states);
  float *y = calloc(DELTA_GOLDEN_TOKENS * y_width(&n), sizeof *y);
  const step s = step_of(0, DELTA_GOLDEN_TOKENS, YK_STATE_ZERO, -1);
  run(dev, &n, &s, delta_golden_x, y, (tables){.states = states});
  for (size_t i = 0; i < DELTA_GOLDEN_TOKENS * y_width(&n); i++)
    if (!(fabsf(y[i] - delta_golden_y[i]) <= 2e-5f * (1 + fabsf(delta_golden_y[i]))))
      fail_msg("%s: y[%zu]: expected %.7g, found %.7g", target->name, i, (double)delta_golden_y[i], (double)y[i]);
  free(states);
  free(y);
  dev->ops->destroy(dev);
}

static void test_golden(void **state)
{
  (void)state;
  for_each_cpu_target(check_golden);
}

/* ---- The same bits ----------------------------------------------------------------------------------------------- */

/* A random net of real head sizes, and the rows of one sequence. */
typedef struct sample {
  net n;
  float *conv_w, *vectors, *x;
} sample;

static sample sample_new(int32_t n_keys, int32_t per_key, int32_t n_rows)
{
  op_random random = {.seed = 77};
  sample s = {.n = {.layout = split_layout(n_keys, per_key, 128, 128)}};
  int64_t n_taps = YK_DELTA_TAPS * yk_delta_channels(&s.n.layout), n_values = n_keys * per_key;
  s.conv_w = calloc((size_t)n_taps, sizeof *s.conv_w);
  s.vectors = calloc((size_t)(2 * n_values + 128), sizeof *s.vectors);
  s.x = calloc((size_t)(n_rows * s.n.layout.x_stride), sizeof *s.x);
  for (int64_t i = 0; i < n_taps; i++) s.conv_w[i] = (float)(0.5 * op_normal(&random));
  for (int64_t i = 0; i < 2 * n_values + 128; i++) s.vectors[i] = (float)(0.1 + op_uniform(&random));
  for (int64_t i = 0; i < n_rows * s.n.layout.x_stride; i++) s.x[i] = (float)op_normal(&random);
  s.n.conv_w = s.conv_w;
  s.n.rate = s.vectors;
  s.n.dt_bias = s.vectors + n_values;
  s.n.norm_w = s.vectors + 2 * n_values;
  return s;
}

static void sample_free(sample *s)
{
  free(s->conv_w);
  free(s->vectors);
  free(s->x);
}

enum { N_ROWS = 9, N_KEYS = 3, PER_KEY = 2 };

/* Rows in steps of any size, through slots and snapshots, on any number of threads, with other sequences in the
 * step. */
static void check_divisions(const op_target *target)
{
  sample s = sample_new(N_KEYS, PER_KEY, N_ROWS);
  const net *n = &s.n;
  const size_t n_floats = (size_t)yk_delta_state_floats(&n->layout), width = y_width(n);
  const int64_t stride = n->layout.x_stride;
  float *expected = calloc(N_ROWS * width, sizeof *expected), *y = calloc(MAX_ROWS * width, sizeof *y);
  float *whole = calloc(n_floats, sizeof *whole), *states = calloc(MAX_SEQS * n_floats, sizeof *states);
  float *snapshots = calloc(2 * n_floats, sizeof *snapshots), *x = calloc(MAX_ROWS * (size_t)stride, sizeof *x);
  yk_device *one = op_device_new(target, YK_F32, 1, 16), *three = op_device_new(target, YK_F32, 3, 16);
  step at_once = step_of(0, N_ROWS, YK_STATE_ZERO, -1);
  run(one, n, &at_once, s.x, expected, (tables){.states = whole});
  static const int32_t cuts[][4] = {{0, 1, 2, N_ROWS}, {0, 2, 7, N_ROWS}, {0, 4, 8, N_ROWS}};
  for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
    memset(states, 0x7f, MAX_SEQS * n_floats * sizeof *states); /* NaNs of an earlier owner */
    for (int i = 0; i < 3; i++) {
      int32_t first = cuts[c][i], rows = cuts[c][i + 1] - first;
      /* The second step begins with the snapshot that the first one saved, in another slot, with a new sequence in the
       * step. */
      step part = step_of(i ? 2 : 1, rows, i == 0 ? YK_STATE_ZERO : i == 1 ? 1 : YK_STATE_KEEP, i == 0 ? 1 : -1);
      part.n_seqs = 3;
      part.row_starts[2] = part.row_starts[3] = rows + 2;
      part.slots[1] = 3;
      part.loads[1] = YK_STATE_ZERO;
      part.saves[1] = -1;
      part.slots[2] = part.loads[2] = part.saves[2] = -1; /* padding */
      memcpy(x, s.x + first * stride, (size_t)(rows * stride) * sizeof *x);
      memcpy(x + rows * stride, s.x + 3 * stride, (size_t)(2 * stride) * sizeof *x);
      run(i == 1 ? one : three, n, &part, x, y, (tables){states, snapshots});
      assert_memory_equal(y, expected + (size_t)first * width, (size_t)rows * width * sizeof *y);
    }
    assert_memory_equal(states + 2 * n_floats, whole, n_floats * sizeof *whole);
  }
  float *const memory[] = {expected, y, whole, states, snapshots, x};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
  one->ops->destroy(one);
  three->ops->destroy(three);
  sample_free(&s);
}

/* A snapshot after any row of a step is the state that a step of the rows to there leaves. The step begins with zeros,
 * or with the state of earlier rows. */
static void check_saves(const op_target *target)
{
  sample s = sample_new(N_KEYS, PER_KEY, N_ROWS);
  const net *n = &s.n;
  const size_t n_floats = (size_t)yk_delta_state_floats(&n->layout);
  float *y = calloc(N_ROWS * y_width(n), sizeof *y), *states = calloc(3 * n_floats, sizeof *states);
  float *snapshots = calloc(2 * n_floats, sizeof *snapshots);
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  const tables t = {states, snapshots};
  for (int32_t n_before = 0; n_before < 3; n_before += 2) {
    const float *x = s.x + n_before * n->layout.x_stride;
    for (int32_t rows = 1; rows <= N_ROWS - n_before; rows++) {
      for (int32_t slot = 0; slot < 2 && n_before > 0; slot++) {
        const step first = step_of(slot, n_before, YK_STATE_ZERO, -1);
        run(dev, n, &first, s.x, y, t);
      }
      const int32_t load = n_before > 0 ? YK_STATE_KEEP : YK_STATE_ZERO;
      const step part = step_of(0, rows, load, -1);
      step whole = step_of(1, N_ROWS - n_before, load, 1);
      whole.save_rows[0] = rows;
      run(dev, n, &part, x, y, t);
      run(dev, n, &whole, x, y, t);
      assert_memory_equal(snapshots + n_floats, states, n_floats * sizeof *states);
    }
  }
  float *const memory[] = {y, states, snapshots};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
  dev->ops->destroy(dev);
  sample_free(&s);
}

static void test_saves(void **state)
{
  (void)state;
  for_each_cpu_target(check_saves);
}

static void test_divisions(void **state)
{
  (void)state;
  for_each_cpu_target(check_divisions);
}

static void copy_columns(float *to, const float *from, int64_t n)
{
  memcpy(to, from, (size_t)n * sizeof *to);
}

/* The heads of a rank alone, in modules interleaved by key head, have the bits that they have among all heads. */
static void check_heads(const op_target *target)
{
  enum { UNIT = 2 * 128 + 2 * PER_KEY * 128, ROW = UNIT + 2 * PER_KEY, V = PER_KEY * 128 };
  sample s = sample_new(N_KEYS, PER_KEY, N_ROWS);
  const yk_delta_layout *all = &s.n.layout;
  net alone = s.n;
  alone.layout = (yk_delta_layout){.n_key_heads = 1,
                                   .values_per_key = PER_KEY,
                                   .key_dim = 128,
                                   .value_dim = 128,
                                   .k = 128,
                                   .v = 256,
                                   .z = 256 + V,
                                   .b = UNIT,
                                   .a = UNIT + PER_KEY,
                                   .qk_step = UNIT,
                                   .v_step = UNIT,
                                   .z_step = UNIT,
                                   .ba_step = 2 * PER_KEY,
                                   .x_stride = ROW};
  const size_t width = y_width(&s.n), part = y_width(&alone);
  float *states = calloc((size_t)yk_delta_state_floats(all), sizeof *states), x[N_ROWS * ROW];
  float *expected = calloc(N_ROWS * width, sizeof *expected), y[N_ROWS * V], conv_w[YK_DELTA_TAPS * (256 + V)];
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  const step rows = step_of(0, N_ROWS, YK_STATE_ZERO, -1);
  run(dev, &s.n, &rows, s.x, expected, (tables){.states = states});
  const int64_t key = N_KEYS - 1, first_value = key * PER_KEY, n_channels = yk_delta_channels(all);
  for (int64_t row = 0; row < N_ROWS; row++) {
    const float *from = s.x + row * all->x_stride;
    float *to = x + row * ROW;
    copy_columns(to, from + key * 128, 128);
    copy_columns(to + 128, from + all->k + key * 128, 128);
    copy_columns(to + 256, from + all->v + key * V, V);
    copy_columns(to + 256 + V, from + all->z + key * V, V);
    copy_columns(to + UNIT, from + all->b + first_value, PER_KEY);
    copy_columns(to + UNIT + PER_KEY, from + all->a + first_value, PER_KEY);
  }
  for (int64_t t = 0; t < YK_DELTA_TAPS; t++) {
    const float *from = s.conv_w + t * n_channels;
    copy_columns(conv_w + t * (256 + V), from + key * 128, 128);
    copy_columns(conv_w + t * (256 + V) + 128, from + all->k + key * 128, 128);
    copy_columns(conv_w + t * (256 + V) + 256, from + all->v + key * V, V);
  }
  alone.conv_w = conv_w;
  alone.rate += first_value;
  alone.dt_bias += first_value;
  run(dev, &alone, &rows, x, y, (tables){.states = states});
  for (size_t row = 0; row < N_ROWS; row++)
    assert_memory_equal(y + row * part, expected + row * width + (size_t)first_value * 128, part * sizeof *y);
  free(states);
  free(expected);
  dev->ops->destroy(dev);
  sample_free(&s);
}

static void test_heads(void **state)
{
  (void)state;
  for_each_cpu_target(check_heads);
}

/* ---- Against float64 --------------------------------------------------------------------------------------------- */

static void check_table(const op_target *target)
{
  const delta_errors tolerance = {2e-5, 2e-5, 2e-5};
  for (int i = 0; i < N_DELTA_SHAPES; i++) check_delta(target, YK_F32, &delta_shapes[i], 10, &tolerance);
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_table);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  const op_target target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  const delta_errors tolerance = {2e-5, 2e-5, 2e-5};
  check_delta_faults(&target, YK_F32, &tolerance);
}

static void test_head_sizes_are_refused(void **state)
{
  (void)state;
  const op_target target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  yk_device *dev = op_device_new(&target, YK_F32, 1, 16);
  const yk_batch batch = {0};
  const yk_gated_delta_args args = {.layout = split_layout(1, 1, 24, 128), .batch = &batch};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(dev->ops->gated_delta(dev, &args, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "found 24 and 128"));
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                     cmocka_unit_test(test_table),
                                     cmocka_unit_test(test_planted_faults_are_seen),
                                     cmocka_unit_test(test_divisions),
                                     cmocka_unit_test(test_saves),
                                     cmocka_unit_test(test_heads),
                                     cmocka_unit_test(test_head_sizes_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
