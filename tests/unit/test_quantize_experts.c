/* Activation-aware quantisation of mixtures of experts and latent attention: the kept activations of a text, against
 * products written out here. */
#include "unit/quantize_fixture.h"

#include "each_case.h"
#include "quantize/calibration.h"

enum { HIDDEN = 64, FFN = 32, RANK = 32, N_EXPERTS_HERE = 3, TOP_K = 2 };

typedef struct calibrated {
  model m;
  yk_quantize_options options;
  recorder r;
  yk_quantize_run run;
  yk_quantize_rank rank;
  yk_calibration c;
} calibrated;

static void calibrate(calibrated *t)
{
  yk_err err = YK_ERR_INIT;
  t->m = deepseek_make();
  t->r = (recorder){.n_left = -1};
  t->options = awq_options_for(&t->m, &t->r);
  t->run = (yk_quantize_run){.options = &t->options};
  t->rank = (yk_quantize_rank){.run = &t->run};
  expect_ok("checkpoint", yk_checkpoint_open(t->m.from.path, &t->options.log, &t->run.checkpoint, &err), &err);
  const yk_device_limits limits = yk_calibration_limits(t->run.checkpoint);
  expect_ok("device", yk_cpu_device_create(YK_F32, 2, &limits, &t->rank.dev, &err), &err);
  expect_ok("calibrate", yk_calibrate(&t->rank, &t->c, &err), &err);
}

static void end(calibrated *t)
{
  yk_calibration_free(&t->c);
  t->rank.dev->ops->destroy(t->rank.dev);
  yk_checkpoint_close(t->run.checkpoint);
  model_remove(&t->m);
}

/* y [n] = x [k] W^T of a module of layer 0. */
static void multiply(const calibrated *t, const char *module, const float *x, int64_t k, int64_t n, float *y)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  yk_err err = YK_ERR_INIT;
  snprintf(name, sizeof name, "model.layers.0.%s", module);
  expect_ok(name, yk_checkpoint_matrix(t->run.checkpoint, name, n, k, &view, &err), &err);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
      sum += (double)x[j] * (double)yk_dtype_load(YK_BF16, view.plain, (size_t)(i * k + j));
    y[i] = (float)sum;
  }
}

static void expect_close(const char *what, int row, const float *found, const float *expected, int n)
{
  for (int i = 0; i < n; i++)
    if (fabsf(found[i] - expected[i]) > 1e-4f * (1 + fabsf(expected[i])))
      fail_msg("%s, row %d, %d: expected %g, found %g", what, row, i, (double)expected[i], (double)found[i]);
}

/* The rows of an expert's down projection are those of the tokens that chose it, according to the kept choices. */
static void test_experts(void **state)
{
  (void)state;
  calibrated t;
  calibrate(&t);
  const float *x = yk_calibrated_input_of(&t.c, 0, YK_INPUT_GATE_UP)->rows;
  const float *inner = yk_calibrated_input_of(&t.c, 0, YK_INPUT_EXPERT_DOWN)->rows;
  int n_chosen[N_EXPERTS_HERE] = {0};
  for (int token = 0; token < t.c.n_rows; token++, x += HIDDEN) {
    float scores[N_EXPERTS_HERE];
    multiply(&t, "mlp.gate", x, HIDDEN, N_EXPERTS_HERE, scores);
    for (int j = 0; j < TOP_K; j++) {
      int32_t expert = t.c.choices[0][token * TOP_K + j];
      float gate[FFN], up[FFN];
      char name[48];
      for (int other = 0; j == TOP_K - 1 && other < N_EXPERTS_HERE; other++)
        assert_true(other == t.c.choices[0][token * TOP_K] || scores[other] <= scores[expert]);
      snprintf(name, sizeof name, "mlp.experts.%d.gate_proj", (int)expert);
      multiply(&t, name, x, HIDDEN, FFN, gate);
      snprintf(name, sizeof name, "mlp.experts.%d.up_proj", (int)expert);
      multiply(&t, name, x, HIDDEN, FFN, up);
      for (int i = 0; i < FFN; i++) up[i] *= gate[i] / (1 + expf(-gate[i]));
      expect_close("inputs of down", token, inner + (token * TOP_K + j) * FFN, up, FFN);
      n_chosen[expert]++;
    }
  }
  for (int expert = 0; expert < N_EXPERTS_HERE; expert++) {
    assert_int_equal(yk_calibrated_expert_rows(&t.c, 0, YK_INPUT_EXPERT_DOWN, expert, NULL), n_chosen[expert]);
    assert_true(n_chosen[expert] > 0 && n_chosen[expert] < t.c.n_rows);
  }
  end(&t);
}

