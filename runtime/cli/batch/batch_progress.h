/* batch_progress.h - how far a batch is: counts, a bar on a terminal, a summary at the end. */
#ifndef YK_CLI_BATCH_PROGRESS_H
#define YK_CLI_BATCH_PROGRESS_H

#include <stdint.h>

#include "cli/console.h"
#include "yoke/yoke.h"

typedef struct yk_batch_progress {
  yk_console *console;
  yk_engine *engine; /* for tokens/s */
  int64_t n_total;   /* lines of the input, or 0 where that is not known */
  int64_t n_before;  /* lines that an earlier run finished, n_failed_before of them with errors */
  int64_t n_failed_before;
  int64_t n_done, n_failed; /* lines that this run finished, and those of them with errors */
  int64_t prompt_tokens, output_tokens;
  int64_t started_ns, drawn_ns;
} yk_batch_progress;

/* yk_batch_progress_start - from now on rates are counted. */
void yk_batch_progress_start(yk_batch_progress *progress, yk_console *console, yk_engine *engine);

/* yk_batch_progress_draw - the bar, where there is one and the last is old enough. */
void yk_batch_progress_draw(yk_batch_progress *progress);

/* yk_batch_progress_summarise - log what was done, at which rate. */
void yk_batch_progress_summarise(yk_batch_progress *progress);

#endif
