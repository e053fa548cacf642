/* answer.h - builds the answer to a client: server-sent events while tokens arrive, or one object at the end, in the
 * form of the request's route (answer_write.h).
 *
 * Streaming, completions and chat: each pushed output becomes one event, "data: {...}" and an empty line, in the
 * caller's buffer. Every token has an event with its log-probabilities, even if the token's text is empty because its
 * last character is not complete yet. The event of a choice's last token has finish_reason: the engine reports the end
 * right after the last token, so an event is written only when the next output of its choice is pushed, or at a flush.
 * Chat: the role comes first, in a separate event.
 * Streaming, responses and messages: the events of the answer's blocks (answer_blocks.h), written at the same times.
 * Without streaming, and for embeddings: pushed outputs are collected, and yk_openai_answer_finish writes the object.
 *
 * Order of calls for a stream: create; for each choice push (or read) and flush, until every choice has ended; finish.
 * If a choice fails: fail, and nothing after that. One thread at a time. */
#ifndef YK_OPENAI_ANSWER_H
#define YK_OPENAI_ANSWER_H

#include "openai/request.h"
#include "openai/token_texts.h"

typedef struct yk_openai_answer yk_openai_answer; /* owner: the creator */

typedef struct yk_openai_answer_options {
  const char *id;          /* "cmpl-...", "chatcmpl-..."; copied */
  const char *model;       /* copied */
  int64_t created_s;       /* Unix time in seconds */
  yk_token_texts *texts;   /* for log-probabilities and echoed ids; outlives the answer */
  bool has_text;           /* the model has a tokenizer; else texts are null and token ids are included */
  bool with_cached_tokens; /* usage includes prompt_tokens_details.cached_tokens, which depends on earlier requests */
} yk_openai_answer_options;

/* yk_openai_answer_create - the request must outlive the answer and have its prompts' ids.
 *   Errors: YK_E_NOMEM. */
yk_status yk_openai_answer_create(const yk_openai_request *request, const yk_openai_answer_options *options,
                                  yk_openai_answer **out, yk_err *err);
void yk_openai_answer_free(yk_openai_answer *answer);

/* yk_openai_answer_push - one output of a choice (prompt * n_samples + sample), in order, the end included. An end with
 *   YK_FINISH_ERROR or YK_FINISH_CANCELLED must not be pushed: send an error instead.
 *   usage: with the end, and optionally with the first output; else NULL. joins: the client is slow, and this output
 *   may share the event of the previous output. out: events are appended; not used by whole answers, which may pass
 *   NULL.
 *   Errors: YK_E_NOMEM; of texts for log-probabilities also those of yk_token_walk_begin. */
yk_status yk_openai_answer_push(yk_openai_answer *answer, size_t choice, const yk_output *output,
                                const yk_request_usage *usage, bool joins, yk_strbuf *out, yk_err *err);

/* yk_openai_answer_flush - no more outputs of this choice are available at present: write the pending event. Errors: as
 *   for yk_openai_answer_push. */
yk_status yk_openai_answer_flush(yk_openai_answer *answer, size_t choice, yk_strbuf *out, yk_err *err);

/* yk_openai_answer_read - push everything that can be read from a choice's request without waiting, and flush. *ended:
 *   the end was read, and the request must not be read again.
 *   Errors: those of yk_openai_answer_push; the request's failure, or YK_E_CANCELLED if the request was cancelled:
 *   *ended is then true. */
yk_status yk_openai_answer_read(yk_openai_answer *answer, size_t choice, yk_request *request, bool joins,
                                yk_strbuf *out, bool *ended, yk_err *err);

/* yk_openai_answer_finish - every choice has ended. Streaming: the last events of the form; for completions and chat
 *   the event with the usage if requested, without choices, and "data: [DONE]". Whole: the answer's object, without a
 *   newline.
 *   Errors: YK_E_NOMEM. */
yk_status yk_openai_answer_finish(yk_openai_answer *answer, yk_strbuf *out, yk_err *err);

/* yk_openai_answer_fail - streaming: end the stream with the form's event of an error; for completions and chat
 *   {"error": ...} and "data: [DONE]". */
void yk_openai_answer_fail(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out);

#endif
