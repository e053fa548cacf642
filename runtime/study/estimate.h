/* estimate.h - how long a study will take. A rough time for each point comes from its size; what runs have really
 * taken, as a multiple of that, corrects the rest, as do the starts of engines. */
#ifndef YK_STUDY_ESTIMATE_H
#define YK_STUDY_ESTIMATE_H

#include "study/limits.h"
#include "study/order.h"

typedef struct yk_study_estimate {
  double *point_s;            /* [n_points] rough seconds of a run; owned */
  double start_s;             /* rough seconds of an engine start */
  double rough_s, measured_s; /* of finished runs */
  double start_measured_s;    /* of finished starts */
  int n_starts;
} yk_study_estimate;

/* How the rough times come about. */
typedef struct yk_study_rough {
  const yk_model_shapes *shapes; /* NULL: not known, one second a run */
  yk_machine_rates machine;      /* measured, or what such a machine may do */
  double element_bytes;
  double n_requests; /* of offered load and of clients */
} yk_study_rough;

/* yk_study_estimate_init - free with yk_study_estimate_free whatever is returned. Errors: YK_E_NOMEM. */
yk_status yk_study_estimate_init(yk_study_estimate *estimate, const yk_study_grid *grid, const yk_study_rough *rough,
                                 yk_err *err);
void yk_study_estimate_free(yk_study_estimate *estimate);

/* yk_study_estimate_run / _start - one more has taken so long. */
void yk_study_estimate_run(yk_study_estimate *estimate, size_t point, double seconds);
void yk_study_estimate_start(yk_study_estimate *estimate, double seconds);

/* yk_study_estimate_left_s - for the items [n_items], those that is_done (user's) names excepted. */
double yk_study_estimate_left_s(const yk_study_estimate *estimate, const yk_study_grid *grid,
                                const yk_study_item *items, size_t n_items,
                                bool (*is_done)(const void *user, const yk_study_item *item), const void *user);

#endif
