#include "cli/options/json_option.h"

#include <string.h>

yk_status yk_json_option_read(const char *text, yk_json_doc **out, yk_err *err)
{
  YK_TRY(yk_json_parse("JSON", text, strlen(text), NULL, out, err));
  yk_json root = yk_json_root(*out);
  if (yk_json_is(root, YK_JSON_OBJECT)) return YK_OK;
  yk_err_set(err, YK_E_INVAL, "expected a JSON object, found %s", yk_json_type_name(root));
  yk_json_free(*out);
  *out = NULL;
  return YK_E_INVAL;
}
