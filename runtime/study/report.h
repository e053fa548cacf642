/* report.h - a study as one self-contained HTML file: style, script, the study itself and its figures are inside. The
 * figures are drawn here (plot/figures.h), for each combination of lengths and options; the page chooses the visible
 * ones and makes text and tables (report/report.js). */
#ifndef YK_STUDY_REPORT_H
#define YK_STUDY_REPORT_H

#include "base/json_tree.h"

/* Significant digits of real numbers in study.json and in the report, and jansson's flag for them. */
#define YK_STUDY_N_DIGITS 9
#define YK_STUDY_DIGITS JSON_REAL_PRECISION(YK_STUDY_N_DIGITS)

/* yk_study_report_write - write the report of a study to path; the file is replaced whole or left unchanged. The report
 *   contains the study as compact JSON. No text of the study can end the element that contains it, since every "<" is
 *   written as an escape. Errors: YK_E_FORMAT (not a JSON object), YK_E_IO, YK_E_NOMEM. Thread: any. */
yk_status yk_study_report_write(const char *path, const json_t *study, yk_err *err);

#endif
