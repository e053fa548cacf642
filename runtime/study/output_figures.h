/* output_figures.h - the figures of a study as files for papers and pages. */
#ifndef YK_STUDY_OUTPUT_FIGURES_H
#define YK_STUDY_OUTPUT_FIGURES_H

#include "base/json_tree.h"

/* yk_study_write_figures - DIR/figures/NAME.svg, NAME_dark.svg and NAME.pdf for each figure ("speedup", "efficiency",
 *   "latency", "limit", "time", "losses") that the study has points for. Where it has several lengths or options, these
 *   stand behind the name: "speedup_512_in_100_out.svg". Each file is there whole or as it was before.
 *   Errors: YK_E_IO, YK_E_INVAL (the path), YK_E_NOMEM. Thread: any. */
yk_status yk_study_write_figures(const char *dir, const json_t *study, yk_err *err);

#endif
