/* rope.h - rotary position embedding: frequencies and the table of cosines and sines that every device reads.
 *
 * Frequencies follow transformers' modeling_rope_utils.py (default, linear, llama3, yarn) with the same float32
 * rounding at each step, so that long positions turn by the same angle. The first half of a head rotates with its
 * second half. */
#ifndef YK_MODEL_ROPE_H
#define YK_MODEL_ROPE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/hf_config.h"

/* yk_rope_frequencies - angle per position of each pair, after scaling.
 *   head_dim: even, at most YK_MAX_HEAD_DIM. inv_freq: [head_dim / 2], written.
 *   Returns the factor that cosines and sines are multiplied by (1 except for yarn).                                 */
float yk_rope_frequencies(const yk_rope_config *rope, int32_t head_dim, float *inv_freq);

/* yk_rope_table_floats - floats in a table. */
static inline size_t yk_rope_table_floats(int32_t n_positions, int32_t head_dim)
{
  return (size_t)n_positions * (size_t)head_dim;
}

/* yk_rope_table_fill - table[n_positions][2][head_dim / 2]: per position a row of cosines, then a row of sines, of
 *   float32(position) * inv_freq. Never fails, never allocates. Thread: any.                                         */
void yk_rope_table_fill(const yk_rope_config *rope, int32_t head_dim, int32_t n_positions, float *table);

#endif
