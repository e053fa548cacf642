/* batch_progress.h - progress of a batch: counts, a bar on a terminal, a summary at the end. */
#ifndef YK_CLI_BATCH_PROGRESS_H
#define YK_CLI_BATCH_PROGRESS_H

#include <stdint.h>

#include "cli/console.h"
#include "yoke/yoke.h"

typedef struct yk_batch_progress {
  yk_console *console;
  yk_engine *engine; /* for tokens/s */
  int64_t n_total;   /* lines of the input; 0: unknown */
  int64_t n_before;  /* lines finished by an earlier run; n_failed_before of them with errors */
  int64_t n_failed_before;
  int64_t n_done, n_failed; /* lines finished by this run; those with errors */
  int64_t prompt_tokens, output_tokens;
  int64_t started_ns, drawn_ns;
} yk_batch_progress;

/* yk_batch_progress_start - start of the time that rates refer to. */
void yk_batch_progress_start(yk_batch_progress *progress, yk_console *console, yk_engine *engine);

/* yk_batch_progress_draw - draw the bar, if there is one and the last drawing is old enough. */
void yk_batch_progress_draw(yk_batch_progress *progress);

/* yk_batch_progress_summarise - log the counts and the rate. */
void yk_batch_progress_summarise(yk_batch_progress *progress);

#endif
