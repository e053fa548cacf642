#include "study/plot/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_GAP_PX = 8, TOP_PX = 26, BOTTOM_PX = 40, INSET_PX = 10, MAX_LABELS = 64, LABEL_PX = 14 };

typedef struct box {
  double left, right, top, bottom;
} box;

typedef struct label {
  const char *text;
  double x, from, y, at; /* from: y of its leader's beginning; at: y of its middle after moving */
  yk_ink ink;
} label;

typedef struct frame {
  double width, left, right, top, bottom;
  yk_scale x, y;
} frame;

void yk_lines_free(yk_lines *lines)
{
  for (size_t i = 0; i < lines->n_series; i++) free(lines->series[i].points);
  for (size_t i = 0; i < lines->n_guides; i++) free(lines->guides[i].points);
  free(lines->series);
  *lines = (yk_lines){0};
}

yk_point *yk_series_add(yk_series *series)
{
  if (series->n_points == series->capacity) {
    size_t capacity = series->capacity ? 2 * series->capacity : 8;
    yk_point *points = realloc(series->points, capacity * sizeof *points);
    if (!points) return NULL;
    series->points = points;
    series->capacity = capacity;
  }
  yk_point *point = &series->points[series->n_points++];
  *point = (yk_point){0};
  return point;
}

void yk_axis_fit(yk_axis *axis, const double *values, size_t n, double low, double high)
{
  double least = values[0], most = values[0];
  for (size_t i = 1; i < n; i++) {
    least = fmin(least, values[i]);
    most = fmax(most, values[i]);
  }
  if (axis->is_log) {
    double reach = fmax(1.6, pow(most / least, 0.2));
    axis->low = fmax(fmin(low, least), least / reach) / 1.12;
    axis->high = fmin(fmax(high, most), most * reach) * 1.12;
    return;
  }
  double span = most - least, reach = fmax(0.35 * span, 0.25 * fabs(most));
  axis->low = fmax(fmin(low, least), least - reach);
  axis->high = fmin(fmax(high, most), most + reach);
  double margin = (axis->high - axis->low > 0 ? axis->high - axis->low : fabs(most) > 0 ? fabs(most) : 1) * 0.05;
  axis->low = axis->low >= 0 ? fmax(0, axis->low - margin) : axis->low - margin;
  axis->high += margin;
}

/* ---- Colours and marks ------------------------------------------------------------------------------------------- */

static yk_ink ink_of(const yk_series *series)
{
  int i = series->look, n = series->n_looks;
  return (yk_ink)(YK_INK_SERIES + (n <= 1 ? 1 : n <= 12 ? (int)lround(i * 11.0 / (n - 1)) : i % 12));
}

static const char *dash_of(const yk_series *series)
{
  static const char *const dashes[] = {NULL, "7 3", "2 2.5", "9 3 2 3"};
  return series->is_open ? "1 4" : series->is_ticks ? "3 3" : dashes[series->look % 4];
}

/* Adds the corners of a mark of radius 1 around its middle. */
static void polygon(yk_drawing *out, const double (*corners)[2], size_t n, double x, double y, double r)
{
  for (size_t i = 0; i < n; i++) yk_path_to(out, i ? 'L' : 'M', x + r * corners[i][0], y + r * corners[i][1]);
  yk_path_to(out, 'Z', 0, 0);
}

/* Adds one of seven shapes to a path. */
static void add_shape(yk_drawing *out, int look, double x, double y, double r)
{
  static const double square[][2] = {{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}};
  static const double up[][2] = {{0, -1.2}, {1.15, .9}, {-1.15, .9}}, down[][2] = {{0, 1.2}, {1.15, -.9}, {-1.15, -.9}};
  static const double diamond[][2] = {{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}};
  static const double cross[][2] = {{-.4, -1.2}, {.4, -1.2}, {.4, -.4}, {1.2, -.4}, {1.2, .4},   {.4, .4},
                                    {.4, 1.2},   {-.4, 1.2}, {-.4, .4}, {-1.2, .4}, {-1.2, -.4}, {-.4, -.4}};
  static const double pentagon[][2] = {{0, -1.35}, {1.28, -.42}, {.8, 1.1}, {-.8, 1.1}, {-1.28, -.42}};
  double k = 0.5523 * r;
  switch (look % 7) {
  case 0:
    yk_path_to(out, 'M', x - r, y);
    yk_path_curve(out, x - r, y - k, x - k, y - r, x, y - r);
    yk_path_curve(out, x + k, y - r, x + r, y - k, x + r, y);
    yk_path_curve(out, x + r, y + k, x + k, y + r, x, y + r);
    yk_path_curve(out, x - k, y + r, x - r, y + k, x - r, y);
    yk_path_to(out, 'Z', 0, 0);
    return;
  case 1: polygon(out, square, 4, x, y, r); return;
  case 2: polygon(out, up, 3, x, y, r); return;
  case 3: polygon(out, diamond, 4, x, y, r); return;
  case 4: polygon(out, down, 3, x, y, r); return;
  case 5: polygon(out, cross, 12, x, y, r); return;
  default: polygon(out, pentagon, 5, x, y, r); return;
  }
}

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

