/* request_fields.h - the table of a request's fields, and the function that reads one field. */
#ifndef YK_OPENAI_REQUEST_FIELDS_H
#define YK_OPENAI_REQUEST_FIELDS_H

#include "openai/request.h"

/* yk_request_read_field - read the field with this key into the request; null counts as absent. Fields that depend on
 *   others are skipped, to be read later. Sets request->param. Errors: those of yk_openai_request_parse. */
yk_status yk_request_read_field(yk_openai_request *request, yk_json key, const yk_openai_defaults *defaults,
                                yk_err *err);

/* yk_request_read_max_tokens - the value of the field for the maximum number of tokens. */
yk_status yk_request_read_max_tokens(yk_openai_request *request, const char *name, yk_json value, yk_err *err);

/* yk_request_take_up - the value of a field, or absent; sets request->param to the field. */
yk_json yk_request_take_up(yk_openai_request *request, const char *name);

#endif
