/* Figures of synthetic studies: their contents, well-formed SVG and PDF for any study, and the tables for LaTeX. */
#include "unit/loader_fixture.h"

#include <math.h>
#include <sys/stat.h>

#include "each_case.h"
#include "study/latex.h"
#include "study/output.h"
#include "study/output_figures.h"
#include "study/plot/figures.h"
#include "study/plot/pdf.h"
#include "study/plot/svg.h"
#include "unit/study_fixture.h"

static json_t *pair_of(double low, double high)
{
  return json_pack("[f, f]", low, high);
}

/* A study with all data of the figures; noise: half an interval, as a share. */
static json_t *make_study(const char *device, int n_ranks, int n_batches, double noise)
{
  json_t *points = json_array();
  for (int b = 0; b < n_batches; b++)
    for (int ranks = 1; ranks <= n_ranks; ranks++) {
      double batch = 1 << b, speedup = 1 + 0.8 * (ranks - 1), throughput = 100 * batch * speedup;
      double tpot_ms = 1000 * batch / throughput;
      json_t *point = make_point(ranks, 1 << b, throughput, 0.01);
      json_object_set_new(point, "speedup", json_real(speedup));
      json_object_set_new(point, "efficiency", json_real(speedup / ranks));
      json_object_set_new(point, "speedup_interval", pair_of(speedup * (1 - noise), speedup * (1 + noise)));
      json_object_set_new(point, "efficiency_interval",
                          pair_of(speedup / ranks * (1 - noise), speedup / ranks * (1 + noise)));
      json_object_set_new(point, "median_tpot_ms", json_real(tpot_ms));
      json_object_set_new(point, "intervals",
                          json_pack("{s:o, s:o}", "output_throughput",
                                    pair_of(throughput * (1 - noise), throughput * (1 + noise)), "median_tpot_ms",
                                    pair_of(tpot_ms * (1 - noise), tpot_ms * (1 + noise))));
      json_object_set_new(point, "limit", json_pack("{s:f, s:f}", "output_throughput", 2 * throughput, "share", 0.5));
      set_time(point, "step", 1000);
      set_time(point, "gemm_qkv", 700);
      set_time(point, "host", 300);
      json_object_set_new(point, "losses", json_pack("{s:f, s:f}", "all_reduce", 0.2, "unsplit", -0.05));
      json_array_append_new(points, point);
    }
  return json_pack("{s:{s:s}, s:{s:s}, s:o}", "machine", "device", device, "model", "name", "a_model", "points",
                   points);
}

static void make(const json_t *study, yk_plot_kind kind, yk_plot_place place, yk_plot *out)
{
  yk_err err = YK_ERR_INIT;
  yk_plot_group group;
  expect_ok("group", yk_plot_group_make(study, 0, &group, &err), &err);
  expect_ok(yk_plot_name(kind), yk_plot_make(&group, kind, place, out, &err), &err);
  yk_plot_group_free(&group);
}

static size_t count(const yk_plot *plot, const char *role)
{
  size_t n = 0;
  for (size_t i = 0; i < plot->n_drawings; i++)
    for (size_t k = 0; k < plot->drawings[i].n_marks; k++)
      n += plot->drawings[i].marks[k].role && strcmp(plot->drawings[i].marks[k].role, role) == 0;
  return n;
}

static bool has_text(const yk_plot *plot, const char *text)
{
  for (size_t i = 0; i < plot->n_drawings; i++)
    for (size_t k = 0; k < plot->drawings[i].n_marks; k++)
      if (plot->drawings[i].marks[k].text && strcmp(plot->drawings[i].marks[k].text, text) == 0) return true;
  return false;
}

static void every_figure_has_its_points(void **state)
{
  (void)state;
  static const struct {
    const char *role;
    size_t n;
  } wanted[YK_N_PLOTS] = {{"mark datum", 9}, {"mark datum", 9}, {"mark datum", 9},
                          {"mark datum", 9}, {"datum", 18},     {"datum", 12}};
  json_t *study = make_study("cuda", 3, 3, 0.01);
  for (int kind = 0; kind < YK_N_PLOTS; kind++) {
    yk_plot plot;
    make(study, (yk_plot_kind)kind, YK_PLOT_WIDE, &plot);
    if (count(&plot, wanted[kind].role) != wanted[kind].n)
      fail_msg("%s: expected %zu marks, found %zu", yk_plot_name((yk_plot_kind)kind), wanted[kind].n,
               count(&plot, wanted[kind].role));
    if (plot.n_cut) fail_msg("%s: %d whiskers are cut", yk_plot_name((yk_plot_kind)kind), plot.n_cut);
    if (kind == YK_PLOT_SPEEDUP) assert_true(has_text(&plot, "ideal") && has_text(&plot, "batch 4"));
    if (kind == YK_PLOT_LATENCY) assert_int_equal(count(&plot, "whisker"), 18); /* of both axes */
    yk_plot_free(&plot);
  }
  json_decref(study);
}

