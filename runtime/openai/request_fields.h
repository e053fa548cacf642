/* request_fields.h - the table of a request's fields, and reading one of them. */
#ifndef YK_OPENAI_REQUEST_FIELDS_H
#define YK_OPENAI_REQUEST_FIELDS_H

#include "openai/request.h"

/* yk_request_read_field - what the field of this name has into the request; null means that it is not given. Fields
 *   that depend on others are left for later. Sets request->param. Errors: those of yk_openai_request_parse. */
yk_status yk_request_read_field(yk_openai_request *request, const char *name, const yk_openai_document *document,
                                const yk_openai_defaults *defaults, json_t *value, yk_err *err);

/* yk_request_read_max_tokens - the value of the field that says how many tokens are wanted. */
yk_status yk_request_read_max_tokens(yk_openai_request *request, const char *name, const json_t *value, yk_err *err);

/* yk_request_take_up - the value of a field that is given, else NULL; from here on it is the field at fault. */
json_t *yk_request_take_up(yk_openai_request *request, const char *name);

#endif
