/* generation.h - an answer that an engine is writing: the choices of one request for a completion. The exchange holds
 * the lease of that engine until every choice has ended. */
#ifndef YK_SERVER_GENERATION_H
#define YK_SERVER_GENERATION_H

#include "openai/answer.h"
#include "server/exchange.h"

struct yk_generation {
  yk_openai_request request;
  yk_openai_answer *answer;
  yk_request **requests; /* [n_choices], NULL: ended */
  int64_t *token_ns;     /* [n_choices] when the last token was read; 0: none yet */
  int32_t *n_tokens;     /* [n_choices] of the output, once it has ended */
  size_t n_choices, n_running;
  int64_t n_prompt_tokens, n_output_tokens;
  yk_strbuf out;  /* events, or the whole answer */
  bool is_direct; /* events are written to the connection, past libmicrohttpd */
  bool has_news;  /* the engine has more, which waits until the client has taken this */
  bool has_begun; /* the stream's status has gone to the client: errors are events from now on */
  bool has_ended; /* out holds the last byte */
};

/* yk_generation_prepare_... - the worker's part of /v1/completions and /v1/chat/completions: a submitted generation,
 *   or a reply that says why there is none. */
void yk_generation_prepare_completion(yk_exchange *exchange);
void yk_generation_prepare_chat(yk_exchange *exchange);

/* yk_generation_hold - count an exchange among those that wait, before a worker has it. False: the reply says that
 *   there are too many. Server thread. */
bool yk_generation_hold(yk_exchange *exchange);

/* yk_generation_unhold - no longer, unless its choices are counted by now. Server thread. */
void yk_generation_unhold(yk_exchange *exchange);

/* yk_generation_begin - the server thread takes it over from the worker. */
void yk_generation_begin(yk_exchange *exchange);

/* yk_generation_pump - read what the engine has for it, as far as the client keeps up. */
void yk_generation_pump(yk_exchange *exchange);

/* yk_generation_fail - give it up with this error, told as a reply or as the last event of its stream. */
void yk_generation_fail(yk_exchange *exchange, const yk_openai_error *error);

/* yk_generation_cancel - drop what runs for it in the engine, and give the lease back. */
void yk_generation_cancel(yk_exchange *exchange);

/* yk_generation_leave - the client of an exchange in any state has left: whatever runs for it is given up. */
void yk_generation_leave(yk_exchange *exchange);

/* yk_generation_take - for MHD_create_response_from_callback, with the exchange, whenever libmicrohttpd has written all
 *   that it has: no bytes for libmicrohttpd, as events go to the connection at once, but the end of the stream. */
ssize_t yk_generation_take(void *exchange, uint64_t position, char *buffer, size_t max_bytes);

void yk_generation_free(yk_generation *generation);

#endif
