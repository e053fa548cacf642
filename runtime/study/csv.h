/* csv.h - the points of a study as a table: a row a point, a column a figure. */
#ifndef YK_STUDY_CSV_H
#define YK_STUDY_CSV_H

#include "base/json_tree.h"
#include "base/strbuf.h"

/* yk_study_csv - append the table of a study as in study.json: what a point is (its options each in a column of the
 *   option's name), its metrics, each interval as two columns NAME_low and NAME_high, then what study.json nests, as
 *   limit_share, losses_imbalance, time_us_gemm_qkv, ... An empty field: the point has no such figure. As RFC 4180.
 *   Errors: YK_E_NOMEM. */
yk_status yk_study_csv(const json_t *study, yk_strbuf *out, yk_err *err);

#endif
