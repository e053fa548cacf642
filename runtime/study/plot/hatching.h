/* hatching.h - hatching of bars, so that kinds differ without colour. */
#ifndef YK_STUDY_PLOT_HATCHING_H
#define YK_STUDY_PLOT_HATCHING_H

#include "study/plot/drawing.h"

enum { YK_HATCH_PX = 8, YK_HATCH_MOST = 3 };
#define YK_HATCH_OPACITY 0.3

typedef struct yk_hatch {
  struct {
    double x1, y1, x2, y2;
  } lines[YK_HATCH_MOST]; /* in a tile of 8 x 8; a dot is a line of length 0 */
  int n_lines;
  double width;
} yk_hatch;

/* yk_hatch_of - the hatching of a kind's ink; n_lines 0: plain. */
const yk_hatch *yk_hatch_of(yk_ink ink);

#endif
