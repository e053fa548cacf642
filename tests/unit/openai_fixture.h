/* openai_fixture.h - requests from bodies that have ' in place of ". */
#ifndef TESTS_UNIT_OPENAI_FIXTURE_H
#define TESTS_UNIT_OPENAI_FIXTURE_H

#include "unit/openai_defaults.h"

/* body: with ' for ". The request must be freed after any result. */
yk_status openai_parse_with(const yk_openai_defaults *defaults, yk_openai_form form, const char *body,
                            yk_openai_request *out, yk_err *err);

/* The same with openai_defaults(YK_TOOLS_HERMES); fails the test if the body is refused. */
yk_openai_request openai_request(yk_openai_form form, const char *body);

#endif
