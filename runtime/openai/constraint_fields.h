/* constraint_fields.h - the fields of a request that constrain its output: response_format, structured_outputs and its
 * older guided_* fields, allowed_token_ids. */
#ifndef YK_OPENAI_CONSTRAINT_FIELDS_H
#define YK_OPENAI_CONSTRAINT_FIELDS_H

#include "base/strbuf.h"
#include "openai/request.h"

/* Each reads one field. One constraint at most may be given. Errors: YK_E_FORMAT, YK_E_INVAL, YK_E_NOMEM;
 * YK_E_UNSUPPORTED for whitespace_pattern and disable_any_whitespace. */
yk_status yk_request_read_response_format(yk_openai_request *request, yk_json value, yk_err *err);
yk_status yk_request_read_structured_outputs(yk_openai_request *request, yk_json value, yk_err *err);

/* yk_request_read_guided - name: "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag". */
yk_status yk_request_read_guided(yk_openai_request *request, const char *name, yk_json value, yk_err *err);

/* yk_request_read_allowed_ids - "allowed_token_ids", at least one. */
yk_status yk_request_read_allowed_ids(yk_openai_request *request, yk_json value, yk_err *err);

/* yk_request_set_constraint_text - takes over the text; name begins messages. Errors: YK_E_INVAL: the request has a
 *   constraint already; YK_E_NOMEM. */
yk_status yk_request_set_constraint_text(yk_openai_request *request, const char *name, yk_constraint_kind kind,
                                         yk_strbuf *text, yk_err *err);

#endif
