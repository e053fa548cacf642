/* test_op_cpu_decode.c - the reference of a decode step (op_cases_decode.h) on the CPU device, against a plain float64
 * computation of the layers. */
#include "op/op_cases_decode.h"
#include "op/op_cpu_target.h"

/* A wrong computation, which the bounds of the comparison have to exclude. */
typedef struct plain_fault {
  op_fault fault;
  bool repeats_layer; /* the weights of layer 0 in every layer */
  int32_t n_lost;     /* first tokens of the sequence to which the row does not attend */
} plain_fault;

/* Row of a step in float64: a run's inputs, and the values between the operations. */
typedef struct plain_step {
  decode_run *run;
  const decode_shape *shape;
  plain_fault fault;
  double *residual, *x, *row, *heads, *result;
} plain_step;

static double *new_row(int64_t n)
{
  double *row = calloc((size_t)n + 1, sizeof *row);
  assert_non_null(row);
  return row;
}

static void multiply(const plain_step *step, int32_t layer, int linear, const double *x, double *y)
{
  const decode_weights *weights = step->run->model->weights;
  const int32_t of_layer = step->fault.repeats_layer ? 0 : layer;
  for (int p = decode_first_part[linear]; p < decode_first_part[linear + 1]; p++) {
    const linear_part_case *part = &weights->parts[p];
    const linear_weight *weight = &weights->layers[of_layer][p];
    double *w = part_weights(weight, part, step->fault.fault), magnitude = 0.0;
    for (int64_t i = 0; i < part->n; i++)
      *y++ = part_output(weight, part, w + i * part->k, x, i, step->fault.fault, &magnitude);
    free(w);
  }
}

static void norm(const plain_step *step, double *y, const double *x, const op_array *w)
{
  op_ref_rms_norm(YK_F32, y, x, w->values, (int)w->n, (double)1e-5f, step->fault.fault);
}

static void add(const plain_step *step)
{
  const double alpha = step->fault.fault == OP_NO_ALPHA ? 1.0 : (double)step->shape->alpha;
  for (int32_t i = 0; i < step->shape->hidden; i++) {
    if (step->fault.fault == OP_NO_RESIDUAL) step->residual[i] = 0.0;
    step->residual[i] += alpha * step->result[i];
  }
}

/* Norms and rotation of the heads of q and k, then K and V to the run's values of the caches. */
static void rotate_and_keep(const plain_step *step, int32_t layer)
{
  decode_run *run = step->run;
  const scene *s = &run->scene;
  const yk_head_layout *heads = &run->scene_shape.heads;
  const int32_t head_dim = heads->head_dim, n_rotated = heads->n_q_heads + heads->n_kv_heads;
  double *normed = new_row(head_dim);
  for (int32_t h = 0; h < n_rotated; h++) {
    double *head = step->row + h * head_dim;
    const op_array *w = &run->model->norms[layer][h < heads->n_q_heads ? DECODE_Q_NORM : DECODE_K_NORM];
    memcpy(normed, head, (size_t)head_dim * sizeof *normed);
    if (step->shape->has_qk_norms && step->fault.fault != OP_NO_QK_NORM) norm(step, normed, head, w);
    op_ref_rope(head, normed, head_dim, s->positions[0], s->inv_freq, step->fault.fault);
  }
  free(normed);
  for (int side = 0; side < 2; side++)
    for (int32_t h = 0; h < heads->n_kv_heads; h++)
      memcpy(decode_cache(run, layer, side)->values + cache_index(heads, s->slots[0], h),
             step->row + (heads->n_q_heads + side * heads->n_kv_heads + h) * head_dim,
             (size_t)head_dim * sizeof(double));
}

