/* output.h - the files of a study: DIR/study.json, study.csv, results.tex, report.html and figures/, each there whole
 * or as it was before. */
#ifndef YK_STUDY_OUTPUT_H
#define YK_STUDY_OUTPUT_H

#include "base/json_tree.h"

/* yk_study_write - all of them, into a directory that is made where it is not there.
 *   Errors: YK_E_IO, YK_E_INVAL (the path), YK_E_NOMEM. Thread: any. */
yk_status yk_study_write(const char *dir, const json_t *study, yk_err *err);

/* yk_study_read - a study.json for comparing and predicting: a study of a form that is known, whose points have
 *   ranks, a load, lengths and runs. *out is the caller's. Errors: YK_E_IO, YK_E_FORMAT naming the file and what is
 *   wrong, YK_E_NOMEM. */
yk_status yk_study_read(const char *path, json_t **out, yk_err *err);

#endif
