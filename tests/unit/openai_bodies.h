/* openai_bodies.h - texts of which tests make bodies of requests, with ' in place of ", and bodies that are refused. */
#ifndef TESTS_UNIT_OPENAI_BODIES_H
#define TESTS_UNIT_OPENAI_BODIES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/openai_fixture.h"

#define N_ROWS(rows) (sizeof rows / sizeof rows[0])

/* A completion that more keys and } end. */
#define P          "{'prompt': 'p', "
#define USER       "{'role': 'user', 'content': 'hello'}"
#define TOOL       "{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}"
#define CHAT(more) "{'messages': [" USER "]" more "}"

/* A body, the field that its refusal names, and a part of the message. */
typedef struct refusal {
  const char *body, *param, *message;
  yk_status status;
} refusal;

static inline void check_refusals(yk_openai_form form, yk_tool_format tools, const refusal *rows, size_t n)
{
  yk_openai_defaults defaults = openai_defaults(tools);
  for (size_t i = 0; i < n; i++) {
    yk_err err = YK_ERR_INIT;
    yk_openai_request request;
    yk_status status = openai_parse_with(&defaults, form, rows[i].body, &request, &err);
    if (status != rows[i].status || strcmp(request.param, rows[i].param) != 0 || !strstr(err.message, rows[i].message))
      fail_msg("%s: status %d, param %s, %s", rows[i].body, status, request.param, err.message);
    yk_openai_request_free(&request);
  }
}

#endif
