/* route_adapters.c - vLLM's routes that load and unload adapters while the server runs. A worker's thread. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/adapters.h"
#include "server/engine_state.h"
#include "server/routes.h"

/* Begins either route: whether the operator permits it, and the body, which the caller frees. False: the reply gives
 * the reason. */
static bool begin(yk_exchange *x, yk_json_doc **body)
{
  static const yk_json_rules rules = {.max_depth = 8, .max_values = 64, .unique_keys = true};
  yk_err err = YK_ERR_INIT;
  *body = NULL;
  if (!x->server->options.adapters_folder) {
    yk_reply_refuse(&x->reply, 404, NULL, "start the server with --allowed-lora-path DIR to use this route");
    return false;
  }
  yk_json_parse("body", x->body.data ? x->body.data : "", x->body.length, &rules, body, &err);
  yk_strbuf_free(&x->body);
  if (err.code == YK_OK && !yk_json_is(yk_json_root(*body), YK_JSON_OBJECT))
    yk_err_set(&err, YK_E_INVAL, "body: expected an object, found %s", yk_json_type_name(yk_json_root(*body)));
  if (err.code == YK_OK) return true;
  yk_reply_failure(&x->reply, &err, NULL);
  return false;
}

/* A text of the body, or NULL: the reply gives the reason. */
static const char *text_of(yk_exchange *x, const yk_json_doc *body, const char *key)
{
  yk_json value = yk_json_get(yk_json_root(body), key);
  const char *text = yk_json_string(value);
  if (text && text[0] && strlen(text) == yk_json_length(value)) return text;
  yk_reply_refuse(&x->reply, 400, NULL, "%s: expected a text of one or more characters without NUL, found %s", key,
                  !text                        ? yk_json_type_name(value)
                  : yk_json_length(value) == 0 ? "an empty one"
                                               : "one with NUL");
  return NULL;
}

static void reply_done(yk_exchange *x, const char *name, const char *what)
{
  yk_strbuf_append_fmt(&x->reply.body, "Success: LoRA adapter '%s' %s successfully.", name, what);
  yk_reply_json(&x->reply);
  if (x->reply.http_status == 200) x->reply.content_type = "text/plain; charset=utf-8";
}

/* Resolves path, which may be relative to the folder, within the folder; links that lead elsewhere are followed first.
 * *n_folder: bytes of the result before the part within the folder. */
static bool resolve(const char *folder, const char *path, char out[PATH_MAX], size_t *n_folder)
{
  char joined[PATH_MAX], real_folder[PATH_MAX];
  int n = path[0] == '/' ? snprintf(joined, sizeof joined, "%s", path)
                         : snprintf(joined, sizeof joined, "%s/%s", folder, path);
  if (n < 0 || n >= (int)sizeof joined || !realpath(folder, real_folder) || !realpath(joined, out)) return false;
  *n_folder = strcmp(real_folder, "/") == 0 ? 0 : strlen(real_folder);
  return strncmp(out, real_folder, *n_folder) == 0 && out[*n_folder] == '/' && out[*n_folder + 1];
}

/* Clients see no folders of the server: the message without the text of the folder, or none if the folder's text fills
 * the message. */
static void reply_failure(yk_exchange *x, const char *resolved, size_t n_folder, const yk_err *err)
{
  char folder[PATH_MAX];
  yk_err shown = *err;
  snprintf(folder, sizeof folder, "%.*s/", (int)n_folder, resolved);
  char *at = strstr(shown.message, folder);
  if (at) memmove(at, at + strlen(folder), strlen(at + strlen(folder)) + 1);
  if (strncmp(shown.message, folder, sizeof shown.message - 1) == 0 || !strchr(shown.message, ':'))
    snprintf(shown.message, sizeof shown.message, "lora_path: the adapter cannot be read; the server's log has more");
  yk_log_write(x->server->log, YK_LOG_WARN, "adapter not loaded: %s", err->message);
  if (shown.code == YK_E_IO || shown.code == YK_E_FORMAT || shown.code == YK_E_CAPACITY)
    yk_reply_refuse(&x->reply, 400, NULL, "%s", shown.message);
  else
    yk_reply_failure(&x->reply, &shown, NULL);
}

