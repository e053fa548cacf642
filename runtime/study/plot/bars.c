#include "study/plot/bars.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TITLE_PX = 24, AXIS_PX = 40, LEGEND_ROW_PX = 22 };

void yk_bars_free(yk_bars *bars)
{
  free(bars->bars);
  free(bars->panels);
  *bars = (yk_bars){0};
}

double yk_bars_panel_px(size_t n, double row_px)
{
  return TITLE_PX + (double)n * row_px + AXIS_PX;
}

static double legend_item(yk_drawing *out, const char *label, double width, double *x, double *y)
{
  double item_width = 24 + yk_text_width(label, 12, false) * YK_FONT_SLACK + 12;
  if (*x > 0 && *x + item_width - 12 > width) {
    *x = 0;
    *y += LEGEND_ROW_PX;
  }
  yk_drawing_text(out, "label", YK_INK_TEXT, *x + 24, *y + 13, 12, YK_ANCHOR_START, label);
  return item_width;
}

static void draw_ideal(yk_drawing *out, double x, double top, double bottom)
{
  yk_drawing_line(out, "ideal", YK_INK_TEXT, 2, x, top, x, bottom)->dash = "2 2";
}

static void draw_legend(const yk_bars *bars, double width, yk_drawing *out)
{
  double x = 0, y = 0;
  *out = (yk_drawing){.width = width, .is_legend = true};
  for (size_t i = 0; i < bars->n_kinds; i++) {
    double item_width = legend_item(out, bars->kinds[i].label, width, &x, &y);
    yk_drawing_rect(out, NULL, bars->kinds[i].ink, x, y + 1, 18, 16)->has_pattern = true;
    yk_drawing_text(out, "letter", YK_INK_ON_FILL, x + 9, y + 13, 11, YK_ANCHOR_MIDDLE, bars->kinds[i].letter)
        ->is_bold = true;
    x += item_width;
  }
  if (bars->has_ideal) {
    legend_item(out, "Ideal", width, &x, &y);
    draw_ideal(out, x + 9, y + 1, y + 17);
  }
  out->height = y + LEGEND_ROW_PX;
}

static void draw_bar(const yk_bars *bars, const yk_bar *bar, double y, double row_px, const yk_scale *scale,
                     yk_drawing *out)
{
  double up = 0, down = 0, size = fmin(11, row_px - 3), base = y + row_px / 2 + size * .14;
  for (size_t i = 0; i < bars->n_kinds; i++) {
    double value = bar->values[i], from = value > 0 ? up : down + value;
    if (value == 0) continue;
    if (value > 0)
      up += value;
    else
      down += value;
    double x = yk_scale_at(scale, from), width = fmax(yk_scale_at(scale, from + fabs(value)) - x, .25);
    yk_mark *mark = yk_drawing_rect(out, "datum", bars->kinds[i].ink, x, y, width, row_px - fmin(5, row_px * .25));
    mark->has_pattern = true;
    if (width > 3) {
      mark->stroke = YK_INK_GROUND;
      mark->width = 1;
    }
    yk_drawing_explain(out, bar->words[i]);
    if (width >= 15)
      yk_drawing_text(out, "letter", YK_INK_ON_FILL, x + width / 2, base, size, YK_ANCHOR_MIDDLE, bars->kinds[i].letter)
          ->is_bold = true;
  }
  if (bar->ideal > 0) draw_ideal(out, yk_scale_at(scale, bar->ideal), y - 2, y + row_px - 3);
  yk_drawing_text(out, "tick", YK_INK_QUIET, yk_scale_at(scale, fmax(up, bar->ideal)) + 6, base, size, YK_ANCHOR_START,
                  bar->end)
      ->has_halo = true;
}

/* The range of the bars, including 0. */
static void ends_of(const yk_bars *bars, size_t first, size_t n, double *low, double *high)
{
  *low = 0;
  *high = 1e-9;
  for (size_t i = first; i < first + n; i++) {
    double up = 0, down = 0;
    for (size_t k = 0; k < bars->n_kinds; k++) {
      if (bars->bars[i].values[k] > 0)
        up += bars->bars[i].values[k];
      else
        down += bars->bars[i].values[k];
    }
    *low = fmin(*low, down);
    *high = fmax(*high, fmax(up, bars->bars[i].ideal));
  }
}

static void draw_panel(const yk_bars *bars, const yk_bar_panel *panel, double width, double row_px, yk_drawing *out)
{
  double bottom = TITLE_PX + (double)panel->n * row_px, before = 0, behind = 0, size = fmin(11, row_px - 3);
  char text[YK_NUMBER_TEXT];
  yk_scale scale = {.is_log = false};
  yk_ticks ticks;
  for (size_t i = panel->first; i < panel->first + panel->n; i++) {
    before = fmax(before, yk_text_width(bars->bars[i].name, size, false));
    behind = fmax(behind, yk_text_width(bars->bars[i].end, size, false));
  }
  scale.from = before + 8;
  scale.to = fmax(scale.from + 20, width - behind - 12);
  ends_of(bars, bars->has_one_scale ? 0 : panel->first, bars->has_one_scale ? bars->n_bars : panel->n, &scale.low,
          &scale.high);
  *out = (yk_drawing){.width = width, .height = bottom + AXIS_PX};
  yk_drawing_text(out, "panel-title", YK_INK_TEXT, 0, 13, 12, YK_ANCHOR_START, panel->title)->is_bold = true;
  yk_ticks_linear(scale.low, scale.high, fmax(3, (scale.to - scale.from) / 80), &ticks);
  yk_ticks_thin(&ticks, &scale, bars->format);
  for (size_t i = 0; i < ticks.n; i++) {
    double x = yk_scale_at(&scale, ticks.at[i]);
    yk_drawing_line(out, "grid", YK_INK_GRID, 1, x, TITLE_PX - 2, x, bottom);
    yk_drawing_text(out, "tick", YK_INK_QUIET, x, bottom + 14, 11, YK_ANCHOR_MIDDLE, bars->format(ticks.at[i], text));
  }
  for (size_t i = 0; i < panel->n; i++) {
    const yk_bar *bar = &bars->bars[panel->first + i];
    double y = TITLE_PX + (double)i * row_px;
    yk_drawing_text(out, "tick", YK_INK_QUIET, scale.from - 6, y + row_px / 2 + size * .14, size, YK_ANCHOR_END,
                    bar->name);
    draw_bar(bars, bar, y, row_px, &scale, out);
  }
  double zero = yk_scale_at(&scale, 0);
  yk_drawing_line(out, "axis", YK_INK_CONTROL, 1, zero, TITLE_PX - 4, zero, bottom);
  yk_drawing_text(out, "label", YK_INK_TEXT, (scale.from + scale.to) / 2, bottom + 32, 12, YK_ANCHOR_MIDDLE,
                  bars->axis);
}

void yk_bars_draw(const yk_bars *bars, double width, double legend_width, double row_px, yk_drawing *out)
{
  draw_legend(bars, legend_width, &out[0]);
  for (size_t i = 0; i < bars->n_panels; i++) draw_panel(bars, &bars->panels[i], width, row_px, &out[1 + i]);
}
