#include "study/estimate.h"

#include <math.h>
#include <stdlib.h>

enum { LIMIT_FACTOR = 2 }; /* a run takes about twice the machine's limit */

/* Time of a run of one batch, or of the batches of equally many client requests. With an offered load at least the time
 * of the arrivals. */
static double rough_s(const yk_study_grid *grid, const yk_study_point *point, const yk_study_rough *rough)
{
  const double overhead_s = 0.02; /* for submitting and waking up */
  yk_limit limit;
  if (!rough->shapes) return 1;
  bool is_rate = grid->sweep->load == YK_SWEEP_REQUEST_RATE;
  double batch = is_rate ? fmin(rough->n_requests, 64) : point->load;
  double n_rounds = grid->sweep->load == YK_SWEEP_BATCH ? 1 : fmax(rough->n_requests / batch, 1);
  yk_limit_load load = {.ranks = grid->configs[point->config].ranks,
                        .batch = batch,
                        .input_len = point->input_len,
                        .output_len = point->output_len,
                        .element_bytes = rough->element_bytes};
  yk_limit_compute(rough->shapes, &rough->machine, &load, &limit);
  double seconds = overhead_s + LIMIT_FACTOR * n_rounds * limit.total_s;
  return is_rate ? fmax(seconds, rough->n_requests / point->load) : seconds;
}

yk_status yk_study_estimate_init(yk_study_estimate *estimate, const yk_study_grid *grid, const yk_study_rough *rough,
                                 yk_err *err)
{
  *estimate = (yk_study_estimate){.point_s = calloc(grid->n_points, sizeof *estimate->point_s), .start_s = 1};
  if (!estimate->point_s) return yk_err_set(err, YK_E_NOMEM, "no memory for an estimate");
  for (size_t i = 0; i < grid->n_points; i++) estimate->point_s[i] = rough_s(grid, &grid->points[i], rough);
  if (rough->shapes) estimate->start_s += yk_model_weights(rough->shapes) * 1e-9; /* loading: about 1 GB/s */
  return YK_OK;
}

void yk_study_estimate_free(yk_study_estimate *estimate)
{
  free(estimate->point_s);
  *estimate = (yk_study_estimate){0};
}

void yk_study_estimate_run(yk_study_estimate *estimate, size_t point, double seconds)
{
  estimate->rough_s += estimate->point_s[point];
  estimate->measured_s += seconds;
}

void yk_study_estimate_start(yk_study_estimate *estimate, double seconds)
{
  estimate->start_measured_s += seconds;
  estimate->n_starts++;
}

double yk_study_estimate_left_s(const yk_study_estimate *estimate, const yk_study_grid *grid,
                                const yk_study_item *items, size_t n_items,
                                bool (*is_done)(const void *user, const yk_study_item *item), const void *user)
{
  double factor = estimate->rough_s > 0 ? estimate->measured_s / estimate->rough_s : 1;
  double start_s = estimate->n_starts ? estimate->start_measured_s / estimate->n_starts : estimate->start_s;
  double left_s = 0;
  size_t config = SIZE_MAX;
  int start = -1;
  for (size_t i = 0; i < n_items; i++) {
    if (is_done(user, &items[i])) continue;
    left_s += factor * estimate->point_s[items[i].point];
    if (grid->points[items[i].point].config == config && items[i].start == start) continue;
    config = grid->points[items[i].point].config;
    start = items[i].start;
    left_s += start_s;
  }
  return left_s;
}
