#include "study/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "study/plot/figures.h"
#include "study/plot/svg.h"

extern const yk_embedded_file yk_report_files[]; /* report/, made by CMakeLists.txt */

static yk_status append_template(yk_strbuf *out, const char *at, const json_t *study, yk_err *err);

/* In JSON a "<" stands inside strings alone, where the escape means the same. Without one there is no end tag, and no
 * comment in which an end tag would not count. */
static yk_status append_json(yk_strbuf *out, const json_t *study, yk_err *err)
{
  char *text = yk_tree_text(study, JSON_COMPACT | YK_STUDY_DIGITS), *at = text;
  if (!text) return yk_err_set(err, YK_E_NOMEM, "no memory for a report");
  for (char *sign; (sign = strchr(at, '<')); at = sign + 1) {
    yk_strbuf_append(out, at, (size_t)(sign - at));
    yk_strbuf_append_str(out, "\\u003c");
  }
  yk_strbuf_append_str(out, at);
  free(text);
  return YK_OK;
}

/* The figures of a group as elements, from which the page takes those that it shows. */
static yk_status append_drawings_of(yk_strbuf *out, const json_t *study, size_t point, yk_err *err)
{
  static const char *const places[] = {[YK_PLOT_WIDE] = "wide", [YK_PLOT_NARROW] = "narrow"};
  yk_plot_group group;
  YK_TRY(yk_plot_group_make(study, point, &group, err));
  yk_status status = YK_OK;
  for (int i = 0; i < 2 * YK_N_PLOTS && status == YK_OK; i++) {
    yk_plot plot;
    yk_plot_kind kind = (yk_plot_kind)(i / 2);
    status = yk_plot_make(&group, kind, (yk_plot_place)(i % 2), &plot, err);
    if (status != YK_OK || plot.n_drawings == 0) continue;
    yk_strbuf_append_fmt(out, "<div class=\"%s\" data-point=\"%zu\" data-figure=\"%s\" data-cut=\"%d\">\n",
                         places[i % 2], point, yk_plot_name(kind), plot.n_cut);
    for (size_t k = 0; k < plot.n_drawings; k++) yk_svg_append(out, &plot.drawings[k]);
    yk_strbuf_append_str(out, "</div>\n");
    yk_plot_free(&plot);
  }
  yk_plot_group_free(&group);
  return status;
}

static yk_status append_drawings(yk_strbuf *out, const json_t *study, yk_err *err)
{
  for (size_t i = 0; i < json_array_size(json_object_get(study, "points")); i++)
    if (yk_plot_group_leads(study, i)) YK_TRY(append_drawings_of(out, study, i, err));
  return YK_OK;
}

/* Appends the part that replaces "{{name}}": one that is made here, or a file of that name. */
static yk_status append_part(yk_strbuf *out, const char *name, size_t length, const json_t *study, yk_err *err)
{
  char path[64];
  snprintf(path, sizeof path, "/%.*s", (int)length, name);
  if (strcmp(path, "/study") == 0) return append_json(out, study, err);
  if (strcmp(path, "/drawings") == 0) return append_drawings(out, study, err);
  if (strcmp(path, "/hatching") == 0) {
    yk_svg_append_hatching(out, YK_SCHEME_PAGE);
    return YK_OK;
  }
  if (strcmp(path, "/light") == 0 || strcmp(path, "/dark") == 0) {
    yk_inks_append_style(out, path[1] == 'l' ? YK_SCHEME_LIGHT : YK_SCHEME_DARK);
    return YK_OK;
  }
  const yk_embedded_file *file = yk_embedded_find(yk_report_files, path);
  if (!file) return yk_err_set(err, YK_E_INTERNAL, "report.html: no file is compiled in as %s", path);
  return append_template(out, (const char *)file->bytes, study, err);
}

/* A file of report/ with "{{NAME}}" replaced. */
static yk_status append_template(yk_strbuf *out, const char *at, const json_t *study, yk_err *err)
{
  for (const char *mark; (mark = strstr(at, "{{")); at = strstr(mark, "}}") + 2) {
    yk_strbuf_append(out, at, (size_t)(mark - at));
    YK_TRY(append_part(out, mark + 2, strcspn(mark + 2, "}"), study, err));
  }
  yk_strbuf_append_str(out, at);
  return YK_OK;
}

yk_status yk_study_report_write(const char *path, const json_t *study, yk_err *err)
{
  yk_strbuf page = YK_STRBUF_INIT;
  if (!json_is_object(study))
    return yk_err_set(err, YK_E_FORMAT, "study: expected an object, found %s", yk_tree_type_name(study));
  yk_status status = append_part(&page, "report.html", strlen("report.html"), study, err);
  if (status == YK_OK && page.failed) status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a report", path);
  if (status == YK_OK) status = yk_file_replace(path, page.data, page.length, err);
  yk_strbuf_free(&page);
  return status;
}
