/* error.h - errors in OpenAI's form: {"error": {"message", "type", "param", "code"}} with an HTTP status. */
#ifndef YK_OPENAI_ERROR_H
#define YK_OPENAI_ERROR_H

#include "base/status.h"
#include "base/strbuf.h"

enum { YK_OPENAI_PARAM_BYTES = 64 };

typedef struct yk_openai_error {
  int http_status;                   /* 400, 401, ... */
  const char *type;                  /* "invalid_request_error", ...; static */
  const char *code;                  /* "context_length_exceeded", ...; static; NULL: null */
  char param[YK_OPENAI_PARAM_BYTES]; /* the request's field; "": null */
  char message[YK_ERR_MESSAGE_BYTES];
} yk_openai_error;

/* yk_openai_error_of - convert a yk_err into the error that a client gets.
 *   err: from yk_openai_request_parse, from the engine's refusal (yk_engine_submit, yk_engine_tokenize), or of a
 *   request that failed later (YK_FINISH_ERROR).
 *     YK_E_INVAL, YK_E_FORMAT, YK_E_UNSUPPORTED: 400; YK_E_CAPACITY: 400 with code context_length_exceeded;
 *     YK_E_CANCELLED: 503; YK_E_DEVICE, YK_E_COMM, YK_E_TIMEOUT: 500 with the message, which names rank and operation;
 *     the others: 500 with the status' name in place of the message, which may name files.
 *   param: the field at fault, or NULL: then the field with which the message begins, if the engine names one. */
void yk_openai_error_of(const yk_err *err, const char *param, yk_openai_error *out);

/* yk_openai_error_http - an error of HTTP, of any status from 400 on.
 *   code: static or NULL, which stands for the usual code of the status (401 invalid_api_key, 404 none, 429
 *   rate_limit_exceeded). param: NULL for none. */
void yk_openai_error_http(yk_openai_error *out, int http_status, const char *code, const char *param, const char *fmt,
                          ...) YK_PRINTF(5, 6);

/* yk_openai_error_append - append the object as JSON, without a newline. In a message that is not UTF-8 (since quoted
 *   input was cut), '?' replaces the bytes beyond ASCII. */
void yk_openai_error_append(const yk_openai_error *error, yk_strbuf *out);

/* yk_openai_error_append_text - append a text of an error as a JSON string, as above. */
void yk_openai_error_append_text(const char *text, yk_strbuf *out);

#endif
