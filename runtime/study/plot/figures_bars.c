#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/plot/figures.h"

enum { MAX_PARTS = 4, N_TIMES = 8, N_LOSSES = 4 };

static const struct {
  yk_bar_kind kind;
  const char *parts[MAX_PARTS + 1];
} times[N_TIMES] = {
    {{YK_INK_GEMM, "G", "GEMMs of layers"}, {"gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down"}},
    {{YK_INK_HEAD, "L", "lm_head"}, {"lm_head"}},
    {{YK_INK_ATTENTION, "A", "Attention, recurrent layers"}, {"attention", "states"}},
    {{YK_INK_OTHER, "K", "Other kernels"}, {"other_kernels"}},
    {{YK_INK_REDUCE, "R", "All-reduce transfer"}, {"all_reduce_transfer"}},
    {{YK_INK_WAIT, "W", "Waiting for the slowest rank"}, {"all_reduce_wait"}},
    {{YK_INK_SAMPLE, "S", "Gather of logits, sampling"}, {"logits_gather", "sampling"}},
    {{YK_INK_HOST, "H", "Launch gaps, host"}, {"launch_gap", "host"}},
};

static const struct {
  yk_bar_kind kind;
  const char *key;
} losses[N_LOSSES] = {
    {{YK_INK_REDUCE, "R", "All-reduce transfer"}, "all_reduce"},
    {{YK_INK_WAIT, "W", "Waiting for the slowest rank"}, "imbalance"},
    {{YK_INK_GEMM, "G", "Smaller GEMMs and attention"}, "smaller_gemms"},
    {{YK_INK_OTHER, "U", "Work that does not split"}, "unsplit"},
};

static bool has_many_rank_counts(const yk_plot_group *group, bool (*takes)(const yk_plot_point *))
{
  int first = 0;
  for (size_t i = 0; i < group->n_points; i++) {
    if (!takes(&group->points[i])) continue;
    if (first && group->points[i].ranks != first) return true;
    first = group->points[i].ranks;
  }
  return false;
}

/* Adds a panel for each load with a bar for every rank count; if there is only one rank count, one panel of all
 * loads. */