static void attend(const plain_step *step, int32_t layer)
{
  decode_run *run = step->run;
  const scene *s = &run->scene;
  const yk_head_layout *heads = &run->scene_shape.heads;
  const op_fault fault = step->fault.fault;
  const int32_t n_tokens = s->kv_tokens[0], window = step->fault.n_lost ? n_tokens - step->fault.n_lost : 0;
  for (int32_t h = 0; h < heads->n_q_heads; h++) {
    const int64_t kv_head = (h / heads->q_per_kv + (fault == OP_WRONG_KV_HEAD)) % heads->n_kv_heads;
    double *keys = flatten(s, decode_cache(run, layer, 0), 0, kv_head, fault);
    double *values = flatten(s, decode_cache(run, layer, 1), 0, kv_head, fault);
    op_ref_attention(step->heads + h * heads->head_dim, step->row + h * heads->head_dim, keys, values, s->positions[0],
                     n_tokens, window, heads->head_dim, (double)s->scale, fault);
    free(keys);
    free(values);
  }
}

static void run_layer(const plain_step *step, int32_t layer)
{
  const decode_shape *shape = step->shape;
  const op_array *norms = step->run->model->norms[layer];
  norm(step, step->x, step->residual, &norms[DECODE_INPUT_NORM]);
  multiply(step, layer, DECODE_LINEAR_QKV, step->x, step->row);
  rotate_and_keep(step, layer);
  attend(step, layer);
  multiply(step, layer, DECODE_LINEAR_O, step->heads, step->result);
  add(step);
  norm(step, step->x, step->residual, &norms[DECODE_POST_NORM]);
  multiply(step, layer, DECODE_LINEAR_GATE_UP, step->x, step->row);
  for (int32_t i = 0; i < shape->ffn; i++) {
    const double gate = step->row[i], up = step->row[shape->ffn + i];
    const bool swaps = step->fault.fault == OP_GATE_UP_SWAPPED;
    step->row[i] = op_activated(&shape->activation, swaps ? up : gate, swaps ? gate : up);
  }
  multiply(step, layer, DECODE_LINEAR_DOWN, step->row, step->result);
  add(step);
}

/* The outputs of a step at the run's place, which only read the run's inputs. */
static decode_result expect(decode_run *run, plain_fault fault)
{
  const decode_shape *shape = run->model->shape;
  const yk_head_layout *heads = &run->scene_shape.heads;
  const int64_t width = yk_head_layout_width(heads), hidden = shape->hidden;
  decode_result expected = decode_result_new(shape, run->model->dev->dtype);
  plain_step step = {.run = run, .shape = shape, .fault = fault, .residual = expected.values};
  step.x = new_row(hidden);
  step.row = new_row(width > 2 * shape->ffn ? width : 2 * shape->ffn);
  step.heads = new_row((int64_t)heads->n_q_heads * heads->head_dim);
  step.result = new_row(hidden);
  memcpy(step.residual, run->residual.values, (size_t)hidden * sizeof(double));
  for (int32_t layer = 0; layer < shape->n_layers; layer++) run_layer(&step, layer);
  double *y = expected.values + hidden, *to = y + hidden;
  memcpy(y, run->y.values, (size_t)hidden * sizeof *y);
  if (!shape->lacks_final_norm) norm(&step, y, step.residual, &run->model->final_norm);
  for (int32_t i = 0; i < 2 * shape->n_layers; i++)
    for (int32_t h = 0; h < heads->n_kv_heads; h++, to += heads->head_dim)
      memcpy(to, decode_cache(run, i / 2, i % 2)->values + cache_index(heads, run->scene.slots[0], h),
             (size_t)heads->head_dim * sizeof *to);
  free(step.x), free(step.row), free(step.heads), free(step.result);
  return expected;
}

