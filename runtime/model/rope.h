/* rope.h - rotary position embedding: frequencies and the table of cosines and sines that every device reads.
 *
 * Frequencies follow transformers' modeling_rope_utils.py (default, linear, llama3, yarn, longrope, proportional) with
 * the same float32 rounding at each step, so that angles agree at long positions too.
 *
 * Devices rotate the first half of a head with its second half: position i forms a pair with position i + head_dim / 2.
 * Other layouts are converted while q and k are loaded: outputs are permuted within their head (yk_rotary_element). The
 * permutation is the same for q and k, so no product of q and k changes. Pairs that do not rotate have cosine 1 and
 * sine 0. Example, a head of 8 whose first 4 elements rotate as neighbours:
 *
 *   element in the checkpoint   0 2 4 5 1 3 6 7
 *   position on the device      0 1 2 3 4 5 6 7      0 with 4 and 1 with 5 rotate, 2 with 6 and 3 with 7 do not */
#ifndef YK_MODEL_ROPE_H
#define YK_MODEL_ROPE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/hf/hf_config.h"

/* yk_rope_frequencies - angle per position of each pair, after scaling.
 *   rotary_dim: how many elements of a head rotate; even, at most YK_MAX_HEAD_DIM.
 *   n_positions: the longest context. Longrope has other frequencies for a sequence from the token on that exceeds the
 *   original context, also for the tokens before, which the cache holds already. All contexts therefore have the
 *   frequencies of the longest one: those of short contexts (exact) if it is at most the original context.
 *   inv_freq: [rotary_dim / 2], written.
 *   Returns the factor that cosines and sines are multiplied by (1 except for yarn and longrope). */
float yk_rope_frequencies(const yk_rope_config *rope, int32_t rotary_dim, int32_t n_positions, float *inv_freq);

/* yk_rope_score_factor - the factor on the scores of latent attention that scaling requires: m(factor,
 *   mscale_all_dim)^2 for yarn (DeepSeek-V2's modeling_deepseek.py), else 1. */
float yk_rope_score_factor(const yk_rope_config *rope);

/* yk_rope_table_floats - floats in a table. */
static inline size_t yk_rope_table_floats(int32_t n_positions, int32_t head_dim)
{
  return (size_t)n_positions * (size_t)head_dim;
}

/* yk_rope_table_fill - table[n_positions][2][head_dim / 2]: per position a row of cosines, then a row of sines, of
 *   float32(position) * inv_freq, for the pairs up to rotary_dim / 2; then 1 and 0. Never fails, never allocates.
 *   Thread: any. */
void yk_rope_table_fill(const yk_rope_config *rope, int32_t head_dim, int32_t rotary_dim, int32_t n_positions,
                        float *table);

/* yk_rotary_element - the checkpoint's element of a head that devices keep at position `place`, 0 to head_dim - 1.
 *   interleaved: elements 2i and 2i + 1 are a pair, else i and i + rotary_dim / 2. rotary_dim: even, at most head_dim,
 *   which is even. Thread: any. */
int32_t yk_rotary_element(int32_t head_dim, int32_t rotary_dim, bool interleaved, int32_t place);

#endif
