/* mamba.h - the operation of Mamba2 (Dao and Gu 2024; Nemotron-H, Nemotron-3): a state space layer with a state of
 * fixed size per sequence.
 *
 * For each head, with the b and c of its group and the state S [head_dim, state_size], token by token in float32:
 *
 *   (x, b, c) = silu(depthwise causal convolution of (x, b, c) with YK_MAMBA_TAPS inputs per channel + bias)
 *   step = softplus(dt + dt_bias), at least min_step and at most max_step
 *   S = exp(-rate * step) S + step x b^T
 *   y = S c + skip * x
 *
 * Then g = y * silu(z), and the result is round(norm_w * rms_norm(g)), where the mean of squares is that of all
 * elements of a group. The reference is NemotronHMamba2Mixer of transformers.
 *
 * The state of a sequence is all S of the rank's heads and the last YK_MAMBA_TAPS - 1 inputs of each channel of the
 * convolution, in float32. It depends only on the sequence's tokens: the CPU device computes the same bits for every
 * division of the tokens into steps and for every set of other sequences in a step. */
#ifndef YK_KERNELS_MAMBA_H
#define YK_KERNELS_MAMBA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct yk_batch;

enum {
  YK_MAMBA_TAPS = 4, /* inputs per channel that one output of the convolution reads */
  YK_MAMBA_UNIT = 16 /* head_dim and state_size are multiples of this */
};

/* The groups of this rank. Group g has the heads g * heads_per_group .. (g + 1) * heads_per_group - 1. A row of
 * yk_mamba_args.x is z [heads, head_dim], x [heads, head_dim], b [groups, state_size], c [groups, state_size] and dt
 * [heads], in this order. */
typedef struct yk_mamba_layout {
  int32_t n_groups, heads_per_group;
  int32_t head_dim, state_size;
} yk_mamba_layout;

static inline int32_t yk_mamba_n_heads(const yk_mamba_layout *layout)
{
  return layout->n_groups * layout->heads_per_group;
}

/* yk_mamba_width - elements of z, of the x within a row, and of a row of results. Thread: any, as all below. */
static inline int64_t yk_mamba_width(const yk_mamba_layout *layout)
{
  return (int64_t)yk_mamba_n_heads(layout) * layout->head_dim;
}

/* yk_mamba_channels - channels of the convolution: x, b, c, in this order. */
static inline int64_t yk_mamba_channels(const yk_mamba_layout *layout)
{
  return yk_mamba_width(layout) + 2 * (int64_t)layout->n_groups * layout->state_size;
}

/* yk_mamba_x_stride - elements of a whole row of yk_mamba_args.x. */
static inline int64_t yk_mamba_x_stride(const yk_mamba_layout *layout)
{
  return yk_mamba_width(layout) + yk_mamba_channels(layout) + yk_mamba_n_heads(layout);
}

/* yk_mamba_state_floats - floats of a sequence's state: S [heads, head_dim, state_size], then the last inputs of the
 * convolution [YK_MAMBA_TAPS - 1, channels], oldest first. */
static inline int64_t yk_mamba_state_floats(const yk_mamba_layout *layout)
{
  return yk_mamba_width(layout) * layout->state_size + (YK_MAMBA_TAPS - 1) * yk_mamba_channels(layout);
}

/* yk_mamba_scratch_floats - floats of scratch for a row: the results of the convolution [channels], then those of the
 * heads [width]. */
static inline int64_t yk_mamba_scratch_floats(const yk_mamba_layout *layout)
{
  return yk_mamba_channels(layout) + yk_mamba_width(layout);
}

/* mamba: Mamba2 between the input and the output projection. Each sequence begins with the state that the batch's
 * state_loads names, and its state after its last row is stored in states[seq_slots[seq]]. If state_saves names an
 * entry, the state after state_save_rows rows is also copied to that entry of snapshots. Padding sequences have no
 * state, and their rows of y are not written. Errors: YK_E_UNSUPPORTED if head_dim or state_size is not a multiple of
 * YK_MAMBA_UNIT. */
typedef struct yk_mamba_args {
  void *y;        /* act [n_tokens, width], which must not alias x */
  const void *x;  /* act [n_tokens, x_stride] */
  float *scratch; /* [n_tokens, scratch_floats] */
  yk_mamba_layout layout;
  const float *conv_w;                /* [YK_MAMBA_TAPS, channels], the newest input last */
  const float *conv_bias;             /* [channels] or NULL */
  const float *rate, *dt_bias, *skip; /* [heads]; rate = exp(A_log), skip = D of the checkpoint */
  const float *norm_w;                /* [width] */
  float min_step, max_step;           /* 0 <= min_step < max_step, which may be infinite */
  float norm_eps;
  float *states;    /* [max_seqs, state_floats] */
  float *snapshots; /* [n_state_entries, state_floats]; NULL if there are none */
  const struct yk_batch *batch;
} yk_mamba_args;

#ifdef __cplusplus
}
#endif
#endif
