#include "study/plot/figures.h"

#include <math.h>
#include <stdlib.h>

enum { WIDE_PX = 560, NARROW_PX = 328, BOTH_COLUMNS_PX = 680, PAGE_PX = 860, COLUMN_GAP_PX = 24, ROW_GAP_PX = 4 };

static const struct {
  const char *name, *title;
  bool (*lines)(const yk_plot_group *group, yk_lines *out);
  bool (*bars)(const yk_plot_group *group, yk_bars *out);
} kinds[YK_N_PLOTS] = {
    [YK_PLOT_SPEEDUP] = {"speedup", "Speed-up over ranks", .lines = yk_plot_speedup},
    [YK_PLOT_EFFICIENCY] = {"efficiency", "Efficiency over ranks", .lines = yk_plot_efficiency},
    [YK_PLOT_LATENCY] = {"latency", "Throughput against latency", .lines = yk_plot_latency},
    [YK_PLOT_LIMIT] = {"limit", "Throughput against the machine's limit", .lines = yk_plot_limit},
    [YK_PLOT_TIME] = {"time", "Where the time of a decode step goes", .bars = yk_plot_time},
    [YK_PLOT_LOSSES] = {"losses", "Where efficiency went", .bars = yk_plot_losses},
};

const char *yk_plot_name(yk_plot_kind kind)
{
  return kinds[kind].name;
}

const char *yk_plot_title(yk_plot_kind kind)
{
  return kinds[kind].title;
}

void yk_plot_free(yk_plot *plot)
{
  for (size_t i = 0; i < plot->n_drawings; i++) yk_drawing_free(&plot->drawings[i]);
  free(plot->drawings);
  *plot = (yk_plot){0};
}

static bool draw_lines(yk_lines *lines, yk_plot_place place, yk_plot *out)
{
  if (lines->n_series == 0) return true;
  out->drawings = calloc(1, sizeof *out->drawings);
  if (!out->drawings) return false;
  out->n_drawings = 1;
  yk_lines_draw(lines, place == YK_PLOT_NARROW ? NARROW_PX : WIDE_PX, out->drawings);
  out->n_cut = lines->n_cut;
  return true;
}

/* Height of the panels in n_columns columns. */
static double height_of(const yk_bars *bars, size_t n_columns, double row_px)
{
  double sum = 0;
  for (size_t i = 0; i < bars->n_panels; i += n_columns) {
    size_t most = 0;
    for (size_t k = i; k < i + n_columns && k < bars->n_panels; k++)
      most = bars->panels[k].n > most ? bars->panels[k].n : most;
    sum += yk_bars_panel_px(most, row_px) + ROW_GAP_PX;
  }
  return sum;
}

/* Puts panels below the legend, in columns. */
static void place_panels(yk_plot *plot, size_t n_columns)
{
  double y = plot->drawings[0].height + ROW_GAP_PX;
  for (size_t i = 1; i < plot->n_drawings; i += n_columns) {
    double height = 0;
    for (size_t k = i; k < i + n_columns && k < plot->n_drawings; k++) {
      plot->drawings[k].x = (double)(k - i) * (plot->drawings[k].width + COLUMN_GAP_PX);
      plot->drawings[k].y = y;
      height = fmax(height, plot->drawings[k].height);
    }
    y += height + ROW_GAP_PX;
  }
}

static bool draw_bars(const yk_bars *bars, yk_plot_place place, yk_plot *out)
{
  bool has_columns = bars->n_panels > (place == YK_PLOT_FILE ? 3 : 1);
  bool is_narrow = place == YK_PLOT_NARROW || (place == YK_PLOT_FILE && has_columns);
  double row_px = YK_ROW_PX, width = is_narrow ? NARROW_PX : WIDE_PX;
  double legend = !has_columns ? width : is_narrow ? BOTH_COLUMNS_PX : 2 * WIDE_PX;
  if (bars->n_panels == 0) return true;
  while (place != YK_PLOT_WIDE && row_px > YK_LEAST_ROW_PX && height_of(bars, 1 + has_columns, row_px) > PAGE_PX)
    row_px--;
  out->drawings = calloc(1 + bars->n_panels, sizeof *out->drawings);
  if (!out->drawings) return false;
  out->n_drawings = 1 + bars->n_panels;
  yk_bars_draw(bars, width, legend, row_px, out->drawings);
  place_panels(out, 1 + has_columns);
  return true;
}

yk_status yk_plot_make(const yk_plot_group *group, yk_plot_kind kind, yk_plot_place place, yk_plot *out, yk_err *err)
{
  yk_lines lines = {0};
  yk_bars bars = {0};
  bool has_memory;
  *out = (yk_plot){0};
  if (kinds[kind].lines)
    has_memory = kinds[kind].lines(group, &lines) && draw_lines(&lines, place, out);
  else
    has_memory = kinds[kind].bars(group, &bars) && draw_bars(&bars, place, out);
  for (size_t i = 0; i < out->n_drawings; i++) has_memory &= !out->drawings[i].failed;
  yk_lines_free(&lines);
  yk_bars_free(&bars);
  if (has_memory) return YK_OK;
  yk_plot_free(out);
  return yk_err_set(err, YK_E_NOMEM, "no memory for the figure %s", kinds[kind].name);
}