static void draw_axes(const yk_lines *lines, const frame *f, const yk_ticks *ticks_x, const yk_ticks *ticks_y,
                      yk_drawing *out)
{
  char text[YK_NUMBER_TEXT];
  for (size_t i = 0; i < ticks_y->n; i++) {
    double y = yk_scale_at(&f->y, ticks_y->at[i]);
    yk_drawing_line(out, "grid", YK_INK_GRID, 1, f->left, y, f->right, y);
    yk_drawing_text(out, "tick", YK_INK_QUIET, f->left - 6, y + 4, 11, YK_ANCHOR_END,
                    lines->y.format(ticks_y->at[i], text));
  }
  for (size_t i = 0; i < ticks_x->n; i++) {
    double x = yk_scale_at(&f->x, ticks_x->at[i]);
    yk_drawing_line(out, "grid", YK_INK_GRID, 1, x, f->top, x, f->bottom);
    yk_drawing_text(out, "tick", YK_INK_QUIET, x, f->bottom + 16, 11, YK_ANCHOR_MIDDLE,
                    lines->x.format(ticks_x->at[i], text));
  }
  yk_drawing_path(out, "axis", YK_INK_NONE, YK_INK_CONTROL, 1);
  yk_path_to(out, 'M', f->left, f->top);
  yk_path_to(out, 'L', f->left, f->bottom);
  yk_path_to(out, 'L', f->right, f->bottom);
  yk_drawing_text(out, "label", YK_INK_TEXT, 0, 12, 12, YK_ANCHOR_START, lines->y.label);
  yk_drawing_text(out, "label", YK_INK_TEXT, (f->left + f->right) / 2, f->bottom + 34, 12, YK_ANCHOR_MIDDLE,
                  lines->x.label);
}

/* ---- Series ------------------------------------------------------------------------------------------------------ */

static double place_x(const yk_lines *lines, const frame *f, const yk_series *series, double x)
{
  int n = lines->n_slots > 1 ? lines->n_slots : 1;
  double step = n > 1 ? fmin(4, 20.0 / n) : 0;
  return yk_scale_at(&f->x, x) + (series->slot - (n - 1) / 2.0) * step;
}

/* Draws an end of a whisker at (x, y), in direction (dx, dy): a bar, or an arrowhead if it was cut. */
static void draw_end(double x, double y, double dx, double dy, bool is_cut, yk_drawing *out)
{
  if (is_cut) {
    yk_path_to(out, 'M', x - 4 * dx - 3.5 * dy, y - 4 * dy - 3.5 * dx);
    yk_path_to(out, 'L', x, y);
    yk_path_to(out, 'L', x - 4 * dx + 3.5 * dy, y - 4 * dy + 3.5 * dx);
    return;
  }
  yk_path_to(out, 'M', x - 3 * dy, y - 3 * dx);
  yk_path_to(out, 'L', x + 3 * dy, y + 3 * dx);
}

/* Draws a whisker from low to high along an axis at the other coordinate; counts cut whiskers. */
static void draw_whisker(yk_lines *lines, const yk_axis *axis, const yk_scale *scale, bool is_x, double other,
                         double low, double high, yk_ink ink, yk_drawing *out)
{
  bool cuts_low = low<axis->low, cuts_high = high> axis->high;
  double from = yk_scale_at(scale, cuts_low ? axis->low : low), to = yk_scale_at(scale, cuts_high ? axis->high : high);
  double up = is_x ? 1 : -1;
  if (!(low <= high)) return;
  lines->n_cut += cuts_low || cuts_high;
  yk_drawing_path(out, cuts_low || cuts_high ? "whisker cut" : "whisker", YK_INK_NONE, ink, 1.25);
  yk_path_to(out, 'M', is_x ? from : other, is_x ? other : from);
  yk_path_to(out, 'L', is_x ? to : other, is_x ? other : to);
  draw_end(is_x ? from : other, is_x ? other : from, is_x ? -up : 0, is_x ? 0 : -up, cuts_low, out);
  draw_end(is_x ? to : other, is_x ? other : to, is_x ? up : 0, is_x ? 0 : up, cuts_high, out);
}

