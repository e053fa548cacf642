/* csv.h - the points of a study as a table: one row for each point, one column for each figure. */
#ifndef YK_STUDY_CSV_H
#define YK_STUDY_CSV_H

#include "base/json_tree.h"
#include "base/strbuf.h"

/* yk_study_csv - append the table of a study in the form of study.json: a point's settings (each option in a column
 *   with the option's name), its metrics, each interval as two columns NAME_low and NAME_high, then nested figures, as
 *   limit_share, losses_imbalance, time_us_gemm_qkv, ... An empty field: the point lacks the figure. Format: RFC 4180.
 *   Errors: YK_E_NOMEM. */
yk_status yk_study_csv(const json_t *study, yk_strbuf *out, yk_err *err);

#endif
