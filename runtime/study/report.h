/* report.h - a study as one HTML file that needs nothing else: style, script, the study itself and its figures are
 * inside. The figures are drawn here (plot/figures.h), for each lengths and options; which of them is seen, words and
 * tables are the page's (report/report.js). */
#ifndef YK_STUDY_REPORT_H
#define YK_STUDY_REPORT_H

#include <stddef.h>

#include "base/status.h"

/* yk_study_report_write - write the report of a study.json [n_bytes] to path, which is replaced whole or left as it
 *   was. No text of the study can end the element that holds it, since every "<" is written as an escape.
 *   Errors: YK_E_FORMAT (no JSON object), YK_E_IO, YK_E_NOMEM. Thread: any. */
yk_status yk_study_report_write(const char *path, const char *study_json, size_t n_bytes, yk_err *err);

#endif
