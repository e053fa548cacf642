/* lines.h - series over two axes, labelled at the ends of their lines instead of in a legend. */
#ifndef YK_STUDY_PLOT_LINES_H
#define YK_STUDY_PLOT_LINES_H

#include "study/plot/drawing.h"
#include "study/plot/scale.h"

enum { YK_WORDS = 192, YK_SERIES_NAME = 48 };

typedef struct yk_axis {
  char label[80];
  bool is_log;
  double low, high;
  yk_ticks ticks; /* none: chosen by the scale */
  yk_number_format format;
} yk_axis;

typedef struct yk_point {
  double x, y;
  bool has_interval, has_interval_x; /* 95 % intervals of y, and of x */
  double low, high, low_x, high_x;
  char words[YK_WORDS]; /* tooltip */
  char note[24];        /* small text next to the mark if it fits; "": none */
  bool is_joint;        /* the point of another series at which the line begins: no mark */
} yk_point;

typedef struct yk_series {
  char name[YK_SERIES_NAME]; /* label at the line's end; "": none */
  int look, n_looks;         /* colour, mark and dashes: one of n_looks */
  int slot;                  /* one of n_slots side by side, so that whiskers at the same x do not overlap */
  bool is_open;              /* predicted: open marks, dotted */
  bool is_ticks;             /* limits: short bars, dashed lines */
  yk_point *points;          /* owned, in the order of the line */
  size_t n_points, capacity;
} yk_series;

typedef struct yk_guide {
  bool is_band; /* a broad band, else a dotted line */
  char name[YK_SERIES_NAME];
  double (*points)[2]; /* owned */
  size_t n_points;
} yk_guide;

typedef struct yk_lines {
  yk_axis x, y;
  yk_series *series; /* owned; later ones are drawn above */
  size_t n_series;
  yk_guide guides[2];
  size_t n_guides;
  int n_slots;
  int n_cut; /* whiskers that exceed the axes and end there with an arrowhead: counted by yk_lines_draw */
} yk_lines;

void yk_lines_free(yk_lines *lines);

/* yk_series_add - a zeroed point for the caller to fill in; NULL: no memory. */
yk_point *yk_series_add(yk_series *series);

/* yk_axis_fit - set low and high around values [n], n > 0, with some margin; a range of intervals widens the axis, but
 *   with a limit, so that a single wide interval does not compress all values. is_log: values are above 0. */
void yk_axis_fit(yk_axis *axis, const double *values, size_t n, double low, double high);

/* yk_lines_draw - width in pixels. */
void yk_lines_draw(yk_lines *lines, double width, yk_drawing *out);

#endif
