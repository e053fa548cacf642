/* order.h - in which order a study runs: rounds, one for each start, in each of which every configuration is started
 * once, in random order. Within one engine start the points come in random order, and in another one for each repeat,
 * so that what drifts (a clock, a temperature) meets all points alike (a randomised block design). The last start of a
 * configuration ends with a profiled run of each of its points. */
#ifndef YK_STUDY_ORDER_H
#define YK_STUDY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "study/sweep.h"

typedef struct yk_study_item {
  size_t point;
  int start, repeat; /* from 0; the repeat within the start */
  bool is_profile;   /* one run with time stamps, which counts for nothing else */
} yk_study_item;

/* yk_study_order_make - the items of all points that have no reason against them. The same grid, counts and seed give
 *   the same order. *items [*n_items] is malloc'd and the caller's. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_study_order_make(const yk_study_grid *grid, int n_starts, int n_repeats, bool profiles, uint64_t seed,
                              yk_study_item **items, size_t *n_items, yk_err *err);

#endif
