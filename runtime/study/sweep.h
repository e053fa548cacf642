/* sweep.h - the lists of a study's settings, and the points that result: every combination of rank count, load, input
 * length, output length and values of engine options. A configuration is the settings of an engine start (ranks and
 * options); its points share engine starts. */
#ifndef YK_STUDY_SWEEP_H
#define YK_STUDY_SWEEP_H

#include "base/json_tree.h"
#include "study/values.h"

enum { YK_SWEEP_MAX_OPTIONS = 8, YK_SWEEP_MAX_POINTS = 2000 };

/* Unit of the load axis. */
typedef enum yk_sweep_load {
  YK_SWEEP_BATCH,        /* requests that run at once, submitted together */
  YK_SWEEP_REQUEST_RATE, /* requests per second */
  YK_SWEEP_CLIENTS       /* clients, each of which sends its next request when the last one is answered */
} yk_sweep_load;

/* yk_sweep_load_name - "batch", "request_rate", "clients": the names in study.json. */
const char *yk_sweep_load_name(yk_sweep_load load);

/* Values of one engine option. */
typedef struct yk_sweep_option {
  char *name;    /* without dashes; owned */
  char **values; /* [n_values], owned; all different */
  size_t n_values;
} yk_sweep_option;

typedef struct yk_sweep {
  yk_values ranks, loads, input_lens, output_lens;
  yk_sweep_load load;
  yk_sweep_option options[YK_SWEEP_MAX_OPTIONS];
  size_t n_options;
} yk_sweep;

typedef struct yk_study_config {
  int ranks;
  size_t choice[YK_SWEEP_MAX_OPTIONS]; /* index into each option's values */
} yk_study_config;

typedef struct yk_study_point {
  size_t config;
  double load;
  int32_t input_len, output_len;
  char reason[YK_ERR_MESSAGE_BYTES]; /* why the point cannot be measured; "": it can */
} yk_study_point;

typedef struct yk_study_grid {
  const yk_sweep *sweep;    /* owned by the caller */
  yk_study_config *configs; /* [n_configs], owned */
  yk_study_point *points;   /* [n_points], owned; points of one configuration are consecutive */
  size_t n_configs, n_points;
} yk_study_grid;

/* yk_sweep_add_option - add "NAME=VALUE,VALUE,..." as one more axis. A range of whole numbers ("1024-4096*2") stands
 *   for its values; any other text for itself.
 *   Errors: YK_E_INVAL (form, a name twice, too many options or values), YK_E_NOMEM. The sweep is then unchanged. */
yk_status yk_sweep_add_option(yk_sweep *sweep, const char *text, yk_err *err);
void yk_sweep_free(yk_sweep *sweep);

/* yk_study_grid_make - all points, none with a reason. Free with yk_study_grid_free.
 *   Errors: YK_E_INVAL (no points, or more than YK_SWEEP_MAX_POINTS), YK_E_NOMEM. */
yk_status yk_study_grid_make(const yk_sweep *sweep, yk_study_grid *out, yk_err *err);
void yk_study_grid_free(yk_study_grid *grid);

/* yk_study_point_json - {"ranks", "batch" (or "request_rate", "clients"), "input_len", "output_len", "options"}, which
 *   belongs to the caller; NULL: no memory. */
json_t *yk_study_point_json(const yk_study_grid *grid, size_t point);

/* yk_study_point_describe - "2 ranks, batch 64, 512 in, 100 out, max-num-seqs 256" into buffer, which is returned. */
const char *yk_study_point_describe(const yk_study_grid *grid, size_t point, char *buffer, size_t n_bytes);

/* yk_study_config_describe - "2 ranks, max-num-seqs 256" into buffer, which is returned. */
const char *yk_study_config_describe(const yk_study_grid *grid, size_t config, char *buffer, size_t n_bytes);

#endif
