/* int4_slice.h - what of a 4-bit weight a slice needs, and its words. Not for use outside the loader. */
#ifndef YK_LOADER_INT4_SLICE_H
#define YK_LOADER_INT4_SLICE_H

#include <stddef.h>

#include "base/cpu_pool.h"
#include "kernels/weight.h"

enum { YK_INT4_LINE_K = 8 /* inputs of a line */ };

/* Rows of inputs are written from k_begin, rounded down to a line, to k_end. Groups are whole, but for a slice within a
 * single one, whose group is then the slice. Inputs in another order are written to their places, whatever line of the
 * checkpoint they are found in. */
typedef struct yk_int4_extent {
  const yk_slice_order *order;   /* of inputs, or NULL */
  const int32_t *outputs;        /* in another order, or NULL */
  int64_t first_k, k, group;     /* of the repacked weight */
  int64_t first_group, n_groups; /* of the checkpoint's */
  int64_t first_n, n, n_there;   /* outputs, rounded up to whole words; how many of them the weight has */
  int64_t first_line, n_lines;   /* lines of the checkpoint's weight that are read */
  size_t zeros_at, scales_at, places_at, n_bytes; /* places: i32 [k of the checkpoint's], with an order */
} yk_int4_extent;

/* yk_int4_take_words - the integers of a slice in AWQ's order as u32 [k, n/8] to the start of buffer, where an order's
 *   places lie too. pool: threads that share the work, or NULL. */
void yk_int4_take_words(const yk_weight_view *weight, const yk_int4_extent *e, yk_cpu_pool *pool, char *buffer);

#endif
