/* score_growth.h - a factor on the scores of attention that grows with the query's position. */
#ifndef YK_KERNELS_SCORE_GROWTH_H
#define YK_KERNELS_SCORE_GROWTH_H

#include <math.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The factor on scores of the query at position p: 1 + beta ln(1 + floor((p + shift) / period)), so 1 in the first
 * period. Sources: transformers' modeling_llama4.py (shift 1), modeling_ministral3.py (shift 0). */
typedef struct yk_score_growth {
  float beta;     /* 0: the factor is 1 everywhere */
  int32_t period; /* positions; at least 1 if beta is not 0 */
  int32_t shift;  /* number of positions by which each period begins earlier: 0 to period - 1 */
} yk_score_growth;

/* yk_score_growth_at - the factor at a position. Thread: any. */
static inline float yk_score_growth_at(const yk_score_growth *growth, int32_t position)
{
  if (growth->beta == 0 || position < growth->period - growth->shift) return 1;
  const int32_t n_periods = (int32_t)(((int64_t)position + growth->shift) / growth->period);
  return 1 + growth->beta * logf((float)(1 + n_periods));
}

#ifdef __cplusplus
}
#endif
#endif
