/* reply.h - an answer that is sent in one piece. */
#ifndef YK_SERVER_REPLY_H
#define YK_SERVER_REPLY_H

#include "base/strbuf.h"
#include "openai/error.h"

/* Writes the body of an error in the form that a route's clients expect. */
typedef void (*yk_error_form)(const yk_openai_error *error, yk_strbuf *out);

typedef struct yk_reply {
  yk_error_form error_form;       /* NULL: OpenAI's */
  int http_status;                /* 0: not set yet */
  const char *content_type;       /* static */
  const char *allow;              /* static, of 405; or NULL */
  int retry_after_s;              /* 0: no header Retry-After */
  char why[YK_ERR_MESSAGE_BYTES]; /* an error's message; "": not an error */
  yk_strbuf body;                 /* used if static_body is NULL */
  const char *static_body;        /* [static_bytes]; lives as long as the program */
  size_t static_bytes;
} yk_reply;

extern const char yk_content_json[], yk_content_events[];

/* yk_reply_json - 200 with the JSON text in body; 500 if memory for the text ran out. */
void yk_reply_json(yk_reply *reply);

/* yk_reply_error - an error in the reply's form; replaces the body. */
void yk_reply_error(yk_reply *reply, const yk_openai_error *error);

/* yk_reply_failure - the same of a yk_err; param: the field at fault, or NULL. */
void yk_reply_failure(yk_reply *reply, const yk_err *err, const char *param);

/* yk_reply_refuse - the same with an HTTP status and a message. code: static, or NULL for the usual one. */
void yk_reply_refuse(yk_reply *reply, int http_status, const char *code, const char *fmt, ...) YK_PRINTF(4, 5);

#endif
