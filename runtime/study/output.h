/* output.h - the files of a study: DIR/study.json, study.csv, results.tex, report.html and figures/. Each file is
 * written whole or left unchanged. */
#ifndef YK_STUDY_OUTPUT_H
#define YK_STUDY_OUTPUT_H

#include "base/json_tree.h"

/* yk_study_write - write all files to a directory, which is made if missing. Rounds the study's real numbers to the
 *   digits of study.json first, so that a study that is read back gives the same files.
 *   Errors: YK_E_IO, YK_E_INVAL (the path), YK_E_NOMEM. Thread: any. */
yk_status yk_study_write(const char *dir, json_t *study, yk_err *err);

/* yk_study_read - read a study.json for comparing and predicting: its form must be known, and its points must have
 *   ranks, a load, lengths and runs. *out belongs to the caller. Errors: YK_E_IO, YK_E_FORMAT naming the file and the
 *   fault, YK_E_NOMEM. */
yk_status yk_study_read(const char *path, json_t **out, yk_err *err);

#endif
