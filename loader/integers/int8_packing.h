/* int8_packing.h - the table of packings for int8.c: those of 8 bits and of 4-bit floats. Not for use outside the
 * loader.
 *
 * To add a packing, write its row in a separate file, declare the row at the end of this header, list it in int8.c, and
 * define its tensors in packing_words.c, packing_bytes.c or packing_float_scales.c. */
#ifndef YK_LOADER_INT8_PACKING_H
#define YK_LOADER_INT8_PACKING_H

#include <string.h>

#include "base/checked.h"
#include "kernels/weight.h"

/* Groups [first, first + n) of one output. */
typedef struct yk_int8_groups {
  int64_t output, first, n;
} yk_int8_groups;

typedef struct yk_int8_ops {
  /* read - write the bytes of a slice, signed for integers, to `to` [n, stride]; 4-bit codes one per byte. */
  void (*read)(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride);
  /* scales, zeros - those of an output's groups. zeros is not called if qzeros is NULL. */
  void (*scales)(const yk_weight_view *weight, const yk_int8_groups *groups, float *to);
  void (*zeros)(const yk_weight_view *weight, const yk_int8_groups *groups, float *to);
} yk_int8_ops;

/* The stored value of q = 0 in packings that store q + 128. An XOR with this value converts between the two forms. */
enum { YK_INT8_OFFSET = 128 };

static inline int64_t yk_int8_n_groups(const yk_weight_view *weight)
{
  return yk_ceil_div_i64(weight->k, weight->group);
}

/* to[i] = element first + i * stride of an array of dtype. */
static inline void yk_int8_floats(yk_dtype dtype, const void *elements, int64_t first, int64_t stride, int64_t n,
                                  float *to)
{
  int64_t n_bytes = (int64_t)yk_dtype_bytes(dtype);
  for (int64_t i = 0; i < n; i++) {
    uint32_t element = 0; /* data in files may be unaligned */
    memcpy(&element, (const char *)elements + (first + i * stride) * n_bytes, (size_t)n_bytes);
    to[i] = yk_dtype_load(dtype, &element, 0);
  }
}

/* Read bytes [n, k] without conversion. */
static inline void yk_int8_read_rows(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to,
                                     int64_t stride)
{
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride)
    memcpy(to, (const char *)weight->qweight + n * weight->k + slice->k_begin, (size_t)(slice->k_end - slice->k_begin));
}

/* Read scales [n, groups], stored output by output. */
static inline void yk_int8_scales_by_output(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  int64_t first = groups->output * yk_int8_n_groups(weight) + groups->first;
  yk_int8_floats(weight->dtype, weight->scales, first, 1, groups->n, to);
}

extern const yk_int8_ops yk_int8_gptq, yk_int8_compressed, yk_int8_rows, yk_int8_blocks, yk_int8_products,
    yk_int8_products_i64, yk_fp4_nv, yk_fp4_nv_factor, yk_fp4_mx, yk_fp8_mx;

#endif
