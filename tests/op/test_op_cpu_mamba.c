/* test_op_cpu_mamba.c - Mamba2 on the CPU device, every instruction set: against transformers and against float64, and
 * the same bits however tokens, groups and threads are divided. */
#include "each_case.h"
#include "golden/mamba_goldens.h"
#include "op/op_cases_mamba.h"
#include "op/op_cpu_target.h"

enum { MAX_SEQS = 4, MAX_ROWS = 64, TAPS = YK_MAMBA_TAPS };

static const float no_limit = INFINITY;

/* A layer. Arrays are host memory, as all memory of a CPU device. */
typedef struct net {
  yk_mamba_layout layout;
  const float *conv_w, *conv_bias, *rate, *dt_bias, *skip, *norm_w;
  float min_step, max_step;
} net;

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

static void run(yk_device *dev, const net *n, const step *s, const void *x, void *y, tables t)
{
  int32_t seq_of_row[MAX_ROWS];
  for (int32_t seq = 0; seq < s->n_seqs; seq++)
    for (int32_t row = s->row_starts[seq]; row < s->row_starts[seq + 1]; row++) seq_of_row[row] = seq;
  const yk_batch batch = {.n_tokens = s->row_starts[s->n_seqs],
                          .n_seqs = s->n_seqs,
                          .seq_of_row = seq_of_row,
                          .row_starts = s->row_starts,
                          .seq_slots = s->slots,
                          .state_loads = s->loads,
                          .state_saves = s->saves,
                          .state_save_rows = s->save_rows};
  float *scratch = calloc((size_t)(batch.n_tokens * yk_mamba_scratch_floats(&n->layout)), sizeof *scratch);
  const yk_mamba_args args = {.y = y,
                              .x = x,
                              .scratch = scratch,
                              .layout = n->layout,
                              .conv_w = n->conv_w,
                              .conv_bias = n->conv_bias,
                              .rate = n->rate,
                              .dt_bias = n->dt_bias,
                              .skip = n->skip,
                              .norm_w = n->norm_w,
                              .min_step = n->min_step,
                              .max_step = n->max_step,
                              .norm_eps = 1e-5f,
                              .states = t.states,
                              .snapshots = t.snapshots,
                              .batch = &batch};
  op_ok(dev->ops->mamba(dev, &args, &err));
  free(scratch);
}

/* ---- Against transformers and float64 ---------------------------------------------------------------------------- */

static const net golden = {.layout = {MAMBA_GOLDEN_GROUPS, MAMBA_GOLDEN_HEADS / MAMBA_GOLDEN_GROUPS,
                                      MAMBA_GOLDEN_HEAD_DIM, MAMBA_GOLDEN_STATE},
                           .conv_w = mamba_golden_conv_w,
                           .conv_bias = mamba_golden_conv_bias,
                           .rate = mamba_golden_rate,
                           .dt_bias = mamba_golden_dt_bias,
                           .skip = mamba_golden_skip,
                           .norm_w = mamba_golden_norm_w};

static net golden_net(void)
{
  net n = golden;
  n.min_step = mamba_golden_min_step;
  n.max_step = no_limit;
  return n;
}

enum { N_GOLDEN = MAMBA_GOLDEN_TOKENS * MAMBA_GOLDEN_HEADS * MAMBA_GOLDEN_HEAD_DIM };

static void check_golden(const op_target *target)
{
  const net n = golden_net();
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  float *states = calloc((size_t)yk_mamba_state_floats(&n.layout), sizeof *states), y[N_GOLDEN];
  const step s = step_of(0, MAMBA_GOLDEN_TOKENS, YK_STATE_ZERO, -1);
  run(dev, &n, &s, mamba_golden_x, y, (tables){.states = states});
  for (size_t i = 0; i < N_GOLDEN; i++)
    if (!(fabsf(y[i] - mamba_golden_y[i]) <= 2e-5f * (1 + fabsf(mamba_golden_y[i]))))
      fail_msg("%s: y[%zu]: expected %.7g, found %.7g", target->name, i, (double)mamba_golden_y[i], (double)y[i]);
  free(states);
  dev->ops->destroy(dev);
}

static void test_golden(void **state)
{
  (void)state;
  for_each_cpu_target(check_golden);
}

static void fill(yk_device *dev, op_array *array, const float *from)
{
  for (size_t i = 0; i < array->n; i++) array->values[i] = (double)from[i];
  op_array_send(dev, array);
}

