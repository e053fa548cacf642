/* group_order.h - act order: weights whose groups are not of neighbouring inputs (g_idx of GPTQ's desc_act).
 *
 * Input k belongs to group g_idx[k]. Sorted by group, those of a group in rising order, the inputs that a rank holds
 * are a weight of groups again, if every group fills whole local groups: what lacks is padded with places that no input
 * has, and groups that are too large are several local ones with the same scales.
 *
 *   g_idx    0 1 0 1 1 0 0 1 1 0 ...     a rank's inputs: 0 to 7        places, local groups of 2
 *   sorted   0 2 5 6 9 .. | 1 3 4 7 8 ..  -->  0 2 5 6 | 1 3 4 7   -->  0 2 | 5 6 | 1 3 | 4 7 */
#ifndef YK_LOADER_GROUP_ORDER_H
#define YK_LOADER_GROUP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/weight.h"

/* What a rank holds of the inputs. */
typedef struct yk_group_share {
  int64_t begin, end;
  bool of_sorted; /* begin and end count places among all inputs sorted by group; else the inputs themselves */
} yk_group_share;

/* How many places they take. */
typedef struct yk_group_places {
  int64_t n;     /* with padding: a multiple of group */
  int64_t group; /* places that share a scale */
  bool is_even;  /* every group of the weight has as many inputs: see yk_group_order_measure */
} yk_group_places;

/* yk_group_order_measure - the places of a share of a weight with act order, of local groups that cost least memory: of
 *   16 to weight->group places, powers of 2. Weights of one shape whose groups are even have the same places of the
 *   same share, whichever inputs those are. Where g_idx is not there (for sizes alone), a share is taken to have as
 *   many inputs of each group. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_group_order_measure(const yk_weight_view *weight, const yk_group_share *share, yk_group_places *out,
                                 yk_err *err);

/* yk_group_order_fill - inputs [places->n]: the input at each place, or -1; groups [places->n / places->group]: the
 *   weight's group of each local one, or NULL. places: as measured, or in groups of 1: the sorted inputs without
 *   padding. Without g_idx groups are of neighbouring inputs. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_group_order_fill(const yk_weight_view *weight, const yk_group_share *share, const yk_group_places *places,
                              int32_t *inputs, int32_t *groups, yk_err *err);

#endif
