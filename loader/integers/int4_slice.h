/* int4_slice.h - the part of a 4-bit weight that a slice needs, and repacking its words. Not for use outside the
 * loader. */
#ifndef YK_LOADER_INT4_SLICE_H
#define YK_LOADER_INT4_SLICE_H

#include <stddef.h>

#include "base/cpu_pool.h"
#include "kernels/weight.h"

enum { YK_INT4_LINE_K = 8 /* inputs per line */ };

/* Rows of inputs are written from k_begin, rounded down to a line, to k_end. Groups are whole, except if the slice is
 * inside one group, which then consists of the slice only. Reordered inputs are written to their positions, from any
 * line of the checkpoint. */
typedef struct yk_int4_extent {
  const yk_slice_order *order;   /* of inputs, or NULL */
  const int32_t *outputs;        /* reordered outputs, or NULL */
  int64_t first_k, k, group;     /* of the repacked weight */
  int64_t first_group, n_groups; /* of the checkpoint's weight */
  int64_t first_n, n, n_there;   /* outputs, rounded up to whole words; n_there: outputs without the rounding */
  int64_t first_line, n_lines;   /* lines of the checkpoint's weight to read */
  size_t zeros_at, scales_at, places_at, n_bytes; /* places: i32 [the checkpoint's k], if inputs are reordered */
} yk_int4_extent;

/* yk_int4_take_words - write the integers of a slice in AWQ's order as u32 [k, n/8] to the start of buffer, which also
 *   holds the positions of an order. pool: threads that share the work, or NULL. */
void yk_int4_take_words(const yk_weight_view *weight, const yk_int4_extent *e, yk_cpu_pool *pool, char *buffer);

#endif
