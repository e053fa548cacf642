/* prompt_pace.h - how many rows a long prompt gets of a step that also decodes, so that the step takes at most about
 * twice the time of a step that only decodes.
 *
 * The time of a step is no simple function of its rows: the tiles of GEMMs make steps, and attention costs more the
 * more tokens of the prompt are computed already. Therefore times are measured, and the number of rows follows them:
 * down by a quarter after a step that took more than twice the time of decodes, up by a quarter after GROWTH_STEPS
 * steps in a row below one and a half times. Between both bounds the number stays, since the next tile of a GEMM may
 * cost as much as a third of a step. After PROBE_STEPS steps with the prompt, or before the first one if no step has
 * only decoded yet, one step leaves the prompt out and so measures decodes alone. */
#ifndef YK_ENGINE_LOOP_PROMPT_PACE_H
#define YK_ENGINE_LOOP_PROMPT_PACE_H

#include <stdint.h>

/* Rows of a step. A prompt with at most the most rows left is not long. On GPUs fewer than 64 rows cost almost as much;
 * on CPU ranks the time is nearly proportional to the rows. */
enum { YK_PACE_FEWEST_ROWS = 64, YK_PACE_FEWEST_CPU_ROWS = 16, YK_PACE_FIRST_ROWS = 128, YK_PACE_MOST_ROWS = 512 };

typedef struct yk_prompt_pace {
  int32_t n_rows, fewest_rows;
  int64_t decode_ns; /* a step that only decodes; 0: not measured */
  int32_t n_since;   /* steps with a prompt since decodes were last alone, or were to be; -1: never */
  int32_t n_quick;   /* consecutive steps with a prompt that had time for more rows */
} yk_prompt_pace;

/* yk_prompt_pace_init - fewest_rows: 1 to YK_PACE_FIRST_ROWS. */
void yk_prompt_pace_init(yk_prompt_pace *pace, int32_t fewest_rows);

/* yk_prompt_pace_next - rows of a long prompt in the step that is planned, which decodes too; 0: the step only
 *   measures decodes. */
int32_t yk_prompt_pace_next(yk_prompt_pace *pace);

/* yk_prompt_pace_decoded, yk_prompt_pace_mixed - a step that only decoded took ns; a step that decoded and computed as
 *   many rows of a long prompt as yk_prompt_pace_next gave. */
void yk_prompt_pace_decoded(yk_prompt_pace *pace, int64_t ns);
void yk_prompt_pace_mixed(yk_prompt_pace *pace, int64_t ns);

#endif
