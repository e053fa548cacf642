#define _GNU_SOURCE /* asprintf */
#include "chat/template_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/utf8.h"
#include "chat/builtin_forms.h"
#include "text/special_tokens.h"

enum { TEMPLATE_MAX_BYTES = 4 << 20 };

static const char BUILTIN[] = "builtin:";

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

/* The template under a name in the value of "chat_template", or NULL. */
static yk_status take_text(yk_json value, const char *name, char **out, yk_err *err)
{
  const char *text = yk_json_string(value);
  if (!text || strlen(text) != yk_json_length(value))
    return yk_err_set(err, YK_E_FORMAT, "tokenizer_config.json: chat_template \"%s\": expected a template, found %s",
                      name, text ? "a NUL character" : yk_json_type_name(value));
  free(*out);
  *out = strdup(text);
  return *out ? YK_OK : yk_err_set(err, YK_E_NOMEM, "tokenizer_config.json: no memory for chat_template");
}

static yk_status take_named(yk_json list, yk_template_source *out, yk_err *err)
{
  size_t i = 0;
  YK_JSON_EACH(entry, list)
  {
    const char *name = yk_json_string(yk_json_get(entry, "name"));
    if (!name)
      return yk_err_set(err, YK_E_FORMAT,
                        "tokenizer_config.json: chat_template[%zu]: expected an object with a \"name\"", i);
    yk_json text = yk_json_get(entry, "template");
    if (strcmp(name, "default") == 0) YK_TRY(take_text(text, name, &out->text, err));
    if (strcmp(name, "tool_use") == 0) YK_TRY(take_text(text, name, &out->tool_use, err));
    i++;
  }
  if (out->text) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "tokenizer_config.json: chat_template: none of the %zu is named \"default\"",
                    yk_json_size(list));
}

static yk_status find_in_config(const char *model_dir, yk_json config, yk_template_source *out, yk_err *err)
{
  yk_json value = yk_json_get(config, "chat_template");
  if (!yk_json_is_given(value))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%.80s: has no chat template (chat_template.jinja, or in tokenizer_config.json); give a file or "
                      "one of " YK_BUILTIN_FORM_NAMES,
                      model_dir);
  YK_TRY(make_path(model_dir, "tokenizer_config.json", &out->origin, err));
  return yk_json_is(value, YK_JSON_ARRAY) ? take_named(value, out, err) : take_text(value, "default", &out->text, err);
}

/* Finds the checkpoint's own template. */
static yk_status find_own(const char *model_dir, yk_json config, yk_template_source *out, yk_err *err)
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
  return yk_err_set(err, YK_E_INVAL, "expected a file or one of " YK_BUILTIN_FORM_NAMES ", found \"%.60s\"",
                    chat_template);
}

yk_status yk_template_source_find(const char *model_dir, const char *chat_template, yk_template_source *out,
                                  yk_err *err)
{
  yk_tokenizer_files files;
  *out = (yk_template_source){0};
  yk_status status = yk_tokenizer_files_read(model_dir, NULL, &files, err);
  yk_json root = yk_json_root(files.config);
  if (status == YK_OK) status = yk_special_tokens_find(&files, true, &out->special_tokens, err);
  if (status == YK_OK)
    status = chat_template ? find_given(chat_template, out, err) : find_own(model_dir, root, out, err);
  yk_tokenizer_files_free(&files);
  if (status != YK_OK) yk_template_source_free(out);
  return status;
}

void yk_template_source_free(yk_template_source *source)
{
  free(source->text);
  free(source->tool_use);
  free(source->origin);
  yk_json_free(source->special_tokens);
  *source = (yk_template_source){0};
}
