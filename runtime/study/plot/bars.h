/* bars.h - stacked bars: a legend, and a panel for each group of rows. */
#ifndef YK_STUDY_PLOT_BARS_H
#define YK_STUDY_PLOT_BARS_H

#include "study/plot/drawing.h"
#include "study/plot/scale.h"

enum { YK_MAX_BAR_KINDS = 8, YK_ROW_PX = 22, YK_LEAST_ROW_PX = 9 };

typedef struct yk_bar_kind {
  yk_ink ink;
  const char *letter, *label;
} yk_bar_kind;

typedef struct yk_bar {
  char name[48];                   /* in front of the bar */
  char end[32];                    /* after the bar */
  double values[YK_MAX_BAR_KINDS]; /* values below zero are stacked to the left of zero */
  char words[YK_MAX_BAR_KINDS][96];
  double ideal; /* drawn as a mark if above 0 */
} yk_bar;

typedef struct yk_bar_panel {
  char title[48];
  size_t first, n; /* its bars */
} yk_bar_panel;

typedef struct yk_bars {
  yk_bar_kind kinds[YK_MAX_BAR_KINDS];
  size_t n_kinds;
  yk_bar *bars;         /* owned */
  yk_bar_panel *panels; /* owned */
  size_t n_bars, n_panels;
  bool has_one_scale; /* all panels have the same scale */
  bool has_ideal;
  const char *axis;
  yk_number_format format;
} yk_bars;

void yk_bars_free(yk_bars *bars);

/* yk_bars_draw - 1 + n_panels drawings, the legend first. row_px: YK_LEAST_ROW_PX to YK_ROW_PX. */
void yk_bars_draw(const yk_bars *bars, double width, double legend_width, double row_px, yk_drawing *out);

/* yk_bars_panel_px - height of a panel of n bars. */
double yk_bars_panel_px(size_t n, double row_px);

#endif
