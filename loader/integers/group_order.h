/* group_order.h - act order: weights whose groups are not runs of neighbouring inputs (g_idx of GPTQ's desc_act).
 *
 * Input k belongs to group g_idx[k]. The inputs of a rank are sorted by group, and within a group in ascending order.
 * The result is again a weight with groups of neighbouring inputs, provided that every group fills whole local groups:
 * a group is padded with positions that have no input, and a large group is split into several local groups with the
 * same scales.
 *
 *   g_idx    0 1 0 1 1 0 0 1 1 0 ...     a rank's inputs: 0 to 7        positions, local groups of 2
 *   sorted   0 2 5 6 9 .. | 1 3 4 7 8 ..  -->  0 2 5 6 | 1 3 4 7   -->  0 2 | 5 6 | 1 3 | 4 7 */
#ifndef YK_LOADER_GROUP_ORDER_H
#define YK_LOADER_GROUP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/weight.h"

/* A rank's share of the inputs. */
typedef struct yk_group_share {
  int64_t begin, end;
  bool of_sorted; /* begin and end count positions among all inputs sorted by group; otherwise they count inputs */
} yk_group_share;

/* The positions that a share needs. */
typedef struct yk_group_places {
  int64_t n;     /* including padding: a multiple of group */
  int64_t group; /* positions that share a scale */
  bool is_even;  /* all groups of the weight have equally many inputs: see yk_group_order_measure */
} yk_group_places;

/* yk_group_order_measure - the positions of a share of a weight with act order, with the local group size that needs
 *   the least memory: a power of 2 from 16 to weight->group. Weights of one shape with even groups have the same
 *   positions for the same share, for any g_idx. Without g_idx (for sizes only), a share is assumed to have equally
 *   many inputs of each group. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_group_order_measure(const yk_weight_view *weight, const yk_group_share *share, yk_group_places *out,
                                 yk_err *err);

/* yk_group_order_fill - inputs [places->n]: the input at each position, or -1; groups [places->n / places->group]: the
 *   weight's group of each local group, or NULL. places: as measured, or with groups of 1 for the sorted inputs without
 *   padding. Without g_idx groups are runs of neighbouring inputs. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_group_order_fill(const yk_weight_view *weight, const yk_group_share *share, const yk_group_places *places,
                              int32_t *inputs, int32_t *groups, yk_err *err);

#endif
