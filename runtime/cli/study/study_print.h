/* study_print.h - the output of `yoke study`: points left out, progress, and the final table. */
#ifndef YK_CLI_STUDY_PRINT_H
#define YK_CLI_STUDY_PRINT_H

#include "cli/console.h"
#include "study/runner.h"

/* Destination of progress. */
typedef struct yk_study_printer {
  yk_console *console;
  const yk_study_grid *grid;
  int64_t drawn_ns;
} yk_study_printer;

/* yk_study_print_skipped - print a line for each point that is left out with its reason, or one for a whole
 *   configuration if all its points have the same reason. */
void yk_study_print_skipped(const yk_study_printer *printer);

/* yk_study_print_progress - for yk_study_run.progress, with a printer as its user: a bar on a terminal, else a line for
 *   each start of an engine. */
void yk_study_print_progress(void *printer, const yk_study_progress *progress);

/* yk_study_print_table - the points of a study as in study.json, to stdout. */
void yk_study_print_table(const json_t *study);

/* yk_study_format_seconds - "0:12:05" into buffer, which is returned. */
const char *yk_study_format_seconds(double seconds, char buffer[32]);

#endif
