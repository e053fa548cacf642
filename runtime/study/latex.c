#include "study/latex.h"

#include <math.h>
#include <string.h>

#include "study/plot/drawing.h"
#include "study/plot/points.h"
#include "study/plot/scale.h"

typedef struct column {
  const char *head, *metric;
  yk_number_format format;
  bool of_limit; /* the metric is a member of "limit" */
  bool has_interval;
} column;

static const column columns[] = {
    {"Output tokens/s", "output_throughput", yk_format_readable, false, true},
    {"Speed-up", "speedup", yk_format_times, false, true},
    {"Efficiency (\\%)", "efficiency", yk_format_percents, false, false},
    {"Of the limit (\\%)", "share", yk_format_percents, true, false},
    {"TTFT (ms)", "median_ttft_ms", yk_format_readable, false, false},
    {"TPOT (ms)", "median_tpot_ms", yk_format_readable, false, false},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/* Appends user text without commands; characters beyond ASCII become "?", since fonts may lack them. */
static void append_text(yk_strbuf *out, const char *text)
{
  for (unsigned code; (code = yk_text_next(&text)) != 0;) {
    if (code == '\\' || code == '~' || code == '^')
      yk_strbuf_append_str(out, code == '\\'  ? "\\textbackslash{}"
                                : code == '~' ? "\\textasciitilde{}"
                                              : "\\textasciicircum{}");
    else if (code == 0xa0)
      yk_strbuf_append_str(out, "~");
    else if (code >= 0x7f)
      yk_strbuf_append_str(out, code == 0x2212 ? "$-$" : "?");
    else
      yk_strbuf_append_fmt(out, strchr("#$%&_{}", (int)code) ? "\\%c" : "%c", (char)code);
  }
}

static double value_of(const yk_plot_point *point, const column *c)
{
  return yk_plot_number(c->of_limit ? json_object_get(point->raw, "limit") : point->raw, c->metric);
}

static bool is_used(const yk_plot_group *group, const column *c)
{
  if (group->shares_cores && strcmp(c->metric, "efficiency") == 0) return false;
  for (size_t i = 0; i < group->n_points; i++)
    if (!isnan(value_of(&group->points[i], c))) return true;
  return false;
}

static void append_cell(yk_strbuf *out, const yk_plot_point *point, const column *c)
{
  char number[YK_NUMBER_TEXT];
  double value = value_of(point, c), low, high;
  yk_strbuf_append_str(out, " & ");
  if (isnan(value)) {
    yk_strbuf_append_str(out, "--");
    return;
  }
  append_text(out, c->format(value, number));
  if (!c->has_interval || !yk_plot_interval(point->raw, c->metric, &low, &high) || !(low < high)) return;
  yk_strbuf_append_str(out, " {\\footnotesize[");
  append_text(out, c->format(low, number));
  yk_strbuf_append_str(out, ", ");
  append_text(out, c->format(high, number));
  yk_strbuf_append_str(out, "]}");
}

static void append_table(yk_strbuf *out, const yk_plot_group *group, const char *model)
{
  yk_strbuf_append_str(out, "\\begin{table}\n  \\centering\n  \\caption{");
  append_text(out, model);
  yk_strbuf_append_str(out, ", ");
  append_text(out, group->settings);
  yk_strbuf_append_str(out, ". Medians of all runs, in brackets 95\\,\\% intervals over starts of the engine.}\n"
                            "  \\begin{tabular}{rl");
  for (int i = 0; i < N_COLUMNS; i++)
    if (is_used(group, &columns[i])) yk_strbuf_append_str(out, "r");
  yk_strbuf_append_str(out, "}\n    \\toprule\n    Ranks & Load");
  for (int i = 0; i < N_COLUMNS; i++)
    if (is_used(group, &columns[i])) yk_strbuf_append_fmt(out, " & %s", columns[i].head);
  yk_strbuf_append_str(out, " \\\\\n    \\midrule\n");
  for (size_t k = 0; k < group->n_points; k++) {
    yk_strbuf_append_fmt(out, "    %d & ", group->points[k].ranks);
    append_text(out, group->points[k].label);
    for (int i = 0; i < N_COLUMNS; i++)
      if (is_used(group, &columns[i])) append_cell(out, &group->points[k], &columns[i]);
    yk_strbuf_append_str(out, " \\\\\n");
  }
  yk_strbuf_append_str(out, "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
}

yk_status yk_study_latex(const json_t *study, yk_strbuf *out, yk_err *err)
{
  const char *model = json_string_value(json_object_get(json_object_get(study, "model"), "name"));
  yk_strbuf_append_str(out, "% Needs \\usepackage{booktabs}.\n");
  for (size_t i = 0; i < json_array_size(json_object_get(study, "points")); i++) {
    yk_plot_group group;
    if (!yk_plot_group_leads(study, i)) continue;
    YK_TRY(yk_plot_group_make(study, i, &group, err));
    append_table(out, &group, model ? model : "A model");
    yk_plot_group_free(&group);
  }
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a table of results") : YK_OK;
}