static bool add_panels(const yk_plot_group *group, bool (*takes)(const yk_plot_point *), yk_bars *out,
                       void (*fill)(const yk_plot_group *, const yk_plot_point *, yk_bar *))
{
  bool is_by_load = has_many_rank_counts(group, takes);
  const char *last = NULL;
  out->bars = calloc(group->n_points + 1, sizeof *out->bars);
  out->panels = calloc(group->n_points + 1, sizeof *out->panels);
  if (!out->bars || !out->panels) return false;
  for (size_t i = 0; i < group->n_points; i++) {
    const yk_plot_point *point = &group->points[i];
    char ranks[24];
    if (!takes(point)) continue;
    yk_plot_ranks(point->ranks, ranks);
    if (!last || (is_by_load && strcmp(last, point->label) != 0)) {
      yk_bar_panel *panel = &out->panels[out->n_panels++];
      panel->first = out->n_bars;
      snprintf(panel->title, sizeof panel->title, "%s", is_by_load ? point->label : ranks);
      if (panel->title[0] == 'b') panel->title[0] = 'B'; /* "Batch 8" */
    }
    last = point->label;
    yk_bar *bar = &out->bars[out->n_bars++];
    snprintf(bar->name, sizeof bar->name, "%s", is_by_load ? ranks : point->label);
    fill(group, point, bar);
    out->has_ideal |= bar->ideal > 0;
    out->panels[out->n_panels - 1].n++;
  }
  return true;
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

static double part_of(const yk_plot_point *point, const char *part)
{
  return yk_plot_number(json_object_get(point->raw, "time_us"), part);
}

static bool has_times(const yk_plot_point *point)
{
  return part_of(point, "step") > 0;
}

/* Time of the step on the fewest ranks, divided by the ratio of rank counts; 0: unknown. */
static double ideal_us(const yk_plot_group *group, const yk_plot_point *point)
{
  int base = yk_plot_base_ranks(point);
  if (group->shares_cores || base == 0 || base >= point->ranks) return 0;
  for (size_t i = 0; i < group->n_points; i++) {
    const yk_plot_point *other = &group->points[i];
    if (other->ranks == base && strcmp(other->label, point->label) == 0 && has_times(other))
      return part_of(other, "step") * base / point->ranks;
  }
  return 0;
}

/* "123.4", "12,345". */
static void write_us(double us, char text[YK_NUMBER_TEXT])
{
  if (us < 100)
    snprintf(text, YK_NUMBER_TEXT, "%.1f", us);
  else
    yk_format_readable(round(us), text);
}

static void fill_times(const yk_plot_group *group, const yk_plot_point *point, yk_bar *bar)
{
  double step = part_of(point, "step");
  char number[YK_NUMBER_TEXT], share[YK_NUMBER_TEXT];
  for (int i = 0; i < N_TIMES; i++) {
    for (int k = 0; times[i].parts[k]; k++) bar->values[i] += fmax(part_of(point, times[i].parts[k]), 0);
    write_us(bar->values[i], number);
    snprintf(bar->words[i], sizeof bar->words[i], "%s: %s \u00b5s, %s", times[i].kind.label, number,
             yk_format_percent(bar->values[i] / step, share));
  }
  write_us(step, number);
  snprintf(bar->end, sizeof bar->end, "%s", number);
  bar->ideal = ideal_us(group, point);
}

/* Converts long steps to milliseconds. */
static void turn_to_ms(const yk_plot_group *group, yk_bars *out)
{
  double most = 0;
  size_t at = 0;
  out->axis = "Time of a step (\u00b5s)";
  for (size_t i = 0; i < group->n_points; i++) most = fmax(most, part_of(&group->points[i], "step"));
  if (most < 20000) return;
  out->axis = "Time of a step (ms)";
  for (size_t i = 0; i < group->n_points; i++) {
    if (!has_times(&group->points[i])) continue;
    yk_bar *bar = &out->bars[at++];
    for (int k = 0; k < N_TIMES; k++) bar->values[k] /= 1000;
    bar->ideal /= 1000;
    snprintf(bar->end, sizeof bar->end, "%.2f", part_of(&group->points[i], "step") / 1000);
  }
}

/* Removes a kind without bars from the legend. */
static void drop_kind(yk_bars *out, size_t kind)
{
  size_t n_behind = --out->n_kinds - kind;
  memmove(&out->kinds[kind], &out->kinds[kind + 1], n_behind * sizeof *out->kinds);
  for (size_t i = 0; i < out->n_bars; i++) {
    yk_bar *bar = &out->bars[i];
    memmove(&bar->values[kind], &bar->values[kind + 1], n_behind * sizeof *bar->values);
    memmove(&bar->words[kind], &bar->words[kind + 1], n_behind * sizeof *bar->words);
  }
}

bool yk_plot_time(const yk_plot_group *group, yk_bars *out)
{
  if (!add_panels(group, has_times, out, fill_times)) return false;
  out->format = yk_format_readable;
  out->n_kinds = N_TIMES;
  for (int i = 0; i < N_TIMES; i++) out->kinds[i] = times[i].kind;
  turn_to_ms(group, out);
  for (size_t kind = N_TIMES; kind-- > 0;) {
    bool is_used = false;
    for (size_t i = 0; i < out->n_bars; i++) is_used |= out->bars[i].values[kind] > 0;
    if (!is_used) drop_kind(out, kind);
  }
  return true;
}

/* ---- Losses ------------------------------------------------------------------------------------------------------ */

static double loss_of(const yk_plot_point *point, const char *key)
{
  return yk_plot_number(json_object_get(point->raw, "losses"), key);
}

static bool has_losses(const yk_plot_point *point)
{
  bool has_any = false;
  for (int i = 0; i < N_LOSSES; i++) has_any |= !isnan(loss_of(point, losses[i].key));
  return has_any && yk_plot_is_scaled(point);
}

static void fill_losses(const yk_plot_group *group, const yk_plot_point *point, yk_bar *bar)
{
  char share[YK_NUMBER_TEXT];
  (void)group;
  for (int i = 0; i < N_LOSSES; i++) {
    double loss = loss_of(point, losses[i].key);
    bar->values[i] = isnan(loss) ? 0 : loss;
    snprintf(bar->words[i], sizeof bar->words[i], "%s: %s", losses[i].kind.label,
             yk_format_percent(bar->values[i], share));
  }
  snprintf(bar->end, sizeof bar->end, "%s efficient",
           yk_format_whole_percent(yk_plot_number(point->raw, "efficiency"), share));
}

bool yk_plot_losses(const yk_plot_group *group, yk_bars *out)
{
  if (group->shares_cores) return true;
  if (!add_panels(group, has_losses, out, fill_losses)) return false;
  out->format = yk_format_percents;
  out->axis = "Share of the time lost (%)";
  out->has_one_scale = true;
  out->n_kinds = N_LOSSES;
  for (int i = 0; i < N_LOSSES; i++) out->kinds[i] = losses[i].kind;
  return true;
}
