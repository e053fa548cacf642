/* dequantise_codes.h - dequantise formats whose elements are codes with a scale per group, tile by tile. Not for use
 * outside the loader. */
#ifndef YK_LOADER_DEQUANTISE_CODES_H
#define YK_LOADER_DEQUANTISE_CODES_H

#include "base/status.h"
#include "kernels/weight.h"

typedef struct yk_codes {
  /* read - write the codes of a slice to `to` [n, stride]. Errors: YK_E_FORMAT for a code that is NaN. */
  yk_status (*read)(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                    yk_err *err);
  /* read_scales - for output n, the scales and zeros of the groups that contain inputs [k_begin, k_end) of the slice;
   * all levels of scales are multiplied. Errors: YK_E_FORMAT for a number that is not finite. */
  yk_status (*read_scales)(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                           float *zeros, yk_err *err);
  /* scale - convert n codes of one group to floats. */
  void (*scale)(const int8_t *restrict codes, int64_t n, float scale, float zero, float *restrict to);
} yk_codes;

/* yk_scale_integers - `scale` for integer formats: scale * (q - zero). */
void yk_scale_integers(const int8_t *restrict q, int64_t n, float scale, float zero, float *restrict to);

/* yk_dequantise_codes - to_floats for such a format (format.h). With act order g_idx gives the groups, and elements are
 *   integers. Errors: those of the codes' functions; YK_E_NOMEM. Thread: any. */
yk_status yk_dequantise_codes(const yk_codes *codes, const yk_weight_view *weight, const yk_weight_slice *slice,
                              float *to, int64_t stride, yk_err *err);

#endif
