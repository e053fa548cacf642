/* pace.h - the rows of long prompts in a step that also decodes, so that decodes keep their pace: such a step should
 * take at most `factor` times as long as a step of decodes alone. Arithmetic only: no device, no thread, no clock.
 *
 * Two times are averaged over recent steps: the time of a step of decodes alone, and the time that a prompt's row adds.
 * The first is out of date once decodes have had no step to themselves for a while; prompts then leave one step out. */
#ifndef YK_ENGINE_LOOP_PACE_H
#define YK_ENGINE_LOOP_PACE_H

#include <stdint.h>

typedef struct yk_pace {
  double factor;       /* 0: prompts take all rows of a step; else above 1 */
  double decode_s;     /* a step of decodes alone; 0: none so far */
  double prompt_row_s; /* time that a row of a prompt adds to a step of decodes; 0: none so far */
  int32_t n_mixed;     /* steps of both kinds of rows since the last of decodes alone */
} yk_pace;

/* yk_pace_observe - a step has run: with rows of decodes and of prompts, for so many seconds. */
void yk_pace_observe(yk_pace *pace, int32_t n_decode_rows, int32_t n_prompt_rows, double seconds);

/* yk_pace_rows - most rows of long prompts in the next step if it decodes; a multiple of 64 unless it is `most`, the
 *   rows of a step. 0: decodes should have the step to themselves. */
int32_t yk_pace_rows(const yk_pace *pace, int32_t most);

#endif
