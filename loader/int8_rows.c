/* int8_rows.c - bytes as they are, an output after the other; scales and zeros are floats. */
#include "loader/int8_packing.h"

static void read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride)
{
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride)
    memcpy(to, (const char *)weight->qweight + n * weight->k + slice->k_begin, (size_t)(slice->k_end - slice->k_begin));
}

static void zeros(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  int64_t first = groups->output * yk_int8_n_groups(weight) + groups->first;
  yk_int8_floats(weight->dtype, weight->qzeros, first, 1, groups->n, to);
}

const yk_int8_ops yk_int8_rows = {.read = read, .scales = yk_int8_scales_by_output, .zeros = zeros};
