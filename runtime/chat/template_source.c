#define _GNU_SOURCE /* asprintf */
#include "chat/template_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "chat/builtin_forms.h"
#include "chat/class_tokens.h"
#include "text/utf8.h"

enum { TEMPLATE_MAX_BYTES = 4 << 20 };

static const char BUILTIN[] = "builtin:";

static const char *const SPECIAL_TOKENS[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

static bool exists(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0;
}

static yk_status no_memory(const char *model_dir, yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "%.100s: no memory for the chat template", model_dir);
}

static yk_status make_path(const char *model_dir, const char *name, char **out, yk_err *err)
{
  if (asprintf(out, "%s/%s", model_dir, name) >= 0) return YK_OK;
  *out = NULL;
  return no_memory(model_dir, err);
}

static yk_status read_template(const char *path, char **out, yk_err *err)
{
  size_t n_bytes;
  YK_TRY(yk_file_read(path, TEMPLATE_MAX_BYTES, out, &n_bytes, err));
  size_t n_valid = yk_utf8_valid_bytes(*out, n_bytes);
  if (n_valid == n_bytes && strlen(*out) == n_bytes) return YK_OK;
  if (n_valid < n_bytes)
    yk_err_set(err, YK_E_FORMAT, "%s: expected UTF-8, found byte 0x%02X at offset %zu", path,
               (unsigned char)(*out)[n_valid], n_valid);
  else
    yk_err_set(err, YK_E_FORMAT, "%s: expected a template, found a NUL character", path);
  free(*out);
  *out = NULL;
  return YK_E_FORMAT;
}

/* The JSON object of a file, or an empty one where the file is missing. */
static yk_status read_object(const char *model_dir, const char *name, json_t **out, yk_err *err)
{
  char *path;
  YK_TRY(make_path(model_dir, name, &path, err));
  yk_status status = YK_OK;
  *out = NULL;
  if (exists(path)) {
    status = yk_tree_parse_file(path, out, err);
    if (status == YK_OK && !json_is_object(*out)) {
      status = yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", path, yk_tree_type_name(*out));
      json_decref(*out);
      *out = NULL;
    }
  } else if (!(*out = json_object())) {
    status = no_memory(model_dir, err);
  }
  free(path);
  return status;
}

/* A token as a string or an object with the string under "content"; NULL for neither. */
static json_t *token_text(const json_t *value)
{
  json_t *text = json_is_object(value) ? json_object_get(value, "content") : (json_t *)value;
  return json_is_string(text) ? text : NULL;
}

static yk_status take_token(const char *file, const char *key, const json_t *value, json_t *tokens, yk_err *err)
{
  json_t *text = token_text(value);
  if (!text)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a string or an object with \"content\", found %s",
                      file, key, yk_tree_type_name(value));
  if (json_string_length(text) == 0) { /* to transformers, none */
    json_object_del(tokens, key);
    return YK_OK;
  }
  return json_object_set(tokens, key, text) == 0 ? YK_OK : yk_err_set(err, YK_E_NOMEM, "%s: no memory", file);
}

static yk_status take_additional(const char *file, const json_t *list, json_t *tokens, yk_err *err)
{
  static const char KEY[] = "additional_special_tokens";
  json_t *known = json_object_get(tokens, KEY), *texts = known ? json_incref(known) : json_array();
  const json_t *value;
  yk_status status = YK_OK;
  size_t i;
  if (!json_is_array(list))
    status =
        yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a list, found %s", file, KEY, yk_tree_type_name(list));
  json_array_foreach(list, i, value)
  {
    json_t *text = token_text(value), *other;
    bool is_there = false;
    size_t k;
    json_array_foreach(texts, k, other) is_there = is_there || json_equal(text, other);
    if (status != YK_OK || is_there) continue;
    if (!text)
      status = yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\"[%zu]: expected a token, found %s", file, KEY, i,
                          yk_tree_type_name(value));
    else if (json_array_append(texts, text) != 0)
      status = yk_err_set(err, YK_E_NOMEM, "%s: no memory", file);
  }
  if (status == YK_OK && json_array_size(texts) > 0 && json_object_set(tokens, KEY, texts) != 0)
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory", file);
  json_decref(texts);
  return status;
}

/* The special tokens of one file, in place of those that were known before; null takes one away. */
static yk_status take_tokens(const char *file, const json_t *object, json_t *tokens, yk_err *err)
{
  for (size_t i = 0; i < sizeof SPECIAL_TOKENS / sizeof *SPECIAL_TOKENS; i++) {
    const json_t *value = json_object_get(object, SPECIAL_TOKENS[i]);
    if (json_is_null(value))
      json_object_del(tokens, SPECIAL_TOKENS[i]);
    else if (value)
      YK_TRY(take_token(file, SPECIAL_TOKENS[i], value, tokens, err));
  }
  const json_t *list = json_object_get(object, "additional_special_tokens"), *value;
  if (list && !json_is_null(list)) YK_TRY(take_additional(file, list, tokens, err));
  const char *key;
  json_object_foreach(json_object_get(object, "extra_special_tokens"), key, value)
      YK_TRY(take_token(file, key, value, tokens, err));
  return YK_OK;
}

