/* latex.h - the results of a study as LaTeX tables for the package booktabs. */
#ifndef YK_STUDY_LATEX_H
#define YK_STUDY_LATEX_H

#include "base/json_tree.h"
#include "base/strbuf.h"

/* yk_study_latex - append a table for each combination of lengths and options: ranks, load, output tokens/s and
 *   speed-up with their intervals, efficiency, the share of the limit, TTFT and TPOT. Text of the study cannot contain
 *   LaTeX commands. Errors: YK_E_NOMEM. Thread: any. */
yk_status yk_study_latex(const json_t *study, yk_strbuf *out, yk_err *err);

#endif
