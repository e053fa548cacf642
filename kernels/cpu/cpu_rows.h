/* cpu_rows.h - operations on one row, shared by operations of the CPU device. */
#ifndef YK_KERNELS_CPU_ROWS_H
#define YK_KERNELS_CPU_ROWS_H

#include "kernels/cpu/cpu_device.h"

/* yk_cpu_norm_row - y = round(round(x * rsqrt(mean(x^2) + eps)) * w), without the product if w is NULL.
 *   x, y, w act [n]; y may be x. */
void yk_cpu_norm_row(const yk_cpu_device *cpu, void *y, const void *x, const void *w, int32_t n, float eps);

/* yk_cpu_rotate - rotary embedding of head [head_dim] in place: its first half with its second half.
 *   rope: [2, head_dim / 2] of the position, cos then sin. */
void yk_cpu_rotate(float *head, const float *rope, int32_t head_dim);

/* State of one query while it processes its tokens: softmax with a running maximum and sum (online softmax; Milakov and
 * Gimelshein 2018). Initially maximum is -INFINITY, sum is 0 and the output is zeros. */
typedef struct yk_cpu_query {
  const float *q; /* [dim], already multiplied by the scale */
  float *output;  /* [dim] weighted sum of values so far, to be divided by sum */
  float maximum, sum;
} yk_cpu_query;

/* yk_cpu_attend - the query processes n more tokens, at most YK_KV_BLOCK_TOKENS.   keys, values: [n, dim] */
void yk_cpu_attend(const yk_cpu_simd *simd, yk_cpu_query *query, const float *keys, const float *values, int n,
                   size_t dim);

#endif
