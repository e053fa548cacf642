/* output_figures.h - writes the figures of a study as files for papers and pages. */
#ifndef YK_STUDY_OUTPUT_FIGURES_H
#define YK_STUDY_OUTPUT_FIGURES_H

#include "base/json_tree.h"

/* yk_study_write_figures - write DIR/figures/NAME.svg, NAME_dark.svg and NAME.pdf for each figure ("speedup",
 *   "efficiency", "latency", "limit", "time", "losses") for which the study has points. If it has several lengths or
 *   options, these follow the name: "speedup_512_in_100_out.svg". Each file is written whole or left unchanged.
 *   Errors: YK_E_IO, YK_E_INVAL (the path), YK_E_NOMEM. Thread: any. */
yk_status yk_study_write_figures(const char *dir, const json_t *study, yk_err *err);

#endif