/* The reference is that of transformers, and each of its faults differs. */
static void test_reference(void **state)
{
  (void)state;
  const net n = golden_net();
  const mamba_shape shape = {n.layout, true, 1, {{MAMBA_GOLDEN_TOKENS, YK_STATE_ZERO, -1, 0, 0}}};
  const op_target target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  yk_device *dev = op_device_new(&target, YK_F32, 1, 16);
  mamba_scene s = mamba_scene_new(dev, &shape, 1);
  s.min_step = n.min_step;
  s.max_step = n.max_step;
  fill(dev, &s.x, mamba_golden_x);
  fill(dev, &s.conv_w, n.conv_w), fill(dev, &s.conv_bias, n.conv_bias);
  fill(dev, &s.rate, n.rate), fill(dev, &s.dt_bias, n.dt_bias);
  fill(dev, &s.skip, n.skip), fill(dev, &s.norm_w, n.norm_w);
  for (mamba_fault f = MAMBA_RIGHT; f < MAMBA_N_FAULTS; f++) {
    double most = 0.0;
    mamba_reference(&s, f);
    for (size_t i = 0; i < N_GOLDEN; i++) most = fmax(most, fabs(s.y[i] - (double)mamba_golden_y[i]));
    if (f == MAMBA_RIGHT ? !(most < 1e-4) : !(most > 1e-2)) fail_msg("fault %d: error %.3g", (int)f, most);
  }
  mamba_scene_free(dev, &s);
  dev->ops->destroy(dev);
}

static void check_table(const op_target *target)
{
  const mamba_errors tolerance = {5e-5, 2e-5, 2e-5};
  for (int i = 0; each_case((size_t)i, i < N_MAMBA_SHAPES); i++)
    check_mamba(target, YK_F32, &mamba_shapes[i], 10 + (uint32_t)i, &tolerance);
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
  const mamba_errors tolerance = {5e-5, 2e-5, 2e-5};
  check_mamba_faults(&target, YK_F32, &tolerance);
}

/* ---- A sample of any size ---------------------------------------------------------------------------------------- */

typedef struct sample {
  net n;
  float *floats, *x;
} sample;

static const float *take(float **at, int64_t n, op_random *random, double mean, double sigma)
{
  const float *first = *at;
  for (int64_t i = 0; i < n; i++) *(*at)++ = (float)(mean + sigma * op_normal(random));
  return first;
}

static sample sample_new(yk_mamba_layout layout, int32_t n_rows)
{
  op_random random = {.seed = 77};
  const int64_t n_channels = yk_mamba_channels(&layout), n_heads = yk_mamba_n_heads(&layout);
  const int64_t width = yk_mamba_width(&layout), n_x = n_rows * yk_mamba_x_stride(&layout);
  sample s = {.n = {.layout = layout, .min_step = 0.05f, .max_step = 1.5f}};
  s.floats = calloc((size_t)((TAPS + 1) * n_channels + 3 * n_heads + width), sizeof *s.floats);
  s.x = calloc((size_t)n_x, sizeof *s.x);
  float *at = s.floats, *x = s.x;
  s.n.conv_w = take(&at, TAPS * n_channels, &random, 0, 0.5);
  s.n.conv_bias = take(&at, n_channels, &random, 0, 0.5);
  s.n.rate = take(&at, n_heads, &random, 1, 0.2);
  s.n.dt_bias = take(&at, n_heads, &random, -1, 1);
  s.n.skip = take(&at, n_heads, &random, 1, 0.3);
  s.n.norm_w = take(&at, width, &random, 1, 0.2);
  take(&x, n_x, &random, 0, 1);
  return s;
}

static void sample_free(sample *s)
{
  free(s->floats);
  free(s->x);
}

/* ---- The same bits ----------------------------------------------------------------------------------------------- */

enum { N_ROWS = 9, N_GROUPS = 3, PER_GROUP = 2, HEAD_DIM = 64, STATE = 128 };

static const yk_mamba_layout three_groups = {N_GROUPS, PER_GROUP, HEAD_DIM, STATE};

/* Rows in steps of any size, through slots and snapshots, on any number of threads, with other sequences in the
 * step. */
