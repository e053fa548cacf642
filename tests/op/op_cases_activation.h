/* op_cases_activation.h - every activation, gated and not, after every weight format, against float64. */
#ifndef YK_TESTS_OP_CASES_ACTIVATION_H
#define YK_TESTS_OP_CASES_ACTIVATION_H

#include "op/op_cases_grouped.h"

/* Layers of two parts are gated. */
static const linear_case activation_shapes[] = {
    {.parts = {{256, 88, 64, YK_F16, {0, 256}, {8, 72}, 64, true}, {256, 88, 64, YK_F16, {0, 256}, {8, 72}, 64, true}},
     .n_parts = 2},
    {.parts = {{128, 88, 64, YK_F16, {0, 128}, {8, 52}, 64, true}, {128, 50, 0, YK_BF16, {0, 128}, {6, 50}, 0, true}},
     .n_parts = 2, /* formats mixed */
     .y_pad = 1},
    {.parts = {{48, 40, 0, YK_F16, {0, 48}, {0, 40}, 0, false}, {48, 40, 0, YK_F16, {0, 48}, {0, 40}, 0, false}},
     .n_parts = 2},
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true},
               {256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true}},
     .n_parts = 2}, /* integers of 8 bits */
    {.parts = {{256, 64, 128, YK_F16, {0, 256}, {0, 64}, 128, true}}, .n_parts = 1},
    {.parts = {{130, 67, 0, YK_BF16, {9, 130}, {5, 66}, 0, true}}, .n_parts = 1, .y_pad = 3},
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true}}, .n_parts = 1},
};
enum { N_ACTIVATION_SHAPES = sizeof activation_shapes / sizeof *activation_shapes };

/* A layer's activation of a kind; false if the kind needs a gate and the layer has none. A small limit, so that many
 * values are clamped. */
static inline bool activation_of(yk_activation_kind kind, linear_case *shape)
{
  shape->activation = (yk_activation){kind, shape->n_parts == 2, 1.702f, 0.75f};
  return kind != YK_ACTIVATION_CLAMPED_SWIGLU || shape->activation.is_gated;
}

/* tolerance_of: the largest normalised error of a layer with an activation. */
static inline void check_activation(const op_target *target, yk_dtype dtype, linear_case shape, int kind,
                                    double (*tolerance_of)(yk_dtype dtype, const linear_case *shape))
{
  static const int32_t token_counts[] = {1, 7, 40, 300};
  if (!activation_of((yk_activation_kind)kind, &shape)) return;
  for (size_t t = 0; each_case(t, t < sizeof token_counts / sizeof *token_counts); t++) {
    double error = linear_error(target, dtype, &shape, token_counts[t], 300 + (uint32_t)kind, OP_RIGHT),
           tolerance = tolerance_of(dtype, &shape);
    if (!(error <= tolerance))
      fail_msg("%s %s activation %d, %d tokens: error %.3g, tolerance %.3g", target->name, yk_dtype_name(dtype), kind,
               token_counts[t], error, tolerance);
  }
  if (shape.parts[0].k_slice.begin == 0 && shape.y_pad == 0)
    check_linear_grouped(target, dtype, &shape, kind % 2 == 0, target->lacks_f32 ? tolerance_of(dtype, &shape) : 0.0);
}

static inline void check_activations(const op_target *target, yk_dtype dtype,
                                     double (*tolerance_of)(yk_dtype dtype, const linear_case *shape))
{
  for (int kind = YK_ACTIVATION_SILU; each_case(kind, kind < YK_N_ACTIVATIONS); kind++)
    for (int s = 0; each_case(s, s < N_ACTIVATION_SHAPES); s++)
      check_activation(target, dtype, activation_shapes[s], kind, tolerance_of);
}

/* A wrong activation is detected: each reference differs from every other layer's results. */
static inline void check_activations_differ(const op_target *target, yk_dtype dtype)
{
  for (int kind = YK_ACTIVATION_SILU; each_case(kind, kind < YK_N_ACTIVATIONS); kind++)
    for (int other = YK_ACTIVATION_SILU; each_case(other, other < YK_N_ACTIVATIONS); other++) {
      linear_case shape = activation_shapes[0], wrong = shape;
      if (kind == other || !activation_of((yk_activation_kind)kind, &shape)) continue;
      activation_of((yk_activation_kind)other, &wrong);
      yk_device *dev = op_device_new(target, dtype, 3, 16);
      linear_run run = linear_run_new(dev, &shape, 7, 300);
      op_array y = linear_run_forward(dev, &run, 0, 7);
      double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
      assert_non_null(magnitudes);
      run.shape = &wrong;
      double *expected = linear_run_expect(&run, OP_RIGHT, magnitudes);
      const bool are_gelus = kind + other == YK_ACTIVATION_GELU_TANH + YK_ACTIVATION_GELU_ERF;
      assert_true(linear_run_error(&y, expected, magnitudes, run.k_local) > (are_gelus ? 2e-5 : 1e-2));
      free(expected);
      free(magnitudes);
      op_array_free(dev, &y);
      linear_run_free(dev, &run);
      dev->ops->destroy(dev);
    }
}

#endif