static bool is_model(const yk_server *server, const char *name)
{
  for (size_t i = 0; i < server->options.n_model_names; i++)
    if (strcmp(name, server->options.model_names[i]) == 0) return true;
  return false;
}

/* Whether the name is free for an adapter, or of a loaded one that the body permits to replace (load_inplace);
 * *replaces: which of them. False: the reply gives the reason. */
static bool check_name(yk_exchange *x, const yk_json_doc *body, const char *name, bool *replaces)
{
  bool in_place = false;
  yk_err err = YK_ERR_INIT;
  yk_json given = yk_json_get(yk_json_root(body), "load_inplace");
  *replaces = yk_adapter_is_loaded(x->engine, name);
  if (yk_json_is_given(given)) yk_json_read_bool(given, NULL, "load_inplace", &in_place, &err);
  if (err.code != YK_OK)
    yk_reply_failure(&x->reply, &err, "load_inplace");
  else if (is_model(x->server, name))
    yk_reply_refuse(&x->reply, 400, NULL, "lora_name: \"%.100s\" is the name of a model", name);
  else if (*replaces && !in_place)
    yk_reply_refuse(&x->reply, 400, NULL,
                    "lora_name: \"%.100s\" is the name of a loaded adapter; set load_inplace to replace the adapter",
                    name);
  return x->reply.http_status == 0;
}

static void load(yk_exchange *x, const yk_json_doc *body)
{
  char resolved[PATH_MAX];
  size_t n_folder;
  bool replaces;
  yk_err err = YK_ERR_INIT;
  const char *name = text_of(x, body, "lora_name"), *path = name ? text_of(x, body, "lora_path") : NULL;
  if (!path || !check_name(x, body, name, &replaces)) return;
  if (!resolve(x->server->options.adapters_folder, path, resolved, &n_folder)) {
    yk_reply_refuse(&x->reply, 400, NULL,
                    "lora_path: expected a folder below the one that the server was started with, found \"%.200s\"",
                    path);
    return;
  }
  const yk_adapter_path adapter = {.name = name, .path = resolved};
  yk_status (*read)(yk_engine *, const yk_adapter_path *, yk_err *) =
      replaces ? yk_engine_replace_adapter : yk_engine_load_adapter;
  if (read(x->engine, &adapter, &err) != YK_OK) {
    reply_failure(x, resolved, n_folder, &err);
    return;
  }
  yk_log_write(x->server->log, YK_LOG_INFO, "adapter %.100s loaded from %.300s", name, resolved);
  reply_done(x, name, "added");
}

static void unload(yk_exchange *x, const yk_json_doc *body)
{
  yk_err err = YK_ERR_INIT;
  const char *name = text_of(x, body, "lora_name");
  if (!name) return;
  if (yk_engine_unload_adapter(x->engine, name, &err) != YK_OK) {
    yk_reply_refuse(&x->reply, 404, NULL, "lora_name: no adapter \"%.100s\" is loaded", name);
    return;
  }
  yk_log_write(x->server->log, YK_LOG_INFO, "adapter %.100s unloaded", name);
  reply_done(x, name, "removed");
}

static void run(yk_exchange *x, void (*change)(yk_exchange *x, const yk_json_doc *body))
{
  yk_json_doc *body;
  if (!yk_exchange_lease_engine(x)) return;
  if (begin(x, &body)) change(x, body);
  yk_json_free(body);
  yk_exchange_return_engine(x);
}

void yk_route_load_adapter(yk_exchange *x)
{
  run(x, load);
}

void yk_route_unload_adapter(yk_exchange *x)
{
  run(x, unload);
}