/* More shares of the same cores are not more hardware. */
static void shared_cores_have_no_ideal(void **state)
{
  (void)state;
  json_t *study = make_study("cpu", 2, 2, 0.01);
  yk_plot plot;
  make(study, YK_PLOT_SPEEDUP, YK_PLOT_WIDE, &plot);
  assert_true(has_text(&plot, "same cores") && !has_text(&plot, "ideal"));
  yk_plot_free(&plot);
  make(study, YK_PLOT_EFFICIENCY, YK_PLOT_WIDE, &plot);
  assert_int_equal(plot.n_drawings, 0);
  make(study, YK_PLOT_LOSSES, YK_PLOT_WIDE, &plot);
  assert_int_equal(plot.n_drawings, 0);
  make(study, YK_PLOT_TIME, YK_PLOT_WIDE, &plot);
  assert_int_equal(count(&plot, "ideal"), 0);
  yk_plot_free(&plot);
  json_decref(study);
}

/* The axis stays that of the points, and the whisker ends at its edge. */
static void one_whisker_does_not_spoil_an_axis(void **state)
{
  (void)state;
  json_t *study = make_study("cuda", 2, 2, 0.01), *point = json_array_get(json_object_get(study, "points"), 3);
  json_object_set_new(json_object_get(point, "intervals"), "output_throughput", pair_of(0, 1e6));
  yk_plot plot;
  make(study, YK_PLOT_LIMIT, YK_PLOT_WIDE, &plot);
  assert_int_equal(plot.n_cut, 1);
  assert_int_equal(count(&plot, "whisker cut"), 1);
  assert_false(has_text(&plot, "1,000,000") || has_text(&plot, "500,000"));
  for (size_t i = 0; i < plot.drawings[0].n_marks; i++) {
    const yk_mark *mark = &plot.drawings[0].marks[i];
    for (size_t k = 0; k < mark->n_segments; k++)
      assert_true(mark->segments[k].at[1] >= 0 && mark->segments[k].at[1] <= plot.drawings[0].height);
  }
  yk_plot_free(&plot);
  json_decref(study);
}

static void no_figure_is_higher_than_a_page(void **state)
{
  (void)state;
  json_t *study = make_study("cuda", 8, 12, 0.01);
  for (int kind = 0; kind < YK_N_PLOTS; kind++) {
    yk_plot plot;
    make(study, (yk_plot_kind)kind, YK_PLOT_NARROW, &plot);
    for (size_t i = 0; i < plot.n_drawings; i++) assert_true(plot.drawings[i].y + plot.drawings[i].height <= 920);
    yk_plot_free(&plot);
  }
  json_decref(study);
}

/* Every object is at the table's offset, and the stream has its length. */
static void check_pdf(const yk_strbuf *pdf)
{
  const char *at = strstr(pdf->data, "\nstartxref\n"), *stream = strstr(pdf->data, "stream\n");
  assert_memory_equal(pdf->data, "%PDF-1.4\n", 9);
  assert_string_equal(pdf->data + pdf->length - 6, "%%EOF\n");
  assert_non_null(at);
  const char *table = pdf->data + strtoul(at + 11, NULL, 10);
  assert_memory_equal(table, "xref\n0 8\n", 9);
  for (int i = 1; i < 8; i++) {
    char head[16];
    int n = snprintf(head, sizeof head, "%d 0 obj\n", i);
    assert_memory_equal(pdf->data + strtoul(table + 9 + 20 * i, NULL, 10), head, n);
  }
  const char *length = strstr(pdf->data, "/Length ");
  assert_memory_equal(stream + 7 + strtoul(length + 8, NULL, 10), "endstream", 9);
  assert_true(strlen(pdf->data) == pdf->length && !strstr(pdf->data, "nan") && !strstr(pdf->data, "inf"));
}