/* Two layers each: norms, biases, a factor of the sublayers' results, no final norm. */
static const decode_shape shapes[] = {
    {512, 384, 4, 2, 2, YK_GATED_SILU, DECODE_ALL_BIASES, true, false, 0.5f, .group = 0},
    {384, 256, 3, 1, 2, {YK_ACTIVATION_GELU_TANH, true, 0, 0}, DECODE_QV_BIASES, false, true, 1.0f, .group = 0},
    {256, 256, 2, 2, 2, {YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 1.25f}, 0, false, false, 1.0f, .group = 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* The separate operations' outputs against those of a plain computation with a fault: the largest error in units of the
 * bounds. Without a fault every output above its bound is printed. */
static double largest_error(const op_target *target, yk_dtype dtype, const decode_shape *shape, int32_t n_tokens,
                            plain_fault fault, int *n_wrong)
{
  yk_device *dev = op_device_new(target, dtype, 2, 16);
  decode_shape with_gain = *shape;
  with_gain.v_gain = decode_v_gain(n_tokens);
  decode_weights *weights = decode_weights_new(&with_gain, dtype);
  decode_model *model = decode_model_new(dev, weights);
  decode_run *run = decode_run_new(model, n_tokens);
  decode_result found = decode_result_new(shape, dtype);
  decode_fill(run, n_tokens - 1);
  decode_place(run, n_tokens - 1);
  decode_compose(run);
  decode_fetch(run, &found);
  decode_result expected = expect(run, fault);
  double largest = 0.0;
  for (int i = 0; i < decode_n_outputs(shape); i++)
    largest = fmax(largest, decode_error(&found, &expected, i) / decode_limit(dtype, i));
  if (n_wrong) *n_wrong = decode_count_wrong(&found, &expected, yk_dtype_name(dtype));
  decode_result_free(&found);
  decode_result_free(&expected);
  decode_run_free(run);
  decode_model_free(model);
  decode_weights_free(weights);
  dev->ops->destroy(dev);
  return largest;
}

static void check_steps(const op_target *target)
{
  static const int32_t lengths[] = {17, 1, 2, 300};
  const size_t n_lengths = TEST_IS_SANITIZED ? 1 : sizeof lengths / sizeof *lengths;
  const plain_fault right = {.fault = OP_RIGHT};
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++)
    for (int c = 0; each_case(c, c < N_SHAPES); c++)
      for (size_t i = 0; each_case(i, i < n_lengths); i++) {
        int n_wrong = 0;
        const double largest = largest_error(target, op_dtypes[d], &shapes[c], lengths[i], right, &n_wrong);
        assert_int_equal(n_wrong, 0);
        if (largest > 0.5) fail_msg("%s: error of %.3g times the bound", yk_dtype_name(op_dtypes[d]), largest);
      }
}

static void test_operations_agree_with_a_plain_computation(void **state)
{
  (void)state;
  for_each_cpu_target(check_steps);
}

/* The bounds of 16 bits, within which the results of other devices have to be, exclude each fault. */
static void test_planted_faults_are_seen(void **state)
{
  static const struct {
    plain_fault fault;
    int32_t n_tokens;
  } faults[] = {
      {{.fault = OP_NIBBLE_ORDER}, 17},
      {{.fault = OP_NO_SCALE}, 17},
      {{.fault = OP_ZERO_PLUS_ONE}, 17},
      {{.fault = OP_NO_BIAS}, 17},
      {{.fault = OP_GATE_UP_SWAPPED}, 1},
      {{.fault = OP_NO_RESIDUAL}, 17},
      {{.fault = OP_NO_ALPHA}, 17},
      {{.fault = OP_NO_NORM_WEIGHT}, 17},
      {{.fault = OP_ROPE_INTERLEAVED}, 17},
      {{.fault = OP_ROPE_LATE}, 17},
      {{.fault = OP_NO_QK_NORM}, 17},
      {{.fault = OP_MASK_EARLY}, 2},
      {{.fault = OP_MASK_EARLY}, 257},
      {{.fault = OP_WRONG_KV_HEAD}, 17},
      {{.fault = OP_BLOCKS_IN_ORDER}, 100},
      {{.fault = OP_NO_SOFTMAX_SCALE}, 17},
      {{.repeats_layer = true}, 17},
      {{.n_lost = 1}, 100},
      {{.n_lost = 16}, 1000},
      {{.n_lost = 64}, 8192},
  };
  const op_target target = {.name = "the best", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  (void)state;
  for (int d = 0; each_case(d, d < 2); d++)
    for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++) {
      if (TEST_IS_SANITIZED && faults[i].n_tokens > 300) continue;
      const double largest =
          largest_error(&target, op_dtypes[d], &shapes[0], faults[i].n_tokens, faults[i].fault, NULL);
      if (!(largest > 1.4))
        fail_msg("%s: the fault gives an error of %.3g times the bound", yk_dtype_name(op_dtypes[d]), largest);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations_agree_with_a_plain_computation),
                                     cmocka_unit_test(test_planted_faults_are_seen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
