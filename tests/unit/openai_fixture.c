#include "unit/openai_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/single_quotes.h"

enum { MAX_BODY_BYTES = 1 << 20 };

yk_status openai_parse_with(const yk_openai_defaults *defaults, yk_openai_form form, const char *body,
                            yk_openai_request *out, yk_err *err)
{
  yk_json_doc *document;
  yk_json_rules rules = yk_openai_body_rules(form, MAX_BODY_BYTES);
  char *json = double_quoted(body);
  *out = (yk_openai_request){0};
  yk_status status = yk_json_parse("body", json, strlen(json), &rules, &document, err);
  if (status == YK_OK) status = yk_openai_request_parse(document, yk_json_root(document), form, defaults, out, err);
  free(json);
  return status;
}

yk_openai_request openai_request(yk_openai_form form, const char *body)
{
  yk_err err = YK_ERR_INIT;
  yk_openai_request request;
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_HERMES);
  if (openai_parse_with(&defaults, form, body, &request, &err) != YK_OK) fail_msg("%s: %s", body, err.message);
  return request;
}
