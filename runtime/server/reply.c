#include "server/reply.h"

#include <stdarg.h>
#include <stdio.h>

const char yk_content_json[] = "application/json", yk_content_events[] = "text/event-stream; charset=utf-8";

void yk_reply_json(yk_reply *reply)
{
  reply->http_status = 200;
  reply->content_type = yk_content_json;
  if (reply->body.failed) yk_reply_refuse(reply, 500, NULL, "out of memory");
}

void yk_reply_error(yk_reply *reply, const yk_openai_error *error)
{
  yk_strbuf_clear(&reply->body);
  yk_error_form append = reply->error_form ? reply->error_form : yk_openai_error_append;
  append(error, &reply->body);
  snprintf(reply->why, sizeof reply->why, "%s", error->message);
  reply->http_status = error->http_status;
  reply->content_type = yk_content_json;
}

void yk_reply_failure(yk_reply *reply, const yk_err *err, const char *param)
{
  yk_openai_error error;
  yk_openai_error_of(err, param && param[0] ? param : NULL, &error);
  yk_reply_error(reply, &error);
}

void yk_reply_refuse(yk_reply *reply, int http_status, const char *code, const char *fmt, ...)
{
  char message[YK_ERR_MESSAGE_BYTES];
  yk_openai_error error;
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  yk_openai_error_http(&error, http_status, code, NULL, "%s", message);
  yk_reply_error(reply, &error);
}
