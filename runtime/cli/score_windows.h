/* score_windows.h - the log-probability of each token of a text that may be longer than the context.
 *
 * Window i holds the tokens i * stride .. i * stride + window - 1 (fewer at the end) and scores those that no earlier
 * window has scored. Each token but the first is therefore scored once, with at least window - stride preceding tokens,
 * or all preceding tokens if there are fewer: the usual strided perplexity. */
#ifndef YK_CLI_SCORE_WINDOWS_H
#define YK_CLI_SCORE_WINDOWS_H

#include "yoke/yoke.h"

typedef void (*yk_score_progress)(void *user, int64_t done_tokens, int64_t total_tokens);

/* yk_score_tokens - logprobs[i] of ids[i] for i in 1 .. n_tokens - 1; logprobs[0] is unchanged. Several windows run at
 *   once. progress: called after each window, on this thread.
 *   Errors: those of yk_engine_submit, or of a failed request. */
yk_status yk_score_tokens(yk_engine *engine, const int32_t *ids, size_t n_tokens, size_t window, size_t stride,
                          float *logprobs, yk_score_progress progress, void *user, yk_err *err);

#endif
