/* result.h - the output of one request of `yoke generate` so far, and functions that print it. */
#ifndef YK_CLI_RESULT_H
#define YK_CLI_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "cli/think_dimmer.h"
#include "yoke/yoke.h"

typedef struct yk_result {
  yk_request *request; /* owned; NULL if the engine refused it */
  yk_err err;          /* of the refusal or failure */
  yk_strbuf text;
  json_t *token_ids;       /* array of integers */
  json_t *logprobs;        /* array of {"token_id", "logprob", "top"}, or NULL if not requested */
  json_t *prompt_logprobs; /* the same for the prompt's tokens except the first */
  yk_finish_reason finish;
  yk_think_dimmer *dimmer; /* for printed text, started and owned by the caller; or NULL */
  yk_request_usage usage;
} yk_result;

/* yk_result_init - errors: YK_E_NOMEM. Free with yk_result_free, even after an error; that cancels the request. */
yk_status yk_result_init(yk_result *result, bool with_logprobs, bool with_prompt_logprobs, yk_err *err);
void yk_result_free(yk_result *result);

/* Output of yk_result_collect while tokens arrive. */
typedef enum yk_stream { YK_STREAM_NOTHING, YK_STREAM_TEXT, YK_STREAM_IDS } yk_stream;

/* yk_result_collect - wait for the request's end; stores everything and prints each token when it arrives.
 *   A failed request is not an error here, but stored in finish and err. Errors: YK_E_IO if stdout fails,
 *   YK_E_NOMEM. */
yk_status yk_result_collect(yk_result *result, yk_stream stream, yk_err *err);

/* yk_result_read - store available output without waiting; for a caller with many requests. *ended: the end was read.
 *   Errors: YK_E_NOMEM. */
yk_status yk_result_read(yk_result *result, bool *ended, yk_err *err);

/* yk_result_print_json - one line: {["index",] "text", "token_ids", "finish_reason", "usage", "timing"[, "logprobs"] [,
 *   "prompt_logprobs"]}, text null if has_text is false; for a refused request {["index",] "error": {"code",
 *   "message"}}; for a request that failed later both. "index" is the sample's number, omitted if negative. Errors:
 *   YK_E_NOMEM. */
yk_status yk_result_print_json(const yk_result *result, int32_t sample, bool has_text, yk_err *err);

#endif
