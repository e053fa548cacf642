/* result.h - what one request of `yoke generate` has produced so far, and how it is printed. */
#ifndef YK_CLI_RESULT_H
#define YK_CLI_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "cli/think_dimmer.h"
#include "yoke/yoke.h"

typedef struct yk_result {
  yk_request *request; /* owned; NULL where the engine refused it */
  yk_err err;          /* why it was refused or failed */
  yk_strbuf text;
  json_t *token_ids;       /* array of integers */
  json_t *logprobs;        /* array of {"token_id", "logprob", "top"}, or NULL where not asked for */
  json_t *prompt_logprobs; /* the same of the prompt's tokens but the first */
  yk_finish_reason finish;
  yk_think_dimmer *dimmer; /* of the caller, who has begun it: for what is printed as text; or NULL */
  yk_request_usage usage;
} yk_result;

/* yk_result_init - errors: YK_E_NOMEM. Free with yk_result_free whether it worked or not; that cancels the request. */
yk_status yk_result_init(yk_result *result, bool with_logprobs, bool with_prompt_logprobs, yk_err *err);
void yk_result_free(yk_result *result);

/* How yk_result_collect prints while tokens arrive. */
typedef enum yk_stream { YK_STREAM_NOTHING, YK_STREAM_TEXT, YK_STREAM_IDS } yk_stream;

/* yk_result_collect - wait for the request's end, keeping everything and printing each token as it comes.
 *   A failed request is not an error here: its finish and err tell. Errors: YK_E_IO where stdout fails, YK_E_NOMEM. */
yk_status yk_result_collect(yk_result *result, yk_stream stream, yk_err *err);

/* yk_result_read - keep what has come, without waiting; for who has many requests. *ended: the end was among it.
 *   Errors: YK_E_NOMEM. */
yk_status yk_result_read(yk_result *result, bool *ended, yk_err *err);

/* yk_result_print_json - one line: {["index",] "text", "token_ids", "finish_reason", "usage", "timing"[, "logprobs"]
 *   [, "prompt_logprobs"]}, text null where has_text is false; for a refused request {["index",] "error": {"code",
 *   "message"}}; for one that failed on its way both. "index" is the sample's number, left out where that is negative.
 *   Errors: YK_E_NOMEM. */
yk_status yk_result_print_json(const yk_result *result, int32_t sample, bool has_text, yk_err *err);

#endif
