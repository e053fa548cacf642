/* json_option.h - option values that are JSON objects. */
#ifndef YK_CLI_JSON_OPTION_H
#define YK_CLI_JSON_OPTION_H

#include "base/json.h"

/* yk_json_option_read - parse a JSON object, which the caller frees with yk_json_free. Errors: YK_E_INVAL (another
 *   value), YK_E_FORMAT (invalid JSON), YK_E_NOMEM. */
yk_status yk_json_option_read(const char *text, yk_json_doc **out, yk_err *err);

#endif
