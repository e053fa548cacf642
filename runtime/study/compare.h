/* compare.h - compares two studies: which points differ by more than their noise.
 *
 * A point's difference exceeds the noise if the interval (95 %) of the ratio B / A excludes 1 (stats.h). Among many
 * equal points one in twenty does so by chance. */
#ifndef YK_STUDY_COMPARE_H
#define YK_STUDY_COMPARE_H

#include "base/json_tree.h"
#include "study/stats.h"

typedef struct yk_compared {
  /* points of the studies, which must outlive this struct; NULL: only the other study has the point */
  const json_t *a, *b;
  char *name;                     /* "2 ranks, batch 64, ..."; owned */
  double value_a, value_b, ratio; /* medians, B / A */
  bool has_starts;                /* both have runs of at least two starts */
  bool has_interval;              /* and these do not differ too much for an interval (yk_stats_ratio_interval) */
  yk_interval interval;
  bool is_significant;
  double slowdown_percent; /* how much worse B is; below 0: B is better */
} yk_compared;

/* yk_study_compare - compare every point of either study, those of A first and in its order. metric: the compared
 *   figure; times ("..._ms", "..._us", "duration"), energies, "preemptions", "memory_bytes" and "between_share" are
 *   worse if larger, other metrics are worse if smaller. *out [*n] is malloc'd; free with yk_study_compare_free.
 *   Errors: YK_E_FORMAT if a study has a point twice, YK_E_INVAL if no pair has the metric, YK_E_NOMEM. */
yk_status yk_study_compare(const json_t *study_a, const json_t *study_b, const char *metric, yk_compared **out,
                           size_t *n, yk_err *err);
void yk_study_compare_free(yk_compared *compared, size_t n);

#endif
