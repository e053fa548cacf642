#include "loader/json_edit.h"

#include <string.h>

static void append_member(yk_strbuf *text, yk_json key, yk_json value)
{
  yk_strbuf_append_str(text, text->length > 1 ? ", " : "");
  yk_json_append(text, key, 0);
  yk_strbuf_append_str(text, ": ");
  yk_json_append(text, value, 0);
}

yk_status yk_json_edit(const char *name, yk_json object, yk_json changes, const char *removed, yk_json_doc **out,
                       yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "{");
  YK_JSON_EACH_KEY(key, object)
  {
    yk_json change = yk_json_get(changes, yk_json_string(key));
    if (removed && yk_json_equals(key, removed)) continue;
    append_member(&text, key, change.doc ? change : yk_json_member(key));
  }
  YK_JSON_EACH_KEY(key, changes)
  if (!yk_json_get(object, yk_json_string(key)).doc) append_member(&text, key, yk_json_member(key));
  yk_strbuf_append_str(&text, "}");
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", name)
                                 : yk_json_parse(name, text.data, text.length, NULL, out, err);
  yk_strbuf_free(&text);
  return status;
}

yk_status yk_json_edit_by_text(const char *name, yk_json object, yk_strbuf *text, const char *removed,
                               yk_json_doc **out, yk_err *err)
{
  yk_json_doc *changes = NULL;
  yk_status status = text->failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", name)
                                  : yk_json_parse(name, text->data, text->length, NULL, &changes, err);
  yk_strbuf_free(text);
  if (status == YK_OK) status = yk_json_edit(name, object, yk_json_root(changes), removed, out, err);
  yk_json_free(changes);
  return status;
}

char *yk_json_to_text(yk_json value)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_append(&text, value, 2);
  if (!text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}
