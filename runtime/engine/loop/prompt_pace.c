#include "engine/loop/prompt_pace.h"

#include <stdbool.h>

#include "base/checked.h"

enum { PROBE_STEPS = 64, GROWTH_STEPS = 32, ROW_MULTIPLE = 16 };

void yk_prompt_pace_init(yk_prompt_pace *pace, int32_t fewest_rows)
{
  *pace = (yk_prompt_pace){.n_rows = YK_PACE_FIRST_ROWS, .fewest_rows = fewest_rows, .n_since = -1};
}

int32_t yk_prompt_pace_next(yk_prompt_pace *pace)
{
  const bool is_first = pace->decode_ns == 0 && pace->n_since < 0;
  if (!is_first && pace->n_since++ < PROBE_STEPS) return pace->n_rows;
  pace->n_since = 0;
  return 0;
}

/* A single slow step, as when the host was busy, must not permit many rows, so the time rises slowly. */
void yk_prompt_pace_decoded(yk_prompt_pace *pace, int64_t ns)
{
  const bool rises = pace->decode_ns > 0 && ns > pace->decode_ns;
  pace->n_since = 0;
  pace->decode_ns = rises ? pace->decode_ns + (ns - pace->decode_ns) / 4 : ns;
}

static int32_t quarter(int32_t n_rows)
{
  return (int32_t)yk_max_i64(n_rows / 4 / ROW_MULTIPLE * ROW_MULTIPLE, ROW_MULTIPLE);
}

void yk_prompt_pace_mixed(yk_prompt_pace *pace, int64_t ns)
{
  if (pace->decode_ns == 0) return;
  pace->n_quick = 2 * ns < 3 * pace->decode_ns ? pace->n_quick + 1 : 0;
  if (ns > 2 * pace->decode_ns)
    pace->n_rows = (int32_t)yk_max_i64(pace->n_rows - quarter(pace->n_rows), pace->fewest_rows);
  if (pace->n_quick < GROWTH_STEPS) return;
  pace->n_rows = (int32_t)yk_min_i64(pace->n_rows + quarter(pace->n_rows), YK_PACE_MOST_ROWS);
  pace->n_quick = 0;
}