static void draw_point(const yk_series *series, const yk_point *point, double x, double y, yk_drawing *out)
{
  yk_ink ink = ink_of(series);
  if (series->is_ticks) {
    yk_drawing_path(out, "limit datum", YK_INK_NONE, ink, 1.75);
    yk_path_to(out, 'M', x - 7, y);
    yk_path_to(out, 'L', x + 7, y);
  } else if (series->is_open) {
    yk_drawing_path(out, "open datum", YK_INK_GROUND, ink, 1.75);
    add_shape(out, series->look, x, y, 4.5);
  } else {
    yk_drawing_path(out, "mark datum", ink, YK_INK_GROUND, 1);
    add_shape(out, series->look, x, y, 4.5);
  }
  yk_drawing_explain(out, point->words);
}

static void draw_series(yk_lines *lines, const frame *f, const yk_series *series, yk_drawing *out)
{
  yk_ink ink = ink_of(series);
  if (series->n_points > 1) {
    yk_mark *line = yk_drawing_path(out, "line", YK_INK_NONE, ink, 1.75);
    line->dash = dash_of(series);
    line->opacity = series->is_ticks || series->is_open ? 0.6 : 0;
    for (size_t i = 0; i < series->n_points; i++)
      yk_path_to(out, i ? 'L' : 'M', place_x(lines, f, series, series->points[i].x),
                 yk_scale_at(&f->y, series->points[i].y));
  }
  for (size_t i = 0; i < series->n_points; i++) {
    const yk_point *point = &series->points[i];
    double x = place_x(lines, f, series, point->x), y = yk_scale_at(&f->y, point->y);
    if (point->has_interval) draw_whisker(lines, &lines->y, &f->y, false, x, point->low, point->high, ink, out);
    if (point->has_interval_x) draw_whisker(lines, &lines->x, &f->x, true, y, point->low_x, point->high_x, ink, out);
    if (!point->is_joint) draw_point(series, point, x, y, out);
  }
}

static void draw_guide(const yk_guide *guide, const frame *f, yk_drawing *out)
{
  yk_mark *path = guide->is_band ? yk_drawing_path(out, "frontier", YK_INK_NONE, YK_INK_FRONTIER, 9)
                                 : yk_drawing_path(out, "guide", YK_INK_NONE, YK_INK_QUIET, 1.25);
  if (guide->is_band)
    path->is_round = true;
  else
    path->dash = "2 4";
  for (size_t i = 0; i < guide->n_points; i++)
    yk_path_to(out, i ? 'L' : 'M', yk_scale_at(&f->x, guide->points[i][0]), yk_scale_at(&f->y, guide->points[i][1]));
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static bool overlap(box a, box b)
{
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

static box box_of(const label *one)
{
  return (box){one->x, one->x + yk_text_width(one->text, 12, true), one->at - LABEL_PX / 2.0, one->at + LABEL_PX / 2.0};
}

static int compare_labels(const void *a, const void *b)
{
  double left = ((const label *)a)->y, right = ((const label *)b)->y;
  return (left > right) - (left < right);
}

/* Moves a label down or up until it overlaps none of n others. */
static void shift(label *one, const label *others, size_t n, double direction)
{
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < n; i++) {
      if (!overlap(box_of(one), box_of(&others[i]))) continue;
      one->at = others[i].at + direction * (LABEL_PX + .01);
      moved = true;
    }
  }
}

static void spread_labels(label *labels, size_t n, double top, double bottom)
{
  qsort(labels, n, sizeof *labels, compare_labels);
  for (size_t i = 0; i < n; i++) {
    labels[i].at = fmax(top, labels[i].y);
    shift(&labels[i], labels, i, 1);
  }
  for (size_t i = n; i-- > 0;) {
    labels[i].at = fmin(labels[i].at, bottom);
    shift(&labels[i], labels + i + 1, n - i - 1, -1);
  }
}

