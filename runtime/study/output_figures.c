#include "study/output_figures.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "study/folder.h"
#include "study/plot/figures.h"
#include "study/plot/pdf.h"
#include "study/plot/svg.h"

enum { PATH_BYTES = 4400, SUFFIX_BYTES = 96 };

/* "_512_in_100_out_max-num-seqs_64": letters, digits, "-", "." and "_"; number is appended if the text was cut or
 * changed, so that suffixes are distinct. */
static void make_suffix(const yk_plot_group *group, size_t number, char suffix[SUFFIX_BYTES])
{
  size_t n = 0;
  bool is_exact = strlen(group->settings) < 64;
  suffix[n++] = '_';
  for (const char *at = group->settings; *at && n < 64; at++) {
    bool is_plain = isalnum((unsigned char)*at) || *at == '-' || *at == '.';
    is_exact &= is_plain || *at == ' ' || *at == ',';
    if (is_plain)
      suffix[n++] = *at;
    else if (suffix[n - 1] != '_')
      suffix[n++] = '_';
  }
  suffix[n] = '\0';
  if (!is_exact) snprintf(suffix + n, SUFFIX_BYTES - n, "_%zu", number);
}

static yk_status write_file(const char *dir, yk_plot_kind kind, const char *suffix, const char *ending,
                            const yk_strbuf *file, yk_err *err)
{
  char path[PATH_BYTES];
  if (file->failed) return yk_err_set(err, YK_E_NOMEM, "no memory to write the figure %s", yk_plot_name(kind));
  snprintf(path, sizeof path, "%s/%s%s%s", dir, yk_plot_name(kind), suffix, ending);
  return yk_file_replace(path, file->data, file->length, err);
}

static yk_status write_plot(const char *dir, const yk_plot_group *group, yk_plot_kind kind, const char *suffix,
                            yk_err *err)
{
  static const char *const endings[] = {".svg", "_dark.svg", ".pdf"};
  yk_plot plot;
  YK_TRY(yk_plot_make(group, kind, YK_PLOT_FILE, &plot, err));
  yk_status status = YK_OK;
  for (int i = 0; i < 3 && status == YK_OK && plot.n_drawings; i++) {
    yk_strbuf file = YK_STRBUF_INIT;
    if (i == 2)
      yk_pdf_append_file(&file, plot.drawings, plot.n_drawings, yk_plot_title(kind));
    else
      yk_svg_append_file(&file, plot.drawings, plot.n_drawings, yk_plot_title(kind),
                         i == 0 ? YK_SCHEME_LIGHT : YK_SCHEME_DARK);
    status = write_file(dir, kind, suffix, endings[i], &file, err);
    yk_strbuf_free(&file);
  }
  yk_plot_free(&plot);
  return status;
}

yk_status yk_study_write_figures(const char *dir, const json_t *study, yk_err *err)
{
  char folder[PATH_BYTES], suffix[SUFFIX_BYTES];
  size_t n_points = json_array_size(json_object_get(study, "points")), n_groups = 0, number = 0;
  for (size_t i = 0; i < n_points; i++) n_groups += yk_plot_group_leads(study, i);
  snprintf(folder, sizeof folder, "%s/figures", dir);
  if (n_groups > 0) YK_TRY(yk_study_make_folder(folder, err));
  for (size_t i = 0; i < n_points; i++) {
    yk_plot_group group;
    if (!yk_plot_group_leads(study, i)) continue;
    YK_TRY(yk_plot_group_make(study, i, &group, err));
    suffix[0] = '\0';
    if (n_groups > 1) make_suffix(&group, ++number, suffix);
    yk_status status = YK_OK;
    for (int kind = 0; kind < YK_N_PLOTS && status == YK_OK; kind++)
      status = write_plot(folder, &group, (yk_plot_kind)kind, suffix, err);
    yk_plot_group_free(&group);
    YK_TRY(status);
  }
  return YK_OK;
}
