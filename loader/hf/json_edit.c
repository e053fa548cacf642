#include "loader/hf/json_edit.h"

static void separate(yk_strbuf *out)
{
  if (out->length > 0 && out->data[out->length - 1] != '{') yk_strbuf_append_str(out, ", ");
}

void yk_json_append_member(yk_strbuf *out, yk_json key, yk_json value)
{
  separate(out);
  yk_json_append(out, key, 0);
  yk_strbuf_append_str(out, ": ");
  yk_json_append(out, value, 0);
}

void yk_json_begin_member(yk_strbuf *out, const char *key)
{
  separate(out);
  yk_strbuf_append_fmt(out, "\"%s\": ", key);
}

static void append_edited(yk_strbuf *text, yk_json object, yk_json changes, const char *removed)
{
  yk_strbuf_append_str(text, "{");
  YK_JSON_EACH_KEY(key, object)
  {
    yk_json change = yk_json_get(changes, yk_json_string(key));
    if (removed && yk_json_equals(key, removed)) continue;
    yk_json_append_member(text, key, change.doc ? change : yk_json_member(key));
  }
  YK_JSON_EACH_KEY(key, changes)
  {
    if (!yk_json_get(object, yk_json_string(key)).doc) yk_json_append_member(text, key, yk_json_member(key));
  }
  yk_strbuf_append_str(text, "}");
}

/* Takes ownership of text. */
static yk_status parse_written(const char *name, yk_strbuf *text, yk_json_doc **out, yk_err *err)
{
  yk_status status = text->failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", name)
                                  : yk_json_parse(name, text->data, text->length, NULL, out, err);
  yk_strbuf_free(text);
  return status;
}

yk_status yk_json_edit(const char *name, yk_json object, yk_strbuf *changes, const char *removed, yk_json_doc **out,
                       yk_err *err)
{
  yk_json_doc *parsed;
  yk_strbuf text = YK_STRBUF_INIT;
  YK_TRY(parse_written(name, changes, &parsed, err));
  append_edited(&text, object, yk_json_root(parsed), removed);
  yk_json_free(parsed);
  return parse_written(name, &text, out, err);
}

char *yk_json_to_text(yk_json value)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_append(&text, value, 2);
  if (!text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}
