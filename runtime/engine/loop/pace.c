#include "engine/loop/pace.h"

#include "base/checked.h"
#include "engine/loop/sequence_memory.h"

/* ROW_MULTIPLE: the rows of a GEMM's tile. FEWEST_ROWS: a sequence with recurrent states may need as many. */
enum { ROW_MULTIPLE = 64, FIRST_ROWS = 256, FEWEST_ROWS = 128, MOST_MIXED = 64 };
_Static_assert((int)FEWEST_ROWS >= (int)YK_STATE_STEP_ROWS, "a long prompt always progresses");

static double average(double so_far, double next)
{
  const double weight = 0.25;
  return so_far > 0 ? so_far + weight * (next - so_far) : next;
}

void yk_pace_observe(yk_pace *pace, int32_t n_decode_rows, int32_t n_prompt_rows, double seconds)
{
  if (n_decode_rows == 0) return;
  if (n_prompt_rows == 0) {
    pace->decode_s = average(pace->decode_s, seconds);
    pace->n_mixed = 0;
    return;
  }
  pace->n_mixed++;
  const double added_s = seconds - pace->decode_s;
  if (pace->decode_s > 0 && added_s > 0) pace->prompt_row_s = average(pace->prompt_row_s, added_s / n_prompt_rows);
}

int32_t yk_pace_rows(const yk_pace *pace, int32_t most)
{
  if (pace->factor <= 0) return most;
  if (pace->decode_s <= 0 || pace->n_mixed >= MOST_MIXED) return 0;
  double rows = FIRST_ROWS;
  if (pace->prompt_row_s > 0) rows = (pace->factor - 1) * pace->decode_s / pace->prompt_row_s;
  if (rows >= most) return most;
  const int32_t whole = (int32_t)rows / ROW_MULTIPLE * ROW_MULTIPLE;
  return (int32_t)yk_min_i64(yk_max_i64(whole, FEWEST_ROWS), most);
}