static size_t collect_labels(const yk_lines *lines, const frame *f, label labels[MAX_LABELS])
{
  size_t n = 0;
  for (size_t i = 0; i < lines->n_series; i++) {
    const yk_series *series = &lines->series[i];
    if (!series->name[0] || !series->n_points || n == MAX_LABELS) continue;
    const yk_point *last = &series->points[0];
    for (size_t k = 1; k < series->n_points; k++)
      if (series->points[k].x >= last->x) last = &series->points[k];
    double x = place_x(lines, f, series, last->x);
    if (last->has_interval_x) x = fmax(x, yk_scale_at(&f->x, fmin(last->high_x, lines->x.high)) - 4);
    labels[n++] = (label){series->name,
                          last->x == lines->x.high ? f->right + NAME_GAP_PX : x + 11,
                          x + 6,
                          yk_scale_at(&f->y, last->y),
                          0,
                          ink_of(series)};
  }
  for (size_t i = 0; i < lines->n_guides && n < MAX_LABELS; i++) {
    const yk_guide *guide = &lines->guides[i];
    if (!guide->name[0]) continue;
    double y = yk_scale_at(&f->y, guide->points[guide->n_points - 1][1]);
    labels[n++] = (label){guide->name, f->right + NAME_GAP_PX, f->right + NAME_GAP_PX, y, 0, YK_INK_QUIET};
  }
  return n;
}

static void draw_labels(const label *labels, size_t n, yk_drawing *out)
{
  for (size_t i = 0; i < n; i++) {
    bool is_series = labels[i].ink != YK_INK_QUIET;
    if (fabs(labels[i].at - labels[i].y) > 5)
      yk_drawing_line(out, "leader", YK_INK_CONTROL, .75, labels[i].from, labels[i].y, labels[i].x - 1, labels[i].at);
    yk_mark *text = yk_drawing_text(out, is_series ? "series-name" : "tick", labels[i].ink, labels[i].x,
                                    labels[i].at + 4, is_series ? 12 : 11, YK_ANCHOR_START, labels[i].text);
    text->is_bold = is_series;
    text->has_halo = true;
  }
}

/* ---- Notes ------------------------------------------------------------------------------------------------------- */

typedef struct boxes {
  box *at; /* owned */
  size_t n, capacity;
  bool failed; /* memory ran out */
} boxes;

static void take(boxes *taken, box one)
{
  if (taken->n == taken->capacity) {
    size_t capacity = taken->capacity ? 2 * taken->capacity : 256;
    box *at = realloc(taken->at, capacity * sizeof *at);
    if (!at) {
      taken->failed = true;
      return;
    }
    taken->at = at;
    taken->capacity = capacity;
  }
  taken->at[taken->n++] = one;
}

/* Adds the boxes of a point's whiskers. */
static void take_whiskers(const yk_lines *lines, const frame *f, const yk_point *point, double x, double y,
                          boxes *taken)
{
  if (point->has_interval) {
    double low = fmax(point->low, lines->y.low), high = fmin(point->high, lines->y.high);
    take(taken, (box){x - 1, x + 1, yk_scale_at(&f->y, high), yk_scale_at(&f->y, low)});
  }
  if (point->has_interval_x) {
    double low = fmax(point->low_x, lines->x.low), high = fmin(point->high_x, lines->x.high);
    take(taken, (box){yk_scale_at(&f->x, low), yk_scale_at(&f->x, high), y - 1, y + 1});
  }
}

/* Adds the boxes of a series' lines and marks. */
static void take_series(const yk_lines *lines, const frame *f, const yk_series *series, boxes *taken)
{
  double from_x = 0, from_y = 0;
  for (size_t i = 0; i < series->n_points; i++) {
    double x = place_x(lines, f, series, series->points[i].x), y = yk_scale_at(&f->y, series->points[i].y);
    int n = i ? (int)ceil(hypot(x - from_x, y - from_y) / 4) : 0;
    take(taken, (box){x - 4, x + 4, y - 4, y + 4});
    take_whiskers(lines, f, &series->points[i], x, y, taken);
    for (int k = 0; k < n; k++) {
      double at_x = from_x + (x - from_x) * k / n, at_y = from_y + (y - from_y) * k / n;
      take(taken, (box){at_x - 1, at_x + 1, at_y - 1, at_y + 1});
    }
    from_x = x;
    from_y = y;
  }
}

