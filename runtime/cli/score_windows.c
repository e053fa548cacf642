#include "cli/score_windows.h"

#include "base/status.h"

enum { MAX_WINDOWS_IN_FLIGHT = 16 };

/* Range of tokens of one window of a text. */
typedef struct score_window {
  size_t begin, end; /* its tokens */
  size_t first;      /* first token that the window scores */
} score_window;

/* Computes window number index of a text of n_tokens; false if earlier windows reach its end. 2 <= window; 1 <= stride
 * < window: a window's first token has no context and must be scored by an earlier window. */
static bool window_at(size_t n_tokens, size_t window, size_t stride, size_t index, score_window *out)
{
  size_t begin = index * stride, scored_end = index == 0 ? 1 : begin - stride + window;
  if (scored_end >= n_tokens) return false;
  *out = (score_window){begin, n_tokens - begin < window ? n_tokens : begin + window, scored_end};
  return true;
}

static yk_status submit(yk_engine *engine, const int32_t *ids, const score_window *window, yk_request **out,
                        yk_err *err)
{
  yk_request_options request;
  yk_request_options_init(engine, &request);
  request.ids = ids + window->begin;
  request.n_ids = window->end - window->begin;
  request.sampling.max_tokens = 0;
  request.sampling.n_prompt_logprobs = 0;
  return yk_engine_submit(engine, &request, out, err);
}

/* Waits for a window's end and stores the log-probabilities of the tokens that it scores. */
static yk_status collect(yk_request *request, const score_window *window, float *logprobs, yk_err *err)
{
  const yk_output *output;
  size_t at = window->begin + 1;
  for (;;) {
    yk_status status = yk_request_next(request, -1, &output, err);
    if (status != YK_OK) {
      yk_err_prefix(err, "tokens %zu to %zu", window->begin, window->end - 1);
      return status;
    }
    if (output->finish != YK_FINISH_NONE) break;
    if (!output->is_prompt || at >= window->end) continue;
    if (at >= window->first) logprobs[at] = output->logprob;
    at++;
  }
  if (at == window->end) return YK_OK;
  return yk_err_set(err, YK_E_INTERNAL, "tokens %zu to %zu: expected %zu log-probabilities, found %zu", window->begin,
                    window->end - 1, window->end - window->begin - 1, at - window->begin - 1);
}

yk_status yk_score_tokens(yk_engine *engine, const int32_t *ids, size_t n_tokens, size_t window, size_t stride,
                          float *logprobs, yk_score_progress progress, void *user, yk_err *err)
{
  yk_request *requests[MAX_WINDOWS_IN_FLIGHT] = {0};
  size_t n_submitted = 0, n_collected = 0;
  score_window span;
  yk_status status = YK_OK;
  while (status == YK_OK) {
    bool more = window_at(n_tokens, window, stride, n_submitted, &span);
    if (more && n_submitted - n_collected < MAX_WINDOWS_IN_FLIGHT) {
      status = submit(engine, ids, &span, &requests[n_submitted++ % MAX_WINDOWS_IN_FLIGHT], err);
      continue;
    }
    if (n_collected == n_submitted) break;
    yk_request **oldest = &requests[n_collected % MAX_WINDOWS_IN_FLIGHT];
    window_at(n_tokens, window, stride, n_collected++, &span);
    status = collect(*oldest, &span, logprobs, err);
    yk_request_free(*oldest);
    *oldest = NULL;
    progress(user, (int64_t)span.end, (int64_t)n_tokens);
  }
  for (size_t i = 0; i < MAX_WINDOWS_IN_FLIGHT; i++) yk_request_free(requests[i]);
  return status;
}