static yk_status find_special_tokens(const char *model_dir, const json_t *config, yk_template_source *out, yk_err *err)
{
  out->special_tokens = json_object();
  if (!out->special_tokens) return no_memory(model_dir, err);
  const char *tokenizer_class = json_string_value(json_object_get(config, "tokenizer_class"));
  YK_TRY(yk_class_tokens_add(tokenizer_class, out->special_tokens, err));
  YK_TRY(take_tokens("tokenizer_config.json", config, out->special_tokens, err));
  if (json_object_get(config, "added_tokens_decoder")) return YK_OK;
  json_t *map;
  YK_TRY(read_object(model_dir, "special_tokens_map.json", &map, err));
  yk_status status = take_tokens("special_tokens_map.json", map, out->special_tokens, err);
  json_decref(map);
  return status;
}

/* The template that the value of "chat_template" has under a name, or NULL. */
static yk_status take_text(const json_t *value, const char *name, char **out, yk_err *err)
{
  if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
    return yk_err_set(err, YK_E_FORMAT, "tokenizer_config.json: chat_template \"%s\": expected a template, found %s",
                      name, json_is_string(value) ? "a NUL character" : yk_tree_type_name(value));
  free(*out);
  *out = strdup(json_string_value(value));
  return *out ? YK_OK : yk_err_set(err, YK_E_NOMEM, "tokenizer_config.json: no memory for chat_template");
}

static yk_status take_named(const json_t *list, yk_template_source *out, yk_err *err)
{
  const json_t *entry;
  size_t i;
  json_array_foreach(list, i, entry)
  {
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name)
      return yk_err_set(err, YK_E_FORMAT,
                        "tokenizer_config.json: chat_template[%zu]: expected an object with a \"name\"", i);
    const json_t *text = json_object_get(entry, "template");
    if (strcmp(name, "default") == 0) YK_TRY(take_text(text, name, &out->text, err));
    if (strcmp(name, "tool_use") == 0) YK_TRY(take_text(text, name, &out->tool_use, err));
  }
  if (out->text) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "tokenizer_config.json: chat_template: none of the %zu is named \"default\"",
                    json_array_size(list));
}

static yk_status find_in_config(const char *model_dir, const json_t *config, yk_template_source *out, yk_err *err)
{
  const json_t *value = json_object_get(config, "chat_template");
  if (!value || json_is_null(value))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%.80s: has no chat template (chat_template.jinja, or in tokenizer_config.json); give a file or "
                      "one of " YK_BUILTIN_FORM_NAMES,
                      model_dir);
  YK_TRY(make_path(model_dir, "tokenizer_config.json", &out->origin, err));
  return json_is_array(value) ? take_named(value, out, err) : take_text(value, "default", &out->text, err);
}

/* The checkpoint's own template. */
static yk_status find_own(const char *model_dir, const json_t *config, yk_template_source *out, yk_err *err)
{
  char *tool_use;
  YK_TRY(make_path(model_dir, "chat_template.jinja", &out->origin, err));
  if (!exists(out->origin)) {
    free(out->origin);
    out->origin = NULL;
    return find_in_config(model_dir, config, out, err);
  }
  YK_TRY(read_template(out->origin, &out->text, err));
  YK_TRY(make_path(model_dir, "additional_chat_templates/tool_use.jinja", &tool_use, err));
  yk_status status = exists(tool_use) ? read_template(tool_use, &out->tool_use, err) : YK_OK;
  free(tool_use);
  return status;
}

static yk_status find_given(const char *chat_template, yk_template_source *out, yk_err *err)
{
  out->origin = strdup(chat_template);
  if (!out->origin) return no_memory(chat_template, err);
  if (strncmp(chat_template, BUILTIN, strlen(BUILTIN)) != 0) return read_template(chat_template, &out->text, err);
  out->builtin = yk_builtin_form_find(chat_template + strlen(BUILTIN));
  if (out->builtin) return YK_OK;
  return yk_err_set(err, YK_E_INVAL,
                    "chat template: expected a file or one of " YK_BUILTIN_FORM_NAMES ", found \"%.60s\"",
                    chat_template);
}

yk_status yk_template_source_find(const char *model_dir, const char *chat_template, yk_template_source *out,
                                  yk_err *err)
{
  json_t *config;
  *out = (yk_template_source){0};
  YK_TRY(read_object(model_dir, "tokenizer_config.json", &config, err));
  yk_status status = find_special_tokens(model_dir, config, out, err);
  if (status == YK_OK)
    status = chat_template ? find_given(chat_template, out, err) : find_own(model_dir, config, out, err);
  json_decref(config);
  if (status != YK_OK) yk_template_source_free(out);
  return status;
}

void yk_template_source_free(yk_template_source *source)
{
  free(source->text);
  free(source->tool_use);
  free(source->origin);
  json_decref(source->special_tokens);
  *source = (yk_template_source){0};
}