static void draw_note(const frame *f, const char *note, double x, double y, boxes *taken, yk_drawing *out)
{
  double half = yk_text_width(note, 10.5, false) / 2;
  const double spots[][2] = {{0, -9},         {-half - 8, 4}, {half + 8, 4},  {0, 17},
                             {-half - 7, -7}, {half + 7, -7}, {-half - 7, 13}};
  for (size_t i = 0; i < sizeof spots / sizeof *spots; i++) {
    double at_x = x + spots[i][0], at_y = y + spots[i][1];
    box one = {at_x - half - 1, at_x + half + 1, at_y - 9, at_y + 2};
    bool fits = one.left >= f->left && one.right <= f->width && one.top >= f->top - 12 && one.bottom <= f->bottom;
    for (size_t k = 0; fits && k < taken->n; k++) fits = !overlap(one, taken->at[k]);
    if (!fits) continue;
    take(taken, one);
    yk_drawing_text(out, "note", YK_INK_TEXT, at_x, at_y, 10.5, YK_ANCHOR_MIDDLE, note)->has_halo = true;
    return;
  }
}

static void draw_notes(const yk_lines *lines, const frame *f, const label *labels, size_t n_labels, yk_drawing *out)
{
  boxes taken = {0};
  for (size_t i = 0; i < n_labels; i++) take(&taken, box_of(&labels[i]));
  for (size_t i = 0; i < lines->n_series; i++) take_series(lines, f, &lines->series[i], &taken);
  for (size_t i = 0; i < lines->n_series; i++)
    for (size_t k = 0; k < lines->series[i].n_points; k++) {
      const yk_point *point = &lines->series[i].points[k];
      if (point->note[0])
        draw_note(f, point->note, place_x(lines, f, &lines->series[i], point->x), yk_scale_at(&f->y, point->y), &taken,
                  out);
    }
  out->failed |= taken.failed;
  free(taken.at);
}

/* ---- The figure -------------------------------------------------------------------------------------------------- */

static double name_width(const yk_lines *lines)
{
  double width = 0;
  for (size_t i = 0; i < lines->n_series; i++)
    if (lines->series[i].n_points) width = fmax(width, yk_text_width(lines->series[i].name, 12, true));
  for (size_t i = 0; i < lines->n_guides; i++) width = fmax(width, yk_text_width(lines->guides[i].name, 12, true));
  return width * YK_FONT_SLACK;
}

void yk_lines_draw(yk_lines *lines, double width, yk_drawing *out)
{
  int n_names = 0;
  double widest = 0;
  char text[YK_NUMBER_TEXT];
  label labels[MAX_LABELS];
  yk_ticks ticks_x = lines->x.ticks, ticks_y = lines->y.ticks;
  for (size_t i = 0; i < lines->n_series; i++) n_names += lines->series[i].name[0] != '\0';
  double height = fmax(fmax(212, fmin(width * .6, 380)), n_names * 15 + 90);
  if (!ticks_y.n && lines->y.is_log) yk_ticks_log(lines->y.low, lines->y.high, &ticks_y);
  if (!ticks_y.n) yk_ticks_linear(lines->y.low, lines->y.high, round(height / 55), &ticks_y);
  for (size_t i = 0; i < ticks_y.n; i++)
    widest = fmax(widest, yk_text_width(lines->y.format(ticks_y.at[i], text), 11, false));
  frame f = {.width = width, .left = widest + 14, .top = TOP_PX, .bottom = height - BOTTOM_PX};
  f.right = width - fmin(name_width(lines) + NAME_GAP_PX + 2, width * .42);
  f.x = (yk_scale){lines->x.is_log, lines->x.low, lines->x.high, f.left + INSET_PX, f.right - INSET_PX};
  f.y = (yk_scale){lines->y.is_log, lines->y.low, lines->y.high, f.bottom, f.top};
  if (!ticks_x.n && lines->x.is_log) yk_ticks_log(lines->x.low, lines->x.high, &ticks_x);
  if (!ticks_x.n) yk_ticks_linear(lines->x.low, lines->x.high, 7, &ticks_x);
  yk_ticks_thin(&ticks_x, &f.x, lines->x.format);
  *out = (yk_drawing){.width = width, .height = height};
  lines->n_cut = 0;
  draw_axes(lines, &f, &ticks_x, &ticks_y, out);
  for (size_t i = 0; i < lines->n_guides; i++) draw_guide(&lines->guides[i], &f, out);
  for (size_t i = 0; i < lines->n_series; i++) draw_series(lines, &f, &lines->series[i], out);
  size_t n_labels = collect_labels(lines, &f, labels);
  spread_labels(labels, n_labels, f.top, f.bottom - 2);
  draw_notes(lines, &f, labels, n_labels, out);
  draw_labels(labels, n_labels, out);
}
