/* compare.h - two studies side by side: which points differ by more than their noise.
 *
 * A point's difference exceeds the noise where the interval (95 %) of the ratio B / A leaves out 1 (stats.h). Of many
 * points that are alike one in twenty does so by chance. */
#ifndef YK_STUDY_COMPARE_H
#define YK_STUDY_COMPARE_H

#include "base/json_tree.h"
#include "study/stats.h"

typedef struct yk_compared {
  const json_t *a, *b; /* points of the studies, which must live as long; NULL: the other study alone has the point */
  char *name;          /* "2 ranks, batch 64, ..."; owned */
  double value_a, value_b, ratio; /* medians, B / A */
  bool has_interval;              /* both have runs of two starts or more */
  yk_interval interval;
  bool is_significant;
  double slowdown_percent; /* how much worse B is: below 0 it is better */
} yk_compared;

/* yk_study_compare - every point of either study, those of A first and in its order. metric: of which the points are
 *   compared; times ("..._ms", "duration") and energies are worse where they are larger, others where they are smaller.
 *   *out [*n] is malloc'd; free with yk_study_compare_free.
 *   Errors: YK_E_FORMAT where a study has a point twice, YK_E_INVAL where no pair has the metric, YK_E_NOMEM. */
yk_status yk_study_compare(const json_t *study_a, const json_t *study_b, const char *metric, yk_compared **out,
                           size_t *n, yk_err *err);
void yk_study_compare_free(yk_compared *compared, size_t n);

#endif
