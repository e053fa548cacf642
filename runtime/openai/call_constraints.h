/* call_constraints.h - tool calls that a request enforces, as structural tags in the form in which the model writes its
 * calls, so that the parser of that form reads them. */
#ifndef YK_OPENAI_CALL_CONSTRAINTS_H
#define YK_OPENAI_CALL_CONSTRAINTS_H

#include "openai/request.h"

/* How the model may call tools. */
typedef enum yk_tool_choice { YK_TOOL_CHOICE_AUTO, YK_TOOL_CHOICE_NONE, YK_TOOL_CHOICE_REQUIRED } yk_tool_choice;

/* yk_request_constrain_tools - constrain the output to calls in the format request->tools: with REQUIRED at least one
 *   call of function, or of any tool if function is NULL; with AUTO, if a tool is strict or a JSON schema constrains
 *   the remaining output, calls in the positions where they occur. No effect on other requests. Errors: YK_E_INVAL:
 *   REQUIRED without that tool, or together with another constraint; YK_E_NOMEM. */
yk_status yk_request_constrain_tools(yk_openai_request *request, yk_tool_choice choice, const char *function,
                                     yk_err *err);

#endif
