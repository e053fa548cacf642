/* figures.h - the six figures of a study, drawn once for page, SVG and PDF. The page adds the text below them
 * (report/figures.js). */
#ifndef YK_STUDY_PLOT_FIGURES_H
#define YK_STUDY_PLOT_FIGURES_H

#include "base/status.h"
#include "study/plot/bars.h"
#include "study/plot/lines.h"
#include "study/plot/points.h"

typedef enum yk_plot_kind {
  YK_PLOT_SPEEDUP,
  YK_PLOT_EFFICIENCY,
  YK_PLOT_LATENCY,
  YK_PLOT_LIMIT,
  YK_PLOT_TIME,
  YK_PLOT_LOSSES,
  YK_N_PLOTS
} yk_plot_kind;

/* The place where a figure is shown. */
typedef enum yk_plot_place {
  YK_PLOT_WIDE,   /* a window */
  YK_PLOT_NARROW, /* a phone, or a column of A4: no figure exceeds a page's height */
  YK_PLOT_FILE    /* a separate file */
} yk_plot_place;

typedef struct yk_plot {
  yk_drawing *drawings; /* owned; bars: a legend and a drawing for each panel, else one */
  size_t n_drawings;    /* 0: the points have no data for the figure */
  int n_cut;            /* number of whiskers that end at the edge, with an arrowhead */
} yk_plot;

/* yk_plot_name - "speedup": name of the file and in the page. */
const char *yk_plot_name(yk_plot_kind kind);
const char *yk_plot_title(yk_plot_kind kind);

/* yk_plot_make - Free with yk_plot_free. Errors: YK_E_NOMEM. */
yk_status yk_plot_make(const yk_plot_group *group, yk_plot_kind kind, yk_plot_place place, yk_plot *out, yk_err *err);
void yk_plot_free(yk_plot *plot);

/* The content of each figure, left empty if the points have no data for it. False: no memory. figures_lines.c,
 * figures_bars.c. */
bool yk_plot_speedup(const yk_plot_group *group, yk_lines *out);
bool yk_plot_efficiency(const yk_plot_group *group, yk_lines *out);
bool yk_plot_latency(const yk_plot_group *group, yk_lines *out);
bool yk_plot_limit(const yk_plot_group *group, yk_lines *out);
bool yk_plot_time(const yk_plot_group *group, yk_bars *out);
bool yk_plot_losses(const yk_plot_group *group, yk_bars *out);

#endif