static void files_hold_together(void **state)
{
  (void)state;
  json_t *study = make_study("cuda", 3, 5, 0.2);
  for (int kind = 0; kind < YK_N_PLOTS; kind++) {
    yk_plot plot;
    yk_strbuf svg = YK_STRBUF_INIT, dark = YK_STRBUF_INIT, pdf = YK_STRBUF_INIT;
    make(study, (yk_plot_kind)kind, YK_PLOT_FILE, &plot);
    yk_svg_append_file(&svg, plot.drawings, plot.n_drawings, "a < b & \"c\"\x01\xff", YK_SCHEME_LIGHT);
    yk_svg_append_file(&dark, plot.drawings, plot.n_drawings, "title", YK_SCHEME_DARK);
    yk_pdf_append_file(&pdf, plot.drawings, plot.n_drawings, "a (b) \\ \xc2\xb5 \xe4\xb8\x80");
    assert_non_null(strstr(svg.data, "<title>a &lt; b &amp; &quot;c&quot;\xef\xbf\xbd\xef\xbf\xbd</title>"));
    assert_true(strstr(svg.data, "#ffffff") && strstr(dark.data, "#14181b") && !strstr(svg.data, "var("));
    assert_true(!strstr(svg.data, "nan") && !strstr(svg.data, "class=\"datum"));
    assert_non_null(strstr(pdf.data, "/Title(a \\(b\\) \\\\ \\265 ?)"));
    check_pdf(&pdf);
    yk_strbuf_free(&svg);
    yk_strbuf_free(&dark);
    yk_strbuf_free(&pdf);
    yk_plot_free(&plot);
  }
  json_decref(study);
}

static void malformed_studies_draw_nothing(void **state)
{
  (void)state;
  static const char *const studies[] = {
      "{\"points\": [null, 3, {}]}", "{\"points\": [{\"ranks\": 0}, {\"ranks\": 1e9}, {\"ranks\": \"two\"}]}",
      "{\"points\": [{\"ranks\": 1, \"batch\": 1e300, \"speedup\": [], \"time_us\": {\"step\": \"x\"}}]}",
      "{\"points\": [{\"ranks\": 2, \"batch\": 1, \"output_throughput\": -1, \"median_tpot_ms\": 0, \"limit\": 7}]}"};
  for (size_t i = 0; each_case(i, i < sizeof studies / sizeof *studies); i++) {
    json_t *study = json_loads(studies[i], 0, NULL);
    assert_non_null(study);
    for (int kind = 0; kind < YK_N_PLOTS; kind++) {
      yk_plot plot;
      make(study, (yk_plot_kind)kind, YK_PLOT_NARROW, &plot);
      assert_int_equal(plot.n_drawings, 0);
    }
    json_decref(study);
  }
}

static void extreme_numbers_are_drawn(void **state)
{
  (void)state;
  json_t *study = make_study("cuda", 2, 2, 0), *points = json_object_get(study, "points"), *point;
  static const double values[] = {1e-300, 1e300, 5e-324, 1e15};
  size_t i;
  json_array_foreach(points, i, point)
  {
    json_object_set_new(point, "output_throughput", json_real(values[i]));
    json_object_set_new(point, "median_tpot_ms", json_real(values[3 - i]));
  }
  for (int kind = 0; kind < YK_N_PLOTS; kind++) {
    yk_plot plot;
    yk_strbuf pdf = YK_STRBUF_INIT, svg = YK_STRBUF_INIT;
    make(study, (yk_plot_kind)kind, YK_PLOT_FILE, &plot);
    yk_pdf_append_file(&pdf, plot.drawings, plot.n_drawings, "x");
    yk_svg_append_file(&svg, plot.drawings, plot.n_drawings, "x", YK_SCHEME_LIGHT);
    check_pdf(&pdf);
    assert_true(!svg.failed && !strstr(svg.data, "nan") && !strstr(svg.data, "inf"));
    yk_strbuf_free(&pdf);
    yk_strbuf_free(&svg);
    yk_plot_free(&plot);
  }
  json_decref(study);
}

static void remove_figures(const temp_dir *dir)
{
  temp_dir figures;
  snprintf(figures.path, sizeof figures.path, "%.40s/figures", dir->path);
  temp_dir_remove(&figures);
  temp_dir_remove(dir);
}

