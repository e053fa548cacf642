/* batch_run.h - the loop of a batch: reads lines, runs their requests in the engine, writes results as they finish.
 *
 * One thread does all the work. It starts lines while fewer than max_in_flight requests are in the engine, reads the
 * requests that have output, writes the lines that are complete, and waits for input or output. When there is output,
 * it waits 1 ms before it reads, so that it wakes once for the output of a step for many requests; since the engine has
 * more requests than it runs at once, no step waits for the loop. */
#ifndef YK_CLI_BATCH_RUN_H
#define YK_CLI_BATCH_RUN_H

#include "cli/batch/batch_chat.h"
#include "cli/batch/batch_files.h"
#include "cli/batch/batch_output.h"
#include "cli/batch/batch_progress.h"
#include "cli/interrupt.h"
#include "cli/options/adapter_options.h"
#include "cli/options/sampling_options.h"

typedef struct yk_batch_item yk_batch_item;

typedef struct yk_batch_run {
  const char *model_dir;
  const yk_sampling_options *sampling; /* defaults for the lines */
  yk_batch_chat *chat;                 /* for lines of /v1/chat/completions */
  yk_answer_style style;               /* of the model's answers */
  const yk_adapter_options *adapters;  /* a line whose model is an adapter's name uses that adapter */
  uint64_t seed;                       /* for lines without a seed */
  size_t max_in_flight;                /* requests */
  yk_engine *engine;
  yk_batch_files *files;
  yk_interrupt *interrupt;
  yk_batch_progress progress;
  /* Private state of the run. */
  yk_openai_defaults defaults;
  int32_t max_model_tokens;
  bool has_text;                     /* the checkpoint has a tokenizer */
  yk_token_texts *texts;             /* texts of single tokens for OpenAI's log-probabilities */
  int64_t created_s;                 /* Unix time */
  yk_batch_item *items, **items_end; /* in flight, in input order */
  yk_waiter *waiter;                 /* reports the requests of the items */
  size_t n_in_flight;                /* requests of the items */
  yk_batch_line waiting;             /* parsed, but with too many requests to start at present */
  bool has_waiting, input_ended;
  yk_strbuf out; /* the line being written */
} yk_batch_run;

/* yk_batch_run_lines - run until the input's end or a signal. After a signal complete lines have been written, the
 *   others not. The fields above the private state must be set, the others zero; progress has been started.
 *   Errors: YK_E_IO (input, output), YK_E_NOMEM, or the engine's own error after a rank failed: results that such an
 *   error affects are not written, so that another run can compute them. Invalid lines are not errors here. */
yk_status yk_batch_run_lines(yk_batch_run *run, yk_err *err);

/* yk_batch_run_free - cancels the requests in flight; call before the engine is destroyed. */
void yk_batch_run_free(yk_batch_run *run);

#endif
