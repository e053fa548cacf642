#include "cli/options/adapter_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/options/json_option.h"

static yk_status add(yk_adapter_options *options, const char *name, size_t n_name, const char *path, yk_err *err)
{
  yk_adapter_path *items = realloc(options->items, (options->n + 1) * sizeof *items);
  if (items) options->items = items;
  char *own_name = strndup(name, n_name), *own_path = strdup(path);
  if (!items || !own_name || !own_path) {
    free(own_name);
    free(own_path);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu adapters", options->n + 1);
  }
  items[options->n++] = (yk_adapter_path){.name = own_name, .path = own_path};
  return YK_OK;
}

/* The text of a key, or NULL: no text, an empty one, or one with NUL. */
static const char *text_of(yk_json root, const char *key)
{
  yk_json value = yk_json_get(root, key);
  const char *text = yk_json_string(value);
  return text && text[0] && strlen(text) == yk_json_length(value) ? text : NULL;
}

/* vLLM's form with a base model; the name of the base model is ignored. */
static yk_status add_object(yk_adapter_options *options, const char *text, yk_err *err)
{
  yk_json_doc *doc;
  YK_TRY(yk_json_option_read(text, &doc, err));
  yk_json root = yk_json_root(doc);
  const char *name = text_of(root, "name"), *path = text_of(root, "path");
  yk_status status = YK_OK;
  YK_JSON_EACH_KEY(key, root)
  if (!yk_json_equals(key, "name") && !yk_json_equals(key, "path") && !yk_json_equals(key, "base_model_name"))
    status = yk_err_set(err, YK_E_INVAL, "expected the keys name, path and base_model_name, found \"%.60s\"",
                        yk_json_text(key));
  if (status == YK_OK && (!name || !path))
    status = yk_err_set(err, YK_E_INVAL, "expected the keys name and path with texts, found \"%.100s\"", text);
  if (status == YK_OK) status = add(options, name, strlen(name), path, err);
  yk_json_free(doc);
  return status;
}

static yk_status add_adapter(void *user, const char *text, yk_err *err)
{
  yk_adapter_options *options = user;
  if (text[0] == '{') return add_object(options, text, err);
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || !equals[1])
    return yk_err_set(err, YK_E_INVAL, "expected NAME=PATH, or an object with name and path, found \"%.100s\"", text);
  return add(options, text, (size_t)(equals - text), equals + 1, err);
}

void yk_adapter_options_init(yk_adapter_options *options)
{
  *options = (yk_adapter_options){.max_rank = 16};
}

void yk_adapter_options_free(yk_adapter_options *options)
{
  for (size_t i = 0; i < options->n; i++) {
    free((char *)(uintptr_t)options->items[i].name);
    free((char *)(uintptr_t)options->items[i].path);
  }
  free(options->items);
}

void yk_adapter_options_fill(yk_adapter_options *o, yk_option *rows)
{
  const yk_option table[YK_ADAPTER_OPTIONS] = {
      {"enable-lora", NULL, YK_OPTION_FLAG, &o->is_enabled, .help = "run low-rank adapters", .heading = "Adapters"},
      {"lora-modules", NULL, YK_OPTION_CALL, o, "NAME=DIR...",
       .help = "adapters in PEFT's form, with the names by which requests choose them; also as '{\"name\": \"x\", "
               "\"path\": \"DIR\"}'",
       .fallback = "none", .parse = add_adapter, .takes_several = true},
      {"max-loras", NULL, YK_OPTION_INT, &o->most, "N", .help = "adapters loaded at a time, for which memory is kept",
       .fallback = "as many as are named, at least 1", .min = 1, .max = 4096},
      {"max-lora-rank", NULL, YK_OPTION_INT, &o->max_rank, "N", .help = "largest rank of an adapter", .min = 1,
       .max = 1024},
  };
  memcpy(rows, table, sizeof table);
}

yk_status yk_adapter_options_apply(const yk_adapter_options *options, yk_engine_options *engine, yk_err *err)
{
  if (!options->is_enabled && options->n > 0)
    return yk_err_set(err, YK_E_INVAL, "--lora-modules: expected --enable-lora with it");
  if (!options->is_enabled) return YK_OK;
  const int32_t n = (int32_t)options->n;
  engine->max_adapters = options->most > 0 ? options->most : n > 0 ? n : 1;
  engine->max_adapter_rank = options->max_rank;
  engine->adapters = options->items;
  engine->n_adapters = options->n;
  if (n <= engine->max_adapters) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--max-loras: expected at least %d, the adapters of --lora-modules, found %d", n,
                    engine->max_adapters);
}

bool yk_adapter_options_has(const yk_adapter_options *options, const char *name)
{
  for (size_t i = 0; name && i < options->n; i++)
    if (strcmp(options->items[i].name, name) == 0) return true;
  return false;
}

yk_status yk_adapter_options_check_name(const yk_adapter_options *options, const char *name, yk_err *err)
{
  if (!name || yk_adapter_options_has(options, name)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--adapter: expected a name of --lora-modules, found \"%.100s\"", name);
}
