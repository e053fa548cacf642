/* int8_blocks.c - unpacked bytes, output by output; a block of outputs and inputs shares a scale, and the last block in
 * either direction may be partial. */
#include "loader/integers/int8_packing.h"

static void scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  int64_t first = groups->output / weight->group_n * yk_int8_n_groups(weight) + groups->first;
  yk_int8_floats(weight->dtype, weight->scales, first, 1, groups->n, to);
}

const yk_int8_ops yk_int8_blocks = {.read = yk_int8_read_rows, .scales = scales};
