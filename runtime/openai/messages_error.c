#include "openai/messages_error.h"

static const char *type_of(int http_status)
{
  switch (http_status) {
  case 401: return "authentication_error";
  case 403: return "permission_error";
  case 404: return "not_found_error";
  case 408: return "timeout_error";
  case 413: return "request_too_large";
  case 429: return "rate_limit_error";
  case 503: return "overloaded_error";
  default: return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

void yk_messages_error_append(const yk_openai_error *error, yk_strbuf *out)
{
  yk_strbuf_append_fmt(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type_of(error->http_status));
  yk_openai_error_append_text(error->message, out);
  yk_strbuf_append_str(out, "}}");
}
