/* constraint_fields.h - the fields of a request that constrain its output: response_format, structured_outputs and its
 * older guided_* fields, allowed_token_ids, and tools whose calls are enforced. */
#ifndef YK_OPENAI_CONSTRAINT_FIELDS_H
#define YK_OPENAI_CONSTRAINT_FIELDS_H

#include "openai/request.h"

/* Each reads one field. One constraint at most may be given. Errors: YK_E_FORMAT, YK_E_INVAL, YK_E_NOMEM;
 * YK_E_UNSUPPORTED for whitespace_pattern and disable_any_whitespace. */
yk_status yk_request_read_response_format(yk_openai_request *request, yk_json value, yk_err *err);
yk_status yk_request_read_structured_outputs(yk_openai_request *request, yk_json value, yk_err *err);

/* yk_request_read_guided - name: "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag". */
yk_status yk_request_read_guided(yk_openai_request *request, const char *name, yk_json value, yk_err *err);

/* yk_request_read_allowed_ids - "allowed_token_ids", at least one. */
yk_status yk_request_read_allowed_ids(yk_openai_request *request, yk_json value, yk_err *err);

/* How the model may call tools. */
typedef enum yk_tool_choice { YK_TOOL_CHOICE_AUTO, YK_TOOL_CHOICE_NONE, YK_TOOL_CHOICE_REQUIRED } yk_tool_choice;

/* yk_request_enforces - whether calls in this format can be enforced. */
bool yk_request_enforces(yk_tool_format format);

/* yk_request_constrain_tools - constrain the output to calls in the format request->tools: with REQUIRED at least one
 *   call of function, or of any tool if function is NULL; with AUTO, if a tool is strict or a JSON schema constrains
 *   the rest of the output, calls as they occur, if the format can be enforced. Nothing for other requests. Errors:
 *   YK_E_INVAL: REQUIRED without that tool, or together with another constraint; YK_E_NOMEM. */
yk_status yk_request_constrain_tools(yk_openai_request *request, yk_tool_choice choice, const char *function,
                                     yk_err *err);

#endif
