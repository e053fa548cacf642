/* estimate.h - estimates how long a study will take. A point's size gives a rough time; the ratio of measured to rough
 * times of finished runs corrects the estimates of the other points; starts of engines are corrected in the same
 * way. */
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

/* Inputs of the rough times. */
typedef struct yk_study_rough {
  const yk_model_shapes *shapes; /* NULL: unknown, one second for a run */
  yk_machine_rates machine;      /* measured, or typical of such a machine */
  double element_bytes;
  double n_requests; /* for an offered load and for clients */
} yk_study_rough;

/* yk_study_estimate_init - free with yk_study_estimate_free, even after an error. Errors: YK_E_NOMEM. */
yk_status yk_study_estimate_init(yk_study_estimate *estimate, const yk_study_grid *grid, const yk_study_rough *rough,
                                 yk_err *err);
void yk_study_estimate_free(yk_study_estimate *estimate);

/* yk_study_estimate_run / _start - a run or start has taken so long. */
void yk_study_estimate_run(yk_study_estimate *estimate, size_t point, double seconds);
void yk_study_estimate_start(yk_study_estimate *estimate, double seconds);

/* yk_study_estimate_left_s - remaining seconds for the items [n_items], without those for which is_done returns
 *   true. */
double yk_study_estimate_left_s(const yk_study_estimate *estimate, const yk_study_grid *grid,
                                const yk_study_item *items, size_t n_items,
                                bool (*is_done)(const void *user, const yk_study_item *item), const void *user);

#endif
