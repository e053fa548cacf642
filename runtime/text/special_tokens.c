#define _GNU_SOURCE /* asprintf */
#include "text/special_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_write.h"
#include "text/class_tokens.h"

static const char *const NAMES[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

static bool ends_with_token(const char *key)
{
  size_t n = strlen(key);
  return n > 6 && strcmp(key + n - 6, "_token") == 0;
}

bool yk_tokenizer_config_keeps(const char *key)
{
  static const char *const KEYS[] = {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens",
                                     "tokenizer_class"};
  for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
    if (strcmp(key, KEYS[i]) == 0) return true;
  return ends_with_token(key);
}

/* A token that was found; borrows from its file. */
typedef struct token {
  const char *name; /* NULL: none */
  const char *text;
  size_t n_bytes;
} token;

typedef struct found_tokens {
  token *items;
  size_t n, capacity;
} found_tokens;

/* Reads the object in a file; NULL if the file is missing. */
static yk_status read_object(const char *dir, const char *name, bool (*keeps)(const char *key), yk_json_doc **out,
                             yk_err *err)
{
  struct stat info;
  char *path;
  yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .keeps = keeps};
  *out = NULL;
  if (asprintf(&path, "%s/%s", dir, name) < 0)
    return yk_err_set(err, YK_E_NOMEM, "%.100s: no memory for %s", dir, name);
  yk_status status = stat(path, &info) == 0 ? yk_json_parse_file(path, &rules, out, err) : YK_OK;
  if (*out && !yk_json_is(yk_json_root(*out), YK_JSON_OBJECT))
    status =
        yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", path, yk_json_type_name(yk_json_root(*out)));
  free(path);
  return status;
}

yk_status yk_tokenizer_files_read(const char *dir, bool (*keeps)(const char *key), yk_tokenizer_files *out, yk_err *err)
{
  *out = (yk_tokenizer_files){0};
  YK_TRY(read_object(dir, "tokenizer_config.json", keeps, &out->config, err));
  if (!out->config) YK_TRY(yk_json_parse("tokenizer_config.json", "{}", 2, NULL, &out->config, err));
  if (yk_json_get(yk_json_root(out->config), "added_tokens_decoder").doc) return YK_OK;
  return read_object(dir, "special_tokens_map.json", NULL, &out->map, err);
}

void yk_tokenizer_files_free(yk_tokenizer_files *files)
{
  yk_json_free(files->config);
  yk_json_free(files->map);
  *files = (yk_tokenizer_files){0};
}

static yk_status add(found_tokens *found, token added, yk_err *err)
{
  if (found->n == found->capacity) {
    size_t capacity = found->capacity ? 2 * found->capacity : 16;
    token *items = realloc(found->items, capacity * sizeof *items);
    if (!items) return yk_err_set(err, YK_E_NOMEM, "no memory for special tokens");
    found->items = items;
    found->capacity = capacity;
  }
  found->items[found->n++] = added;
  return YK_OK;
}

/* Sets the token of a name; text NULL or empty: none. */
static yk_status set(found_tokens *found, const char *name, const char *text, size_t n_bytes, yk_err *err)
{
  size_t i = 0;
  while (i < found->n && (!found->items[i].name || strcmp(found->items[i].name, name) != 0)) i++;
  if (n_bytes > 0 && i == found->n) return add(found, (token){name, text, n_bytes}, err);
  if (n_bytes > 0)
    found->items[i] = (token){name, text, n_bytes};
  else if (i < found->n)
    memmove(found->items + i, found->items + i + 1, (--found->n - i) * sizeof *found->items);
  return YK_OK;
}

static yk_status add_nameless(found_tokens *found, yk_json text, yk_err *err)
{
  for (size_t i = 0; i < found->n; i++) {
    const token *other = &found->items[i];
    if (!other->name && other->n_bytes == yk_json_length(text) &&
        memcmp(other->text, yk_json_text(text), other->n_bytes) == 0)
      return YK_OK;
  }
  return add(found, (token){NULL, yk_json_text(text), yk_json_length(text)}, err);
}

/* The text of a token that is a string or an object with the string under "content"; else absent. */
static yk_json token_text(yk_json value)
{
  yk_json text = yk_json_is(value, YK_JSON_OBJECT) ? yk_json_get(value, "content") : value;
  return yk_json_is(text, YK_JSON_STRING) ? text : YK_JSON_NONE;
}

