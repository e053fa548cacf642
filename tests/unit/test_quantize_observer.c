/* test_quantize_observer.c - calls of an observer for a mixture of experts: the values between its parts, which equal
 * those of the separate parts, and no separate forwards of its layers. */
#include "quantize/observer.h"

#include "op/op_cases_mixture.h"
#include "op/op_cpu_target.h"

typedef struct shown {
  yk_device *dev;
  const mixture_case *c;
  const mixture_layers *layers;
  const void *x;
  int n_forwards, n_mixtures;
  bool is_checking; /* forwards go through the test */
  double inner_error;
} shown;

static yk_status on_forward(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *error)
{
  (void)linear, (void)args, (void)error;
  shown *s = user;
  if (!s->is_checking) s->n_forwards++;
  return YK_OK;
}

/* Down's inputs of each choice: the output of the chosen expert's gate and up for the row alone. */
static double inner_error(yk_device *dev, const shown *s, const yk_mixture_taps *taps)
{
  const int32_t top_k = mixture_route(s->c).top_k, n_choices = s->c->n_rows * top_k;
  double worst = 0.0;
  for (int32_t i = 0; i < n_choices; i++) {
    const int expert = taps->choices[i] - 1, row = i / top_k; /* the rank holds experts from 1 on */
    if (taps->slot_of_choice[i] < 0) continue;
    linear_run run = s->layers->gate_up.runs[expert];
    run.x = s->layers->router.x;
    op_array alone = linear_run_forward(dev, &run, row, 1);
    double values[1024];
    const size_t width = (size_t)s->c->ffn;
    assert_true(width <= 1024);
    for (size_t j = 0; j < width; j++)
      values[j] = (double)yk_dtype_load(dev->dtype, taps->inner, (size_t)taps->slot_of_choice[i] * width + j);
    worst = fmax(worst, op_error(values, alone.values, width));
    op_array_free(dev, &alone);
  }
  return worst;
}

static yk_status on_mixture(void *user, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *error)
{
  (void)error;
  shown *s = user;
  assert_ptr_equal(mixture->spec.down, s->layers->down.linear);
  assert_ptr_equal(args->x->rows, s->x);
  s->is_checking = true;
  linear_run shared = s->layers->shared_gate_up;
  shared.x = s->layers->router.x;
  op_array expected = linear_run_forward(s->dev, &shared, 0, s->c->n_rows);
  for (int32_t row = 0; row < s->c->n_rows; row++)
    assert_memory_equal((const float *)args->taps->shared_inner + row * s->c->shared_ffn,
                        (const float *)expected.bytes + row * shared.y_stride,
                        (size_t)s->c->shared_ffn * sizeof(float));
  op_array_free(s->dev, &expected);
  s->inner_error = inner_error(s->dev, s, args->taps);
  s->is_checking = false;
  s->n_mixtures++;
  return YK_OK;
}

static void test_mixture(void **state)
{
  (void)state;
  const op_target target = {.name = "portable", .create = cpu_target_create, .variant = yk_cpu_simd_find("portable")};
  const mixture_case c = {.n_rows = 7, .hidden = 416, .ffn = 96, .shared_ffn = 160, .group = 32, .shared_group = 32};
  yk_device *dev = op_device_new(&target, YK_F32, 1, 16);
  const mixture_shapes shapes = mixture_shapes_of(&c);
  mixture_layers layers = mixture_layers_new(dev, &c, &shapes);
  shown seen = {.dev = dev, .c = &c, .layers = &layers, .x = layers.router.x.dev, .inner_error = 1.0};
  yk_observer observer = {.on_forward = on_forward, .on_mixture = on_mixture, .user = &seen};
  yk_normed x = {.rows = layers.router.x.dev};
  op_array expected = mixture_forward(dev, &c, &layers, NULL, mixture_whole, &x);
  yk_observer_attach(&observer, dev);
  op_array y = mixture_forward(dev, &c, &layers, NULL, mixture_whole, &x);
  yk_observer_detach(&observer, dev);
  assert_memory_equal(y.bytes, expected.bytes, y.n * sizeof(float));
  assert_int_equal(seen.n_mixtures, 1);
  assert_int_equal(seen.n_forwards, 0);
  assert_true(seen.inner_error == 0.0);
  op_array_free(dev, &y), op_array_free(dev, &expected);
  mixture_layers_free(dev, &layers);
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixture)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
