#include "server/tokenizer_info.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/model_path.h"
#include "chat/template_source.h"

static const char fallback_class[] = "PreTrainedTokenizerFast";

/* {"content": "<s>", "lstrip": ...}: an added token, shown as its text. */
static bool is_added_token(yk_json value)
{
  return yk_json_is(yk_json_get(value, "content"), YK_JSON_STRING) &&
         yk_json_is_bool(yk_json_get(value, "lstrip")); /* every added token has this key */
}

static void append_key(yk_strbuf *out, yk_json key)
{
  yk_json_append(out, key, 0);
  yk_strbuf_append_str(out, ":");
}

/* The reader of tokenizer_config.json bounds the depth. */
static void append_value(yk_strbuf *out, yk_json value, int depth)
{
  bool is_first = true;
  if (is_added_token(value)) {
    yk_json_append(out, yk_json_get(value, "content"), 0);
  } else if (yk_json_is(value, YK_JSON_OBJECT) && depth > 0) {
    YK_JSON_EACH_KEY(key, value)
    {
      yk_strbuf_append_str(out, is_first ? "{" : ",");
      append_key(out, key);
      append_value(out, yk_json_member(key), depth - 1);
      is_first = false;
    }
    yk_strbuf_append_str(out, is_first ? "{}" : "}");
  } else if (yk_json_is(value, YK_JSON_ARRAY) && depth > 0) {
    YK_JSON_EACH(element, value)
    {
      yk_strbuf_append_str(out, is_first ? "[" : ",");
      append_value(out, element, depth - 1);
      is_first = false;
    }
    yk_strbuf_append_str(out, is_first ? "[]" : "]");
  } else {
    yk_json_append(out, value, 0);
  }
}

static bool is_left_out(yk_json key)
{
  static const char *const keys[] = {"vocab_file",   "merges_file",     "tokenizer_file",
                                     "name_or_path", "tokenizer_class", "chat_template"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (yk_json_equals(key, keys[i])) return true;
  return false;
}

/* Appends "key": value for each entry. */
static yk_status append_config(const char *dir, yk_strbuf *out, yk_err *err)
{
  enum { DEPTH = 3 }; /* added_tokens_decoder, extra_special_tokens and lists of added tokens are no deeper */
  char path[YK_MODEL_PATH_BYTES + 32];
  yk_json_doc *doc = NULL;
  snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
  if (access(path, F_OK) == 0) YK_TRY(yk_json_parse_file(path, NULL, &doc, err));
  yk_json root = yk_json_root(doc);
  YK_JSON_EACH_KEY(key, root)
  {
    if (is_left_out(key)) continue;
    append_key(out, key);
    append_value(out, yk_json_member(key), DEPTH);
    yk_strbuf_append_str(out, ",");
  }
  const char *class_name = yk_json_string(yk_json_get(root, "tokenizer_class"));
  yk_strbuf_append_str(out, "\"tokenizer_class\":");
  yk_json_append_string(out, class_name ? class_name : fallback_class,
                        class_name ? strlen(class_name) : strlen(fallback_class));
  yk_json_free(doc);
  return YK_OK;
}

/* Appends nothing if there is no template, or none that can be read, which the server reported at its start. */
static void append_template(const char *dir, const char *chat_template, yk_strbuf *out)
{
  yk_template_source source;
  if (yk_template_source_find(dir, chat_template, &source, NULL) != YK_OK) return;
  if (source.text) {
    yk_strbuf_append_str(out, ",\"chat_template\":");
    yk_json_append_string(out, source.text, strlen(source.text));
  }
  yk_template_source_free(&source);
}

yk_status yk_tokenizer_info_append(const char *path, const char *chat_template, yk_strbuf *out, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  YK_TRY(yk_model_path_dir(path, dir, err));
  yk_strbuf_append_str(out, "{");
  YK_TRY(append_config(dir, out, err));
  append_template(dir, chat_template, out);
  yk_strbuf_append_str(out, "}");
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the tokenizer's configuration") : YK_OK;
}
