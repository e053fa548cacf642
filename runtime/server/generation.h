/* generation.h - an answer that an engine is producing: the choices of one completion request. The exchange holds the
 * lease of the engine until every choice has ended. */
#ifndef YK_SERVER_GENERATION_H
#define YK_SERVER_GENERATION_H

#include "openai/answer.h"
#include "server/exchange.h"

struct yk_generation {
  yk_openai_request request;
  yk_openai_answer *answer;
  yk_request **requests; /* [n_choices]; NULL: ended */
  int64_t *token_ns;     /* [n_choices] when the last token was read; 0: none yet */
  int32_t *n_tokens;     /* [n_choices] of the output, set at the choice's end */
  size_t n_choices, n_running;
  int64_t n_prompt_tokens, n_output_tokens;
  char adapter[YK_ADAPTER_NAME_BYTES]; /* the adapter that the request names; "": none */
  yk_strbuf out;                       /* events, or the whole answer */
  bool is_direct;                      /* events are written to the connection, bypassing libmicrohttpd */
  bool has_news;                       /* the engine has more output, to be read when the client has accepted out */
  bool has_begun;                      /* the stream's status has been sent: later errors are events */
  bool has_ended;                      /* out holds the last byte */
};

/* yk_generation_prepare - the worker's part of routes with a protocol: a submitted generation, or a reply that gives
 *   the reason of the refusal. */
void yk_generation_prepare(yk_exchange *exchange);

/* yk_generation_hold - count an exchange as waiting, before a worker has it. False: there are too many, and the reply
 *   is the refusal. Server thread. */
bool yk_generation_hold(yk_exchange *exchange);

/* yk_generation_unhold - the exchange no longer counts as waiting, unless its choices have been counted meanwhile.
 *   Server thread. */
void yk_generation_unhold(yk_exchange *exchange);

/* yk_generation_begin - the server thread takes the generation over from the worker. */
void yk_generation_begin(yk_exchange *exchange);

/* yk_generation_pump - reads the engine's output for the generation, unless the client's unread output exceeds the
 * limit. */
void yk_generation_pump(yk_exchange *exchange);

/* yk_generation_fail - end the generation with this error, as a reply or as the last event of its stream. */
void yk_generation_fail(yk_exchange *exchange, const yk_openai_error *error);

/* yk_generation_cancel - free its requests in the engine, and return the lease. */
void yk_generation_cancel(yk_exchange *exchange);

/* yk_generation_leave - the client of an exchange, in any state, has left: cancel all its work. */
void yk_generation_leave(yk_exchange *exchange);

/* yk_generation_take - for MHD_create_response_from_callback, with the exchange. libmicrohttpd calls the function when
 *   it has written all its bytes. The function provides no bytes, since events are written to the connection directly,
 *   but the end of the stream. */
ssize_t yk_generation_take(void *exchange, uint64_t position, char *buffer, size_t max_bytes);

void yk_generation_free(yk_generation *generation);

#endif
