/* test_quantize_observer.c - what an observer is shown of a mixture of experts whose operations are handed over
 * together: every layer that a row passes, and the routing. */
#include "quantize/observer.h"

#include "op/op_cases_mixture.h"
#include "op/op_cpu_target.h"

typedef struct shown {
  const yk_linear *forwards[4], *grouped[4];
  int n_forwards, n_grouped, n_routes;
} shown;

static yk_status on_forward(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *error)
{
  (void)args, (void)error;
  shown *s = user;
  assert_true(s->n_forwards < 4);
  s->forwards[s->n_forwards++] = linear;
  return YK_OK;
}

/* Nothing that was shown already is left for the device to do. */
static yk_status on_grouped(void *user, const yk_linear *linear, const yk_linear_grouped_args *args, yk_err *error)
{
  (void)error;
  shown *s = user;
  assert_true(s->n_grouped < 4 && !args->route && !args->beside);
  s->grouped[s->n_grouped++] = linear;
  return YK_OK;
}

static yk_status on_route(void *user, const yk_route_args *args, yk_err *error)
{
  (void)args, (void)error;
  ((shown *)user)->n_routes++;
  return YK_OK;
}

static void test_mixture(void **state)
{
  (void)state;
  const op_target target = {.name = "portable", .create = cpu_target_create, .variant = yk_cpu_simd_find("portable")};
  const mixture_case *c = &mixture_cases[0];
  yk_device *dev = op_device_new(&target, YK_F32, 1, 16);
  const mixture_shapes shapes = mixture_shapes_of(c);
  mixture_layers layers = mixture_layers_new(dev, &shapes, c->n_rows);
  shown seen = {.n_forwards = 0};
  yk_observer observer = {.on_forward = on_forward, .on_grouped = on_grouped, .on_route = on_route, .user = &seen};
  bool is_done;
  op_array expected = mixture_forward(dev, c, &layers, NULL, MIXTURE_TOGETHER, &is_done);
  yk_observer_attach(&observer, dev);
  op_array y = mixture_forward(dev, c, &layers, NULL, MIXTURE_IN_ONE, &is_done);
  yk_observer_detach(&observer, dev);
  assert_memory_equal(y.bytes, expected.bytes, y.n * sizeof(float));
  assert_false(is_done);
  assert_int_equal(seen.n_routes, 1);
  assert_int_equal(seen.n_grouped, 2);
  assert_ptr_equal(seen.grouped[0], layers.gate_up.linear);
  assert_ptr_equal(seen.grouped[1], layers.down.linear);
  assert_int_equal(seen.n_forwards, 3);
  assert_ptr_equal(seen.forwards[0], layers.shared_gate_up.linear);
  assert_ptr_equal(seen.forwards[1], layers.router.linear);
  assert_ptr_equal(seen.forwards[2], layers.shared_down.linear);
  op_array_free(dev, &y), op_array_free(dev, &expected);
  mixture_layers_free(dev, &layers);
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixture)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
