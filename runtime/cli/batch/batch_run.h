/* batch_run.h - the loop of a batch: lines in, requests through the engine, results out as they finish.
 *
 * One thread does it all. It starts lines while fewer than max_in_flight requests are in the engine, reads the requests
 * that have output, writes the lines that are complete, and waits for input or output. It lets 1 ms pass over output
 * before it reads, so that it wakes once for what a step gives to many requests; since the engine holds more requests
 * than it runs at once, none of its steps waits for that. */
#ifndef YK_CLI_BATCH_RUN_H
#define YK_CLI_BATCH_RUN_H

#include "cli/batch/batch_chat.h"
#include "cli/batch/batch_files.h"
#include "cli/batch/batch_output.h"
#include "cli/batch/batch_progress.h"
#include "cli/interrupt.h"
#include "cli/options/sampling_options.h"

typedef struct yk_batch_item yk_batch_item;

typedef struct yk_batch_run {
  const char *model_dir;
  const yk_sampling_options *sampling; /* what lines do not say */
  yk_batch_chat *chat;                 /* of lines for /v1/chat/completions */
  yk_tool_format tools;                /* YK_TOOLS_NONE: lines with tools are refused */
  uint64_t seed;                       /* of lines that bring none */
  size_t max_in_flight;                /* requests */
  yk_engine *engine;
  yk_batch_files *files;
  yk_interrupt *interrupt;
  yk_batch_progress progress;
  /* The run's own. */
  yk_openai_defaults defaults;
  int32_t max_model_tokens;
  bool has_text;                     /* the checkpoint has a tokenizer */
  yk_token_texts *texts;             /* of single tokens, for OpenAI's log-probabilities */
  int64_t created_s;                 /* Unix time */
  yk_batch_item *items, **items_end; /* in flight, in the order of the input */
  yk_waiter *waiter;                 /* reports their requests */
  size_t n_in_flight;                /* their requests */
  yk_batch_line waiting;             /* read, but with too many requests to start beside the others */
  bool has_waiting, input_ended;
  yk_strbuf out; /* the line being written */
} yk_batch_run;

/* yk_batch_run_lines - until the input's end or a signal. After a signal what is complete has been written, the rest
 *   not. The fields above "the run's own" must be set, the others zero; progress has been started.
 *   Errors: YK_E_IO (input, output), YK_E_NOMEM, or the engine's own error after a rank failed: results that such an
 *   error concerns are not written, so that another run can do them. Lines that are wrong are no error here. */
yk_status yk_batch_run_lines(yk_batch_run *run, yk_err *err);

/* yk_batch_run_free - cancels what is in flight; before the engine is destroyed. */
void yk_batch_run_free(yk_batch_run *run);

#endif