/* One name for each lengths and options: numbered if letters, digits, hyphens and points do not distinguish them. */
static void files_are_named_by_settings(void **state)
{
  (void)state;
  static const char *const options[] = {"auto", "a/b", "a:b"};
  static const char *const names[] = {"limit_16_in_8_out_weights_auto.pdf", "limit_16_in_8_out_weights_a_b_2.pdf",
                                      "limit_16_in_8_out_weights_a_b_3.pdf"};
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[192];
  json_t *study = make_study("cuda", 1, 3, 0.01), *points = json_object_get(study, "points");
  for (size_t i = 0; i < 3; i++)
    json_object_set_new(json_array_get(points, i), "options", json_pack("{s:s}", "weights", options[i]));
  expect_ok("figures", yk_study_write_figures(dir.path, study, &err), &err);
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/figures/%s", dir.path, names[i]);
    if (access(path, R_OK) != 0) fail_msg("no file %s", path);
  }
  json_decref(study);
  remove_figures(&dir);
}

/* Otherwise a report drawn again from study.json could differ in the last digit of a coordinate. */
static void written_study_equals_study_json(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[192];
  json_t *study = make_study("cuda", 2, 1, 1.0 / 3), *read;
  json_object_set_new(study, "yoke_study", json_integer(1));
  expect_ok("write", yk_study_write(dir.path, study, &err), &err);
  snprintf(path, sizeof path, "%s/study.json", dir.path);
  expect_ok("read", yk_study_read(path, &read, &err), &err);
  assert_true(json_equal(study, read));
  json_decref(read);
  json_decref(study);
  remove_figures(&dir);
}

static void figures_that_cannot_be_written(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[192];
  json_t *study = make_study("cuda", 2, 1, 0.01);
  write_text(&dir, "figures", "no folder");
  expect_error("folder", YK_E_IO, "figures", yk_study_write_figures(dir.path, study, &err), &err);
  snprintf(path, sizeof path, "%s/figures", dir.path);
  assert_int_equal(unlink(path), 0);
  snprintf(path, sizeof path, "%s/figures/efficiency_dark.svg", dir.path);
  expect_ok("figures", yk_study_write_figures(dir.path, study, &err), &err);
  assert_true(unlink(path) == 0 && mkdir(path, 0700) == 0);
  expect_error("file", YK_E_IO, "efficiency_dark.svg: expected a new name or a regular file",
               yk_study_write_figures(dir.path, study, &err), &err);
  assert_int_equal(rmdir(path), 0);
  json_decref(study);
  remove_figures(&dir);
}

static void tables_for_latex(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  json_t *study = make_study("cuda", 2, 1, 0.1);
  yk_strbuf out = YK_STRBUF_INIT;
  json_object_set_new(json_object_get(study, "model"), "name", json_string("a_b \\input{x} 100% \xc3\xa9"));
  expect_ok("latex", yk_study_latex(study, &out, &err), &err);
  assert_string_equal(
      out.data,
      "% Needs \\usepackage{booktabs}.\n"
      "\\begin{table}\n  \\centering\n  \\caption{a\\_b \\textbackslash{}input\\{x\\} 100\\% ?, 16 in, 8 out. Medians "
      "of "
      "all runs, in brackets 95\\,\\% intervals over starts of the engine.}\n  \\begin{tabular}{rlrrrrr}\n    "
      "\\toprule\n"
      "    Ranks & Load & Output tokens/s & Speed-up & Efficiency (\\%) & Of the limit (\\%) & TPOT (ms) \\\\\n"
      "    \\midrule\n"
      "    1 & batch 1 & 100 {\\footnotesize[90, 110]} & 1.00 {\\footnotesize[0.90, 1.10]} & 100 & 50 & 10 \\\\\n"
      "    2 & batch 1 & 180 {\\footnotesize[162, 198]} & 1.80 {\\footnotesize[1.62, 1.98]} & 90 & 50 & 5.556 \\\\\n"
      "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
  yk_strbuf_free(&out);
  json_decref(study);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_figure_has_its_points),
                                     cmocka_unit_test(shared_cores_have_no_ideal),
                                     cmocka_unit_test(one_whisker_does_not_spoil_an_axis),
                                     cmocka_unit_test(no_figure_is_higher_than_a_page),
                                     cmocka_unit_test(files_hold_together),
                                     cmocka_unit_test(malformed_studies_draw_nothing),
                                     cmocka_unit_test(extreme_numbers_are_drawn),
                                     cmocka_unit_test(files_are_named_by_settings),
                                     cmocka_unit_test(written_study_equals_study_json),
                                     cmocka_unit_test(figures_that_cannot_be_written),
                                     cmocka_unit_test(tables_for_latex)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
