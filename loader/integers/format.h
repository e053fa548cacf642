/* format.h - the loader's table of weight formats, with the functions that prepare slices for devices.
 *
 * A device takes each format in one form (kernels/weight.h). The loader repacks a slice of any packing into that form,
 * or converts the slice to floats. The functions of a format use a table of packings (int4_packing.h, int8_packing.h).
 *
 *   row     form that devices take
 *   plain   the checkpoint's floats, rows in the order of outputs
 *   int4    AWQ's "gemm" order (int4.h)
 *   int8    rows of bytes with float32 scales (int8.h)
 *   fp8     as int8
 *   fp4     as int8, a code in each byte
 *
 * To add a format, write format_NAME.c in this folder, declare its row below and list the row in format.c. Not for use
 * outside the loader. */
#ifndef YK_LOADER_FORMAT_H
#define YK_LOADER_FORMAT_H

#include "base/cpu_pool.h"
#include "base/status.h"
#include "kernels/weight.h"

/* A slice in the devices' form: a range of a weight that begins at or shortly after input 0 and output 0. */
typedef struct yk_repacked_slice {
  yk_weight_view weight;
  yk_weight_slice slice;
} yk_repacked_slice;

typedef struct yk_slice_source {
  const yk_weight_view *weight;
  yk_weight_slice slice;       /* not empty; for reordered inputs or outputs the range counts positions of the order
                                * from 0 */
  const yk_slice_order *order; /* or NULL */
  int64_t group_local;         /* inputs of the slice that share a scale; the order's group if inputs are reordered */
} yk_slice_source;

typedef struct yk_loader_format {
  /* is_ready - whether a slice in the checkpoint's order already has the devices' form. */
  bool (*is_ready)(const yk_weight_view *weight);
  /* check_ready - check the numbers of such a slice: YK_E_FORMAT as for repack. pool: or NULL. NULL: nothing to
   * check. */
  yk_status (*check_ready)(const yk_weight_view *weight, const yk_weight_slice *slice, yk_cpu_pool *pool, yk_err *err);
  /* repacked_bytes - buffer size for repack. Only the presence of an order's arrays matters, not their content. */
  size_t (*repacked_bytes)(const yk_slice_source *source);
  /* repack - the slice in the devices' form. buffer: repacked_bytes, aligned to 64 bytes; *out points into the buffer
   * and at the weight's biases. pool: threads that share the work, or NULL; neither bytes nor errors depend on the
   * pool. Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or the element
   * that is NaN; YK_E_UNSUPPORTED; YK_E_NOMEM. */
  yk_status (*repack)(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                      yk_err *err);
  /* to_floats - a slice as f32 [n, stride]: see yk_dequantise. */
  yk_status (*to_floats)(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                         yk_err *err);
} yk_loader_format;

/* yk_loader_format_of - the row of a format. */
const yk_loader_format *yk_loader_format_of(yk_weight_format format);

extern const yk_loader_format yk_loader_format_plain, yk_loader_format_int4, yk_loader_format_int8,
    yk_loader_format_fp8, yk_loader_format_fp4;

#endif
