/* int8_rows.c - unpacked bytes, output by output; scales and zeros are floats. */
#include "loader/integers/int8_packing.h"

static void zeros(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  int64_t first = groups->output * yk_int8_n_groups(weight) + groups->first;
  yk_int8_floats(weight->dtype, weight->qzeros, first, 1, groups->n, to);
}

const yk_int8_ops yk_int8_rows = {.read = yk_int8_read_rows, .scales = yk_int8_scales_by_output, .zeros = zeros};
