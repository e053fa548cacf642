/* op_reference.h - every layer operation as a plain float64 loop, from its definition and independent of Yoke's code.
 *
 * fault makes a reference wrong on purpose: the tests prove that the comparison detects each fault. */
#ifndef YK_TESTS_OP_REFERENCE_H
#define YK_TESTS_OP_REFERENCE_H

#include "op/op_harness.h"

typedef enum op_fault {
  OP_RIGHT,
  OP_NIBBLE_ORDER,  /* AWQ columns taken in sequence from their word */
  OP_NO_SCALE,      /* AWQ scale of the second group dropped */
  OP_ZERO_PLUS_ONE, /* AWQ zero points stored minus one */
  OP_GROUP_SHIFT,   /* AWQ groups counted from the start of the slice, not of the weight */
  OP_NO_BIAS,
  OP_GATE_UP_SWAPPED, /* f(up) * gate */
  OP_NO_RESIDUAL,
  OP_NO_ALPHA,
  OP_LOST_PARTIAL,
  OP_NO_NORM_WEIGHT,
  OP_NO_EPS,
  OP_ROPE_INTERLEAVED, /* neighbours rotated with each other */
  OP_ROPE_LATE,        /* angle of the next position */
  OP_NO_QK_NORM,
  OP_MASK_LATE,   /* a row also attends to the next token */
  OP_MASK_EARLY,  /* a row does not attend to itself */
  OP_WINDOW_WIDE, /* one token more than the window */
  OP_WRONG_KV_HEAD,
  OP_BLOCKS_IN_ORDER, /* block table ignored */
  OP_NO_SOFTMAX_SCALE
} op_fault;

/* See kernels/activation.h; test_op_cpu_simd compares this with torch's and transformers' functions. Without a gate, up
 * is 1. */
static inline double op_activated(const yk_activation *a, double gate, double up)
{
  const double root = 0.7071067811865476, root_2_over_pi = 0.7978845608028654;
  switch (a->kind) {
  case YK_ACTIVATION_SILU: return gate / (1.0 + exp(-gate)) * up;
  case YK_ACTIVATION_GELU_TANH:
    return 0.5 * gate * (1.0 + tanh(root_2_over_pi * (gate + 0.044715 * gate * gate * gate))) * up;
  case YK_ACTIVATION_GELU_ERF: return 0.5 * gate * erfc(-gate * root) * up;
  case YK_ACTIVATION_RELU2: return gate > 0.0 ? gate * gate * up : 0.0 * up;
  case YK_ACTIVATION_CLAMPED_SWIGLU: {
    double g = fmin(gate, (double)a->limit), u = fmax(fmin(up, (double)a->limit), -(double)a->limit);
    return g / (1.0 + exp(-(double)a->alpha * g)) * (u + 1.0);
  }
  default: return gate * up;
  }
}

/* y[n] = round(round(x / rms) * w): the two roundings are part of the definition, so the inner one is done here. */
static inline void op_ref_rms_norm(yk_dtype dtype, double *y, const double *x, const double *w, int n, double eps,
                                   op_fault fault)
{
  double squares = 0.0;
  for (int i = 0; i < n; i++) squares += x[i] * x[i];
  double factor = 1.0 / sqrt(squares / n + (fault == OP_NO_EPS ? 0.0 : eps));
  for (int i = 0; i < n; i++) {
    uint32_t rounded = 0;
    yk_dtype_store(dtype, &rounded, 0, (float)(x[i] * factor));
    y[i] = (double)yk_dtype_load(dtype, &rounded, 0) * (fault == OP_NO_NORM_WEIGHT ? 1.0 : w[i]);
  }
}

/* One head: first half with second half, angle position * inv_freq[i]. */
static inline void op_ref_rope(double *y, const double *x, int head_dim, int position, const double *inv_freq,
                               op_fault fault)
{
  int half = head_dim / 2;
  for (int i = 0; i < half; i++) {
    double angle = (position + (fault == OP_ROPE_LATE)) * inv_freq[i];
    int a = fault == OP_ROPE_INTERLEAVED ? 2 * i : i, b = fault == OP_ROPE_INTERLEAVED ? 2 * i + 1 : i + half;
    y[a] = x[a] * cos(angle) - x[b] * sin(angle);
    y[b] = x[b] * cos(angle) + x[a] * sin(angle);
  }
}

/* In parallel chains of additions, for speed. */
static inline double op_dot(const double *a, const double *b, int64_t n)
{
  enum { CHAINS = 8 };
  double sums[CHAINS] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + CHAINS <= n; i += CHAINS)
    for (int32_t j = 0; j < CHAINS; j++) sums[j] += a[i + j] * b[i + j];
  for (; i < n; i++) sum += a[i] * b[i];
  for (int32_t j = 0; j < CHAINS; j++) sum += sums[j];
  return sum;
}

/* The sum of the products' absolute values. */
static inline double op_dot_magnitude(const double *a, const double *b, int64_t n)
{
  enum { CHAINS = 8 };
  double sums[CHAINS] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + CHAINS <= n; i += CHAINS)
    for (int32_t j = 0; j < CHAINS; j++) sums[j] += fabs(a[i + j] * b[i + j]);
  for (; i < n; i++) sum += fabs(a[i] * b[i]);
  for (int32_t j = 0; j < CHAINS; j++) sum += sums[j];
  return sum;
}

/* One query over keys and values [n_tokens, head_dim] of its sequence, row i of which is token i. Thread: any. */
static inline void op_ref_attention(double *y, const double *query, const double *keys, const double *values,
                                    int position, int n_tokens, int window, int head_dim, double scale, op_fault fault)
{
  int last = position + (fault == OP_MASK_LATE) - (fault == OP_MASK_EARLY);
  if (last > n_tokens - 1) last = n_tokens - 1;
  if (last < 0) last = 0;
  int first = window > 0 ? position - window + 1 - (fault == OP_WINDOW_WIDE) : 0;
  if (first < 0) first = 0;
  double *scores = calloc((size_t)n_tokens, sizeof *scores);
  double highest = -INFINITY, sum = 0.0;
  if (!scores) abort();
  for (int t = first; t <= last; t++) {
    scores[t] = op_dot(query, keys + (int64_t)t * head_dim, head_dim) * (fault == OP_NO_SOFTMAX_SCALE ? 1.0 : scale);
    highest = fmax(highest, scores[t]);
  }
  for (int i = 0; i < head_dim; i++) y[i] = 0.0;
  for (int t = first; t <= last; t++) {
    double weight = exp(scores[t] - highest);
    sum += weight;
    for (int i = 0; i < head_dim; i++) y[i] += weight * values[(int64_t)t * head_dim + i];
  }
  for (int i = 0; i < head_dim; i++) y[i] /= sum;
  free(scores);
}

#endif
