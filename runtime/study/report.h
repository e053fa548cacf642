/* report.h - a study as one HTML file that needs nothing else: style, script, the study itself and its figures are
 * inside. The figures are drawn here (plot/figures.h), for each lengths and options; which of them is seen, words and
 * tables are the page's (report/report.js). */
#ifndef YK_STUDY_REPORT_H
#define YK_STUDY_REPORT_H

#include "base/json_tree.h"

/* The digits of real numbers in study.json and in the report: jansson's flag. */
#define YK_STUDY_DIGITS JSON_REAL_PRECISION(9)

/* yk_study_report_write - write the report of a study to path, which is replaced whole or left as it was. The study
 *   stands in it as compact JSON. No text of the study can end the element that holds it, since every "<" is written
 *   as an escape. Errors: YK_E_FORMAT (no JSON object), YK_E_IO, YK_E_NOMEM. Thread: any. */
yk_status yk_study_report_write(const char *path, const json_t *study, yk_err *err);

#endif
