/* points.h - the points of a study that are drawn together: those with the same lengths and options. The study may be
 * any JSON. */
#ifndef YK_STUDY_PLOT_POINTS_H
#define YK_STUDY_PLOT_POINTS_H

#include <stdbool.h>

#include "base/json_tree.h"

typedef enum yk_load_kind { YK_LOAD_BATCH, YK_LOAD_REQUEST_RATE, YK_LOAD_CLIENTS } yk_load_kind;

typedef struct yk_plot_point {
  const json_t *raw;
  int ranks;
  yk_load_kind kind;
  double load;
  char label[48]; /* "batch 64" */
} yk_plot_point;

typedef struct yk_plot_group {
  const json_t *study;
  char settings[128];    /* "512 in, 100 out, max-num-seqs 64", cut if long */
  yk_plot_point *points; /* owned, sorted by kind of load, load, ranks */
  size_t n_points;
  bool shares_cores; /* ranks share one machine's cores, so more ranks add no hardware */
  const char *unit;  /* "GPU", "rank" */
} yk_plot_group;

/* yk_plot_group_leads - whether the point is the first of its lengths and options. */
bool yk_plot_group_leads(const json_t *study, size_t point);

/* yk_plot_group_make - the group of a point. Free with yk_plot_group_free. Errors: YK_E_NOMEM. */
yk_status yk_plot_group_make(const json_t *study, size_t point, yk_plot_group *out, yk_err *err);
void yk_plot_group_free(yk_plot_group *group);

/* yk_plot_point_read - false: the point lacks a rank count. */
bool yk_plot_point_read(const json_t *raw, yk_plot_point *out);

/* yk_plot_same_settings - whether two points differ only in ranks and load. */
bool yk_plot_same_settings(const json_t *a, const json_t *b);

/* yk_plot_number - a member that is 0 or a number of magnitude 1e-12 to 1e15, else NaN. */
double yk_plot_number(const json_t *object, const char *key);

/* yk_plot_interval - [low, high] of a metric: for "speedup" and "efficiency" a member next to it, else in
 *   "intervals". */
bool yk_plot_interval(const json_t *point, const char *metric, double *low, double *high);

/* yk_plot_base_ranks - the rank count to which a point's speed-up refers; 0: none. */
int yk_plot_base_ranks(const yk_plot_point *point);

/* yk_plot_is_scaled - whether the point has more ranks than its base. */
bool yk_plot_is_scaled(const yk_plot_point *point);

/* yk_plot_ranks - "1 rank", "4 ranks". */
const char *yk_plot_ranks(int ranks, char text[24]);

#endif