static yk_status take_named(found_tokens *found, const char *file, const char *name, yk_json value, yk_err *err)
{
  yk_json text = token_text(value);
  if (!text.doc && yk_json_is_given(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a string or an object with \"content\", found %s",
                      file, name, yk_json_type_name(value));
  return set(found, name, yk_json_text(text), yk_json_length(text), err);
}

static yk_status take_list(found_tokens *found, const char *file, const char *key, yk_json list, yk_err *err)
{
  size_t i = 0;
  if (!yk_json_is(list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a list, found %s", file, key,
                      yk_json_type_name(list));
  YK_JSON_EACH(value, list)
  {
    yk_json text = token_text(value);
    if (!text.doc)
      return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\"[%zu]: expected a token, found %s", file, key, i,
                        yk_json_type_name(value));
    YK_TRY(add_nameless(found, text, err));
    i++;
  }
  return YK_OK;
}

/* Takes the special tokens of one file, which replace earlier ones; null removes a token. */
static yk_status take_file(found_tokens *found, const char *file, yk_json object, yk_err *err)
{
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    yk_json value = yk_json_get(object, NAMES[i]);
    if (value.doc) YK_TRY(take_named(found, file, NAMES[i], value, err));
  }
  YK_JSON_EACH_KEY(key, object) /* specific to the model, such as "image_token" */
  {
    bool is_own = ends_with_token(yk_json_text(key)) && yk_json_is(yk_json_member(key), YK_JSON_STRING);
    if (is_own) YK_TRY(take_named(found, file, yk_json_text(key), yk_json_member(key), err));
  }
  yk_json additional = yk_json_get(object, "additional_special_tokens");
  /* the newer name: the older one is read only without it */
  yk_json extra = yk_json_get(object, "extra_special_tokens");
  if (yk_json_is_given(additional) && yk_json_size(extra) == 0)
    YK_TRY(take_list(found, file, "additional_special_tokens", additional, err));
  YK_JSON_EACH_KEY(key, extra) YK_TRY(take_named(found, file, yk_json_text(key), yk_json_member(key), err));
  if (!yk_json_is_given(extra) || yk_json_is(extra, YK_JSON_OBJECT)) return YK_OK;
  return take_list(found, file, "extra_special_tokens", extra, err);
}

static yk_status take_class(found_tokens *found, const char *name, yk_err *err)
{
  const yk_class_tokens *tokens = yk_class_tokens_find(name);
  if (!tokens) return YK_OK;
  const char *const pairs[][2] = {
      {"bos_token", tokens->bos}, {"eos_token", tokens->eos}, {"unk_token", tokens->unk}, {"pad_token", tokens->pad}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i][1]) YK_TRY(set(found, pairs[i][0], pairs[i][1], strlen(pairs[i][1]), err));
  return YK_OK;
}

static void append_named(yk_strbuf *out, const token *named)
{
  if (out->length > 1) yk_strbuf_append_str(out, ", ");
  yk_json_append_string(out, named->name, strlen(named->name));
  yk_strbuf_append_str(out, ": ");
  yk_json_append_string(out, named->text, named->n_bytes);
}

/* Sort key of a name: index among the names that all classes have; other names follow. */
static size_t rank_of(const token *of)
{
  size_t i = 0, n = sizeof NAMES / sizeof *NAMES;
  while (i < n && strcmp(of->name, NAMES[i]) != 0) i++;
  return i;
}

/* Builds a document of the tokens. */
static yk_status finish(const found_tokens *found, yk_json_doc **out, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "{");
  for (size_t rank = 0; rank <= sizeof NAMES / sizeof *NAMES; rank++)
    for (size_t i = 0; i < found->n; i++)
      if (found->items[i].name && rank_of(&found->items[i]) == rank) append_named(&text, &found->items[i]);
  const char *separator = text.length > 1 ? ", " : "";
  const char *begin = "\"additional_special_tokens\": [", *end = "";
  for (size_t i = 0; i < found->n; i++) {
    const token *item = &found->items[i];
    if (item->name) continue;
    yk_strbuf_append_str(&text, separator);
    yk_strbuf_append_str(&text, begin);
    yk_json_append_string(&text, item->text, item->n_bytes);
    separator = ", ";
    begin = "";
    end = "]";
  }
  yk_strbuf_append_str(&text, end);
  yk_strbuf_append_str(&text, "}");
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for special tokens")
                                 : yk_json_parse("special tokens", text.data, text.length, NULL, out, err);
  yk_strbuf_free(&text);
  return status;
}

yk_status yk_special_tokens_find(const yk_tokenizer_files *files, bool of_class, yk_json_doc **out, yk_err *err)
{
  found_tokens found = {0};
  yk_json config = yk_json_root(files->config);
  yk_status status = YK_OK;
  *out = NULL;
  if (of_class) status = take_class(&found, yk_json_string(yk_json_get(config, "tokenizer_class")), err);
  if (status == YK_OK) status = take_file(&found, "tokenizer_config.json", config, err);
  if (status == YK_OK) status = take_file(&found, "special_tokens_map.json", yk_json_root(files->map), err);
  if (status == YK_OK) status = finish(&found, out, err);
  free(found.items);
  return status;
}
