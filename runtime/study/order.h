/* order.h - the order in which a study runs: rounds, one for each start, in each of which every configuration is
 * started once, in random order. Within one engine start the points come in random order, with a new order for each
 * repeat, so that a drift (of a clock, a temperature) affects all points equally (a randomised block design). The last
 * start of a configuration ends with a profiled run of each of its points. */
#ifndef YK_STUDY_ORDER_H
#define YK_STUDY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "study/sweep.h"

typedef struct yk_study_item {
  size_t point;
  int start, repeat; /* from 0; the repeat within the start */
  bool is_profile;   /* a run with timestamps, which is not a measured run */
} yk_study_item;

/* yk_study_order_make - the items of all points without a reason against them. The same grid, counts and seed give the
 *   same order. *items [*n_items] is malloc'd and belongs to the caller. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_study_order_make(const yk_study_grid *grid, int n_starts, int n_repeats, bool profiles, uint64_t seed,
                              yk_study_item **items, size_t *n_items, yk_err *err);

#endif
