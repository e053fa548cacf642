#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loader/hf/hf_parts.h"

static const char file[] = "modules.json";

static void refuse(yk_pooling_config *out, const char *fmt, ...) YK_PRINTF(2, 3);

static void refuse(yk_pooling_config *out, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vsnprintf(out->refused, sizeof out->refused, fmt, args);
  va_end(args);
}

/* "" for anything but a string. */
static const char *string_of(yk_json object, const char *key)
{
  const char *text = yk_json_string(yk_json_get(object, key));
  return text ? text : "";
}

/* The class of a module, without the packages before its name, which differ between versions. */
static const char *class_of(yk_json module)
{
  const char *type = string_of(module, "type"), *dot = strrchr(type, '.');
  return dot ? dot + 1 : type;
}

bool yk_hf_find_pooling(yk_json modules, char folder[YK_POOLING_FOLDER_BYTES])
{
  YK_JSON_EACH(module, modules)
  {
    const char *path = string_of(module, "path");
    if (strcmp(class_of(module), "Pooling") != 0) continue;
    if (!path[0] || strchr(path, '/') || strstr(path, "..")) return false;
    return (size_t)snprintf(folder, YK_POOLING_FOLDER_BYTES, "%s", path) < YK_POOLING_FOLDER_BYTES;
  }
  return false;
}

/* Fills *out with whether the modules are a model in the folder itself, a pooling and, maybe, a normalisation. */
static bool check_modules(yk_json modules, yk_pooling_config *out)
{
  static const char *const classes[] = {"Transformer", "Pooling", "Normalize"};
  enum { N_CLASSES = sizeof classes / sizeof *classes, N_NEEDED = 2 };
  size_t i = 0;
  YK_JSON_EACH(module, modules)
  {
    bool is_next = i < N_CLASSES && strcmp(class_of(module), classes[i]) == 0;
    if (is_next && i == 0) is_next = !string_of(module, "path")[0];
    if (!is_next) {
      refuse(out, "%s: module \"%.60s\" at place %zu is not supported; supported: Transformer, Pooling, Normalize",
             file, class_of(module), i);
      return false;
    }
    i++;
  }
  if (i < N_NEEDED)
    refuse(out, "%s: expected an array of the modules Transformer, Pooling and, maybe, Normalize", file);
  out->normalises = i == N_CLASSES;
  return i >= N_NEEDED;
}

/* The mode of pooling; an older configuration has a flag for each mode. */
static const char *mode_of(yk_json pooling)
{
  static const char *const flags[] = {"pooling_mode_cls_token",           "pooling_mode_mean_tokens",
                                      "pooling_mode_max_tokens",          "pooling_mode_mean_sqrt_len_tokens",
                                      "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};
  const char *found = "mean";
  yk_json mode = yk_json_get(pooling, "pooling_mode");
  if (yk_json_is(mode, YK_JSON_ARRAY) && yk_json_size(mode) == 1) mode = yk_json_first(mode);
  if (yk_json_is_given(mode)) return yk_json_is(mode, YK_JSON_STRING) ? yk_json_text(mode) : "several modes";
  for (size_t i = 0, n = 0; i < sizeof flags / sizeof *flags; i++) {
    if (!yk_json_is(yk_json_get(pooling, flags[i]), YK_JSON_TRUE)) continue;
    found = n++ ? "several modes" : flags[i] + strlen("pooling_mode_");
  }
  return found;
}

static bool has_size(yk_json pooling, const char *key, int32_t hidden_size)
{
  int64_t size = hidden_size;
  yk_json value = yk_json_get(pooling, key);
  return !yk_json_is_given(value) || (yk_json_to_i64(value, &size) && size == hidden_size);
}

void yk_hf_name_pooling_file(yk_json modules, char name[YK_POOLING_FILE_BYTES])
{
  char folder[YK_POOLING_FOLDER_BYTES];
  bool is_found = yk_hf_find_pooling(modules, folder);
  snprintf(name, YK_POOLING_FILE_BYTES, "%s%sconfig.json%s", is_found ? folder : "", is_found ? "/" : "",
           is_found ? "" : " of the module Pooling");
}

static bool check_pooling(yk_json modules, yk_json pooling, int32_t hidden_size, yk_pooling_config *out)
{
  const char *mode = mode_of(pooling);
  char name[YK_POOLING_FILE_BYTES];
  yk_hf_name_pooling_file(modules, name);
  if (!pooling.doc)
    refuse(out, "%s is missing, which %s names", name, file);
  else if (!yk_json_is(pooling, YK_JSON_OBJECT))
    refuse(out, "%s: expected an object, found %s", name, yk_json_type_name(pooling));
  else if (strcmp(mode, "lasttoken") != 0)
    refuse(out, "%s: pooling \"%.40s\" is not supported; supported: lasttoken", name, mode);
  else if (!has_size(pooling, "word_embedding_dimension", hidden_size) ||
           !has_size(pooling, "embedding_dimension", hidden_size))
    refuse(out, "%s: expected an embedding_dimension of hidden_size %d", name, hidden_size);
  return !out->refused[0];
}

void yk_hf_read_pooling(yk_json root, yk_json modules, yk_json pooling, int32_t hidden_size, yk_pooling_config *out)
{
  *out = (yk_pooling_config){0};
  if (!modules.doc) return;
  if (yk_json_is(yk_json_get(root, "is_causal"), YK_JSON_FALSE) ||
      yk_json_is(yk_json_get(root, "use_bidirectional_attention"), YK_JSON_TRUE))
    refuse(out, "config.json: attention to later tokens is not supported");
  else if (check_modules(modules, out))
    out->takes_last_token = check_pooling(modules, pooling, hidden_size, out);
}