static void check_divisions(const op_target *target)
{
  sample s = sample_new(three_groups, N_ROWS);
  const net *n = &s.n;
  const size_t n_floats = (size_t)yk_mamba_state_floats(&n->layout), width = (size_t)yk_mamba_width(&n->layout);
  const int64_t stride = yk_mamba_x_stride(&n->layout);
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

static void test_divisions(void **state)
{
  (void)state;
  for_each_cpu_target(check_divisions);
}

/* A snapshot after any row of a step is the state that a step of the rows to there leaves. */
static void check_saves(const op_target *target)
{
  sample s = sample_new(three_groups, N_ROWS);
  const net *n = &s.n;
  const size_t n_floats = (size_t)yk_mamba_state_floats(&n->layout);
  float *y = calloc((size_t)(N_ROWS * yk_mamba_width(&n->layout)), sizeof *y);
  float *states = calloc(2 * n_floats, sizeof *states), *snapshots = calloc(2 * n_floats, sizeof *snapshots);
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  const tables t = {states, snapshots};
  for (int32_t rows = 1; rows <= N_ROWS; rows++) {
    const step part = step_of(0, rows, YK_STATE_ZERO, -1);
    step whole = step_of(1, N_ROWS, YK_STATE_ZERO, 1);
    whole.save_rows[0] = rows;
    run(dev, n, &part, s.x, y, t);
    run(dev, n, &whole, s.x, y, t);
    assert_memory_equal(snapshots + n_floats, states, n_floats * sizeof *states);
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

/* Columns of one group among those of N_GROUPS groups: [n] per group, from column `from` on. */
static float *copy_group(float *to, const float *row, int64_t from, int64_t n)
{
  memcpy(to, row + from + (N_GROUPS - 1) * n, (size_t)n * sizeof *to);
  return to + n;
}

/* The last group alone has the bits that it has among all groups. */
static void check_groups(const op_target *target)
{
  enum { W = PER_GROUP * HEAD_DIM };
  sample s = sample_new(three_groups, N_ROWS);
  net alone = s.n;
  alone.layout.n_groups = 1;
  const int64_t width = N_GROUPS * W, stride = yk_mamba_x_stride(&s.n.layout), first = (N_GROUPS - 1) * PER_GROUP;
  const int64_t n_channels = yk_mamba_channels(&s.n.layout), own_stride = yk_mamba_x_stride(&alone.layout);
  float *x = calloc((size_t)(N_ROWS * own_stride), sizeof *x), y[N_ROWS * W], expected[N_ROWS * N_GROUPS * W];
  float conv_w[(TAPS + 1) * (W + 2 * STATE)], *to = conv_w;
  float *states = calloc((size_t)yk_mamba_state_floats(&s.n.layout), sizeof *states);
  for (int64_t t = 0; t <= TAPS; t++) { /* the last row: biases */
    const float *row = t < TAPS ? s.n.conv_w + t * n_channels : s.n.conv_bias;
    to = copy_group(to, row, 0, W);
    for (int i = 0; i < 2; i++) to = copy_group(to, row, width + i * N_GROUPS * STATE, STATE);
  }
  for (int64_t i = 0; i < N_ROWS; i++) {
    to = x + i * own_stride;
    for (int j = 0; j < 2; j++) to = copy_group(to, s.x + i * stride, j * width, W);
    for (int j = 0; j < 2; j++) to = copy_group(to, s.x + i * stride, 2 * width + j * N_GROUPS * STATE, STATE);
    copy_group(to, s.x + i * stride, 2 * width + 2 * N_GROUPS * STATE, PER_GROUP);
  }
  alone.conv_w = conv_w;
  alone.conv_bias = conv_w + TAPS * (W + 2 * STATE);
  alone.rate += first;
  alone.dt_bias += first;
  alone.skip += first;
  alone.norm_w += first * HEAD_DIM;
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  const step rows = step_of(0, N_ROWS, YK_STATE_ZERO, -1);
  run(dev, &s.n, &rows, s.x, expected, (tables){.states = states});
  run(dev, &alone, &rows, x, y, (tables){.states = states});
  for (size_t i = 0; i < N_ROWS; i++)
    assert_memory_equal(y + i * W, expected + i * (size_t)width + (size_t)width - W, W * sizeof *y);
  free(x);
  free(states);
  dev->ops->destroy(dev);
  sample_free(&s);
}

static void test_groups(void **state)
{
  (void)state;
  for_each_cpu_target(check_groups);
}

static void test_sizes_are_refused(void **state)
{
  (void)state;
  const op_target target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  yk_device *dev = op_device_new(&target, YK_F32, 1, 16);
  const yk_batch batch = {0};
  const yk_mamba_args args = {.layout = {1, 1, 64, 24}, .batch = &batch};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(dev->ops->mamba(dev, &args, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "found 64 and 24"));
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),    cmocka_unit_test(test_reference),
                                     cmocka_unit_test(test_table),     cmocka_unit_test(test_planted_faults_are_seen),
                                     cmocka_unit_test(test_divisions), cmocka_unit_test(test_saves),
                                     cmocka_unit_test(test_groups),    cmocka_unit_test(test_sizes_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
