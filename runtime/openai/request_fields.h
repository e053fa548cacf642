/* request_fields.h - the table of a request's fields, and reading one of them. */
#ifndef YK_OPENAI_REQUEST_FIELDS_H
#define YK_OPENAI_REQUEST_FIELDS_H

#include "openai/request.h"

/* yk_request_read_field - the field of this key into the request; null means that it is not given. Fields
 *   that depend on others are left for later. Sets request->param. Errors: those of yk_openai_request_parse. */
yk_status yk_request_read_field(yk_openai_request *request, yk_json key, const yk_openai_defaults *defaults,
                                yk_err *err);

/* yk_request_read_max_tokens - the value of the field that says how many tokens are wanted. */
yk_status yk_request_read_max_tokens(yk_openai_request *request, const char *name, yk_json value, yk_err *err);

/* yk_request_take_up - the value of a field that is given, else absent; from here on it is the field at fault. */
yk_json yk_request_take_up(yk_openai_request *request, const char *name);

#endif
