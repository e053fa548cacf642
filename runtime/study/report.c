#include "study/report.h"

#include <stdio.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "base/strbuf.h"
#include "study/plot/figures.h"
#include "study/plot/svg.h"

extern const yk_embedded_file yk_report_files[]; /* report/, made by CMakeLists.txt */

typedef struct report {
  const char *json; /* [n_bytes] */
  size_t n_bytes;
  const json_t *study; /* the same */
} report;

static yk_status append_template(yk_strbuf *out, const char *at, const report *r, yk_err *err);

/* In JSON a "<" stands inside strings alone, where the escape means the same. Without one there is no end tag, and no
 * comment in which an end tag would not count. */
static void append_escaped(yk_strbuf *out, const char *json, size_t n_bytes)
{
  for (const char *end = json + n_bytes; json < end;) {
    const char *sign = memchr(json, '<', (size_t)(end - json));
    yk_strbuf_append(out, json, (size_t)((sign ? sign : end) - json));
    if (sign) yk_strbuf_append_str(out, "\\u003c");
    json = sign ? sign + 1 : end;
  }
}

/* The figures of a group as elements that the page takes what it shows from. */
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
    yk_strbuf_append_fmt(out,
                         "<div class=\"%s\" data-point=\"%zu\" data-figure=\"%s\" data-title=\"%s\" data-cut=\"%d\">\n",
                         places[i % 2], point, yk_plot_name(kind), yk_plot_title(kind), plot.n_cut);
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

/* What stands for "{{name}}": parts that are made here, or a file of that name. */
static yk_status append_part(yk_strbuf *out, const char *name, size_t length, const report *r, yk_err *err)
{
  static const char *const made[] = {"study", "drawings", "hatching", "light", "dark"};
  char path[64];
  size_t i = 0;
  while (i < 5 && (strlen(made[i]) != length || memcmp(made[i], name, length) != 0)) i++;
  if (i == 0) append_escaped(out, r->json, r->n_bytes);
  if (i == 1) return append_drawings(out, r->study, err);
  if (i == 2) yk_svg_append_hatching(out, YK_SCHEME_PAGE);
  if (i == 3 || i == 4) yk_inks_append_style(out, i == 3 ? YK_SCHEME_LIGHT : YK_SCHEME_DARK);
  if (i < 5) return YK_OK;
  snprintf(path, sizeof path, "/%.*s", (int)length, name);
  const yk_embedded_file *file = yk_embedded_find(yk_report_files, path);
  if (!file) return yk_err_set(err, YK_E_INTERNAL, "report.html: no file is compiled in as %s", path);
  return append_template(out, (const char *)file->bytes, r, err);
}

/* A file of report/ with "{{NAME}}" replaced. */
static yk_status append_template(yk_strbuf *out, const char *at, const report *r, yk_err *err)
{
  for (const char *mark; (mark = strstr(at, "{{")); at = strstr(mark, "}}") + 2) {
    yk_strbuf_append(out, at, (size_t)(mark - at));
    YK_TRY(append_part(out, mark + 2, strcspn(mark + 2, "}"), r, err));
  }
  yk_strbuf_append_str(out, at);
  return YK_OK;
}

yk_status yk_study_report_write(const char *path, const char *study_json, size_t n_bytes, yk_err *err)
{
  json_t *study;
  YK_TRY(yk_tree_parse("study", study_json, n_bytes, &study, err));
  yk_strbuf page = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  if (!json_is_object(study))
    status = yk_err_set(err, YK_E_FORMAT, "study: expected an object, found %s", yk_tree_type_name(study));
  report r = {study_json, n_bytes, study};
  if (status == YK_OK) status = append_part(&page, "report.html", strlen("report.html"), &r, err);
  if (status == YK_OK && page.failed) status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a report", path);
  if (status == YK_OK) status = yk_file_replace(path, page.data, page.length, err);
  yk_strbuf_free(&page);
  json_decref(study);
  return status;
}
