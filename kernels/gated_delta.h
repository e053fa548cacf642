/* gated_delta.h - the operation of gated delta nets (Yang, Kautz and Hatamizadeh 2024; Qwen3-Next, Qwen3.5): linear
 * attention with a state of fixed size per sequence.
 *
 * For each value head, with the q and k of its key head and the state S [key_dim, value_dim], token by token in
 * float32:
 *
 *   (q, k, v) = silu(depthwise causal convolution of (q, k, v) with YK_DELTA_TAPS inputs per channel)
 *   q = q / |q| / sqrt(key_dim), k = k / |k|     |q|^2 and |k|^2 plus 1e-6
 *   S = exp(-rate * softplus(a + dt_bias)) S     the decay precedes the delta
 *   S = S + k (sigmoid(b) (v - S^T k))^T
 *   y = round(norm_w * rms_norm(S^T q) * silu(z))
 *
 * The state of a sequence is all S of the rank's value heads and the last YK_DELTA_TAPS - 1 inputs of each channel of
 * the convolution, in float32. It depends only on the sequence's tokens: the CPU device computes the same bits for
 * every division of the tokens into steps and for every set of other sequences in a step. */
#ifndef YK_KERNELS_GATED_DELTA_H
#define YK_KERNELS_GATED_DELTA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct yk_batch;

enum {
  YK_DELTA_TAPS = 4,       /* inputs of an output of the convolution */
  YK_DELTA_CHUNK = 64,     /* rows of a whole chunk, in devices that compute chunks: YK_STATE_SAVE_TOKENS */
  YK_DELTA_HEAD_UNIT = 16, /* heads have a multiple of this many elements */
  YK_DELTA_MAX_HEAD_DIM = 256
};

/* The heads of this rank, and the columns of a row of x. Value heads h * values_per_key and following read key head
 * h. */
typedef struct yk_delta_layout {
  int32_t n_key_heads, values_per_key;
  int32_t key_dim, value_dim;
  /* First columns of q, k, v, z, b and a: for key head 0 and its value heads, which are neighbours. */
  int64_t q, k, v, z, b, a;
  int64_t qk_step, v_step, z_step, ba_step; /* columns from one key head to the next */
  int64_t x_stride;                         /* elements between rows of x */
} yk_delta_layout;

static inline int32_t yk_delta_n_value_heads(const yk_delta_layout *layout)
{
  return layout->n_key_heads * layout->values_per_key;
}

/* yk_delta_channels - channels of the convolution, in this order: q of all key heads, k, v of all value heads. */
static inline int64_t yk_delta_channels(const yk_delta_layout *layout)
{
  return (int64_t)layout->n_key_heads * (2 * layout->key_dim + layout->values_per_key * layout->value_dim);
}

/* yk_delta_state_floats - floats of a sequence's state: S [value heads, key_dim, value_dim], then the inputs
 * [YK_DELTA_TAPS - 1, channels], oldest first. */
static inline int64_t yk_delta_state_floats(const yk_delta_layout *layout)
{
  return (int64_t)yk_delta_n_value_heads(layout) * layout->key_dim * layout->value_dim +
         (YK_DELTA_TAPS - 1) * yk_delta_channels(layout);
}

/* yk_delta_scratch_floats - floats of scratch for a row: for each key head, q and k; for each value head, one row of
 * each of two chunk matrices, all in 16 bits per element, and two floats. */
static inline int64_t yk_delta_scratch_floats(const yk_delta_layout *layout)
{
  const int64_t of_values = yk_delta_n_value_heads(layout) * (YK_DELTA_CHUNK + 2);
  return ((int64_t)layout->n_key_heads * layout->key_dim + of_values + 3) / 4 * 4;
}

/* gated_delta, for rows whose q, k, v, z, b and a have been projected. Each sequence begins with the state that
 * state_loads of the batch names, and leaves the state after its last row in states[seq_slots[seq]]. If state_saves
 * names an entry, the state after state_save_rows rows is also copied to that entry of snapshots. Padding sequences
 * have no state. */
typedef struct yk_gated_delta_args {
  void *y;        /* act [n_tokens, value heads, value_dim], which must not alias x */
  const void *x;  /* act [n_tokens, x_stride] */
  float *scratch; /* [n_tokens, scratch_floats], for devices that compute chunks */
  yk_delta_layout layout;
  const float *conv_w;         /* [YK_DELTA_TAPS, channels], the newest input last */
  const float *rate, *dt_bias; /* [value heads] */
  const float *norm_w;         /* [value_dim] */
  float norm_eps;
  float *states;    /* [max_seqs, state_floats] */
  float *snapshots; /* [n_state_entries, state_floats]; NULL if there are none */
  const struct yk_batch *batch;
} yk_gated_delta_args;

#ifdef __cplusplus
}
#endif
#endif