/* The first kept row of an expert is that of the first token that chose it. */
static void test_rows_of_an_expert(void **state)
{
  (void)state;
  calibrated t;
  calibrate(&t);
  float *rows = malloc((size_t)t.c.n_rows * HIDDEN * sizeof *rows);
  for (int32_t expert = 0; expert < N_EXPERTS_HERE; expert++) {
    int first = 0;
    while (t.c.choices[0][first] != expert) first++;
    yk_calibrated_expert_rows(&t.c, 0, YK_INPUT_GATE_UP, expert, rows);
    expect_close("x", first, rows, yk_calibrated_input_of(&t.c, 0, YK_INPUT_GATE_UP)->rows + first / TOP_K * HIDDEN,
                 HIDDEN);
    yk_calibrated_expert_rows(&t.c, 0, YK_INPUT_EXPERT_DOWN, expert, rows);
    expect_close("inner", first, rows, yk_calibrated_input_of(&t.c, 0, YK_INPUT_EXPERT_DOWN)->rows + first * FFN, FFN);
  }
  free(rows);
  end(&t);
}

/* The inputs of q_b and kv_b are the norms of q_a's and kv_a's outputs for the layer's x. */
static void test_latent(void **state)
{
  (void)state;
  static const struct {
    const char *module;
    int n;
    yk_input_kind kind;
    yk_weight_role norm;
  } cases[] = {{"self_attn.q_a_proj", RANK, YK_INPUT_Q_B, YK_ROLE_Q_A_NORM},
               {"self_attn.kv_a_proj_with_mqa", 48, YK_INPUT_KV_B, YK_ROLE_KV_A_NORM}};
  calibrated t;
  calibrate(&t);
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_calibrated_input *input = yk_calibrated_input_of(&t.c, 0, cases[i].kind);
    yk_vector_view norm;
    yk_err err = YK_ERR_INIT;
    double sum = 0;
    assert_int_equal(input->k, RANK);
    expect_ok("norm", yk_checkpoint_vector(t.run.checkpoint, cases[i].norm, 0, RANK, &norm, &err), &err);
    for (int token = 0; token < t.c.n_rows; token++) {
      float y[48], squares = 0;
      const float *x = yk_calibrated_input_of(&t.c, 0, YK_INPUT_QKV)->rows + token * HIDDEN;
      multiply(&t, cases[i].module, x, HIDDEN, cases[i].n, y);
      for (int j = 0; j < RANK; j++) squares += y[j] * y[j];
      for (int j = 0; j < RANK; j++)
        y[j] *= yk_dtype_load(YK_BF16, norm.data, (size_t)j) / sqrtf(squares / RANK + 1e-6f);
      expect_close(cases[i].module, token, input->rows + token * RANK, y, RANK);
      sum += fabs((double)y[3]);
    }
    if (t.c.n_rows == t.c.n_tokens && fabs(input->sums[3] / sum - 1) > 1e-4) fail_msg("%s: sums", cases[i].module);
  }
  end(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_experts), cmocka_unit_test(test_rows_of_an_expert),
                                     cmocka_unit_test(test_latent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
