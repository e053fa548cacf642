/* activation.h - the functions between the two products of an FFN, as a parameter of a linear layer (linear.h).
 *
 *   kind             f(x)
 *   SILU             x / (1 + exp(-x))
 *   GELU_TANH        x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is x / (1 + exp(-2 sqrt(2 / pi) (...)))
 *   GELU_ERF         x / 2 (1 + erf(x / sqrt(2)))
 *   RELU2            max(x, 0)^2
 *   CLAMPED_SWIGLU   only gated: with g = min(gate, limit), u = max(min(up, limit), -limit):
 *                    y = g / (1 + exp(-alpha g)) (u + 1)
 *
 * A gated layer has two parts of equal n, gate and up: y = f(gate) * up, n columns. Other layers have one part: y =
 * f(x). Arithmetic is float32; y is rounded once. A NaN stays a NaN. Sources: torch.nn.functional (silu, gelu),
 * transformers' ACT2FN (relu2) and GptOssExperts. */
#ifndef YK_KERNELS_ACTIVATION_H
#define YK_KERNELS_ACTIVATION_H

#include <stdbool.h>

typedef enum yk_activation_kind {
  YK_ACTIVATION_NONE, /* y = x */
  YK_ACTIVATION_SILU,
  YK_ACTIVATION_GELU_TANH,
  YK_ACTIVATION_GELU_ERF,
  YK_ACTIVATION_RELU2,
  YK_ACTIVATION_CLAMPED_SWIGLU,
  YK_N_ACTIVATIONS
} yk_activation_kind;

typedef struct yk_activation {
  yk_activation_kind kind;
  bool is_gated;
  float alpha, limit; /* for CLAMPED_SWIGLU: finite, limit above 0 */
} yk_activation;

/* Initialisers of a yk_activation. */
#define YK_NO_ACTIVATION                                                                                               \
  {                                                                                                                    \
    YK_ACTIVATION_NONE, false, 0, 0                                                                                    \
  }
#define YK_GATED_SILU                                                                                                  \
  {                                                                                                                    \
    YK_ACTIVATION_SILU, true, 0, 0                                                                                     \
  }

#endif
