/* yoke serve - serve the model through an OpenAI-compatible HTTP API. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/model_path.h"
#include "chat/template_source.h"
#include "cli/api_keys.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/follow.h"
#include "cli/options/model_options.h"
#include "cli/options/template_options.h"
#include "cli/options/vllm_options.h"
#include "cli/supervise.h"
#include "cli/trace_option.h"
#include "server/server.h"

enum { MAX_ORIGINS = 64, MAX_ALLOWED_HOSTS = 64, MAX_NAMES = 64 };

typedef struct serve_options {
  yk_model_options model;
  yk_template_options chat;
  yk_server_options server;
  const char *trace_path;
  int32_t port, max_waiting, max_connections;
  const char *origins[MAX_ORIGINS], *allowed_hosts[MAX_ALLOWED_HOSTS], *names[MAX_NAMES];
  yk_api_keys keys;
  bool disables_log_stats;
  yk_console console;
} serve_options;

static const char examples[] = "  yoke serve Qwen3-8B-AWQ --tp 2\n"
                               "  yoke serve Qwen/Qwen3-8B-AWQ --served-model-name qwen qwen3-8b\n"
                               "  YOKE_API_KEY=secret yoke serve Qwen3-8B-AWQ --host 0.0.0.0 --port 80\n"
                               "  yoke serve Qwen3-8B-AWQ --host 0.0.0.0 --port 80 --api-key-file keys.txt\n"
                               "  curl http://127.0.0.1:8000/v1/completions \\\n"
                               "       -H 'Content-Type: application/json' \\\n"
                               "       -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 32}'\n";

/* "null" is the origin of a page from a file. */
static bool is_origin(const char *text)
{
  const char *host = strstr(text, "://");
  if (!host) return strcmp(text, "*") == 0 || strcmp(text, "null") == 0;
  return host > text && host[3] && !strpbrk(host + 3, "/?# ");
}

static yk_status add_origin(void *user, const char *text, yk_err *err)
{
  serve_options *options = user;
  if (options->server.n_origins == MAX_ORIGINS)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d origins, found one more", MAX_ORIGINS);
  if (!is_origin(text))
    return yk_err_set(err, YK_E_INVAL,
                      "expected an origin as browsers send it, scheme://host or scheme://host:port without a path, or "
                      "*; found \"%.100s\"",
                      text);
  options->origins[options->server.n_origins++] = text;
  return YK_OK;
}

/* Whether text can be the prefix of a Prometheus metric's name, before a colon. */
static bool is_metrics_prefix(const char *text)
{
  size_t n = strlen(text);
  if (n == 0 || n > 64 || isdigit((unsigned char)text[0]) || text[n - 1] == ':') return false;
  return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") == n;
}

static yk_status take_metrics_prefix(void *value, const char *text, yk_err *err)
{
  if (!is_metrics_prefix(text))
    return yk_err_set(err, YK_E_INVAL,
                      "expected 1 to 64 letters, digits, \"_\" and \":\", no digit in front and no "
                      "\":\" at the end, found \"%.80s\"",
                      text);
  *(const char **)value = text;
  return YK_OK;
}

static yk_status add_allowed_host(void *user, const char *text, yk_err *err)
{
  serve_options *options = user;
  if (options->server.n_allowed_hosts == MAX_ALLOWED_HOSTS)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d names, found one more", MAX_ALLOWED_HOSTS);
  if (!text[0] || strpbrk(text, "/ ") || (text[0] != '[' && strchr(text, ':')))
    return yk_err_set(err, YK_E_INVAL, "expected a name without scheme and port, found \"%.100s\"", text);
  options->allowed_hosts[options->server.n_allowed_hosts++] = text;
  return YK_OK;
}

static yk_status add_name(void *user, const char *text, yk_err *err)
{
  serve_options *options = user;
  if (options->server.n_model_names == MAX_NAMES)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d names, found one more", MAX_NAMES);
  if (!text[0]) return yk_err_set(err, YK_E_INVAL, "expected a name, found an empty one");
  options->names[options->server.n_model_names++] = text;
  return YK_OK;
}

static void init(serve_options *options)
{
  yk_model_options_init(&options->model);
  options->model.long_prompt_rows = YK_LONG_PROMPT_PACED;
  yk_template_options_init(&options->chat);
  yk_server_options *server = &options->server;
  server->host = "127.0.0.1";
  server->metrics_prefix = "yoke";
  options->port = 8000;
  options->max_waiting = 4096;
  options->max_connections = 8192;
  server->max_body_bytes = 8 << 20;
  server->max_held_body_bytes = 512 << 20;
  server->shutdown_timeout_s = 60;
  server->stats_interval_s = 10;
  server->header_timeout_s = 30;
  server->origins = options->origins;
  server->allowed_hosts = options->allowed_hosts;
  server->model_names = options->names;
}

/* A request that names the model must not get an adapter's answer, nor the reverse. */
static yk_status check_adapters(const serve_options *options, yk_err *err)
{
  const yk_server_options *server = &options->server;
  struct stat folder;
  for (size_t i = 0; i < server->n_model_names; i++)
    if (yk_adapter_options_has(&options->model.adapters, server->model_names[i]))
      return yk_err_set(err, YK_E_INVAL,
                        "--lora-modules: expected names that differ from the model's, found \"%.100s\"",
                        server->model_names[i]);
  if (!server->adapters_folder) return YK_OK;
  if (server->engine.max_adapters == 0)
    return yk_err_set(err, YK_E_INVAL, "--allowed-lora-path: expected --enable-lora with it");
  if (stat(server->adapters_folder, &folder) == 0 && S_ISDIR(folder.st_mode)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--allowed-lora-path: expected a folder, found \"%.200s\"",
                    server->adapters_folder);
}

/* Takes the keys of the options, else the key of the environment, which other users of the machine cannot see. */
static yk_status take_keys(serve_options *options, yk_err *err)
{
  const char *key = getenv("YOKE_API_KEY");
  if (options->keys.n == 0 && key && key[0]) {
    yk_status status = yk_api_keys_add(&options->keys, key, err);
    if (status != YK_OK) yk_err_prefix(err, "YOKE_API_KEY");
    YK_TRY(status);
  }
  options->server.api_keys = (const char *const *)options->keys.keys;
  options->server.n_api_keys = options->keys.n;
  return YK_OK;
}

static yk_status check(serve_options *options, yk_err *err)
{
  yk_server_options *server = &options->server;
  yk_status status = yk_model_options_apply(&options->model, &server->engine, err);
  if (!options->model.checkpoint.name && (server->n_model_names > 1 || options->keys.n > 1)) {
    yk_err_clear(err);
    return yk_err_set(err, YK_E_INVAL,
                      "expected a model, found nothing: put it before --served-model-name and "
                      "--api-key, which take all values after them");
  }
  YK_TRY(status);
  server->port = options->port;
  server->max_waiting = options->max_waiting;
  server->max_connections = options->max_connections;
  YK_TRY(take_keys(options, err));
  if (server->n_model_names == 0) options->names[server->n_model_names++] = options->model.checkpoint.name;
  YK_TRY(check_adapters(options, err));
  server->chat_template = options->chat.chat_template;
  server->template_kwargs = yk_json_root(options->chat.kwargs);
  server->tool_parser = options->chat.tool_parser;
  server->reasoning_parser = options->chat.reasoning_parser;
  server->logs_stats = !options->disables_log_stats;
  YK_TRY(yk_template_options_check(&options->chat, err));
  if (server->max_body_bytes < 1)
    return yk_err_set(err, YK_E_INVAL, "--max-body-bytes: expected at least 1, found %lld",
                      (long long)server->max_body_bytes);
  return YK_OK;
}

enum { N_HTTP_OPTIONS = 17, N_LIMIT_OPTIONS = 8 };

static void fill_http_options(serve_options *options, yk_option out[N_HTTP_OPTIONS])
{
  yk_server_options *server = &options->server;
  const yk_option table[] = {
      {"host", NULL, YK_OPTION_STRING, &server->host, "HOST", .help = "address to listen on; 0.0.0.0, :: are all",
       .fallback = server->host},
      {"port", NULL, YK_OPTION_INT, &options->port, "N", .help = "0 takes a free one and prints it", .max = 65535},
      {"served-model-name", NULL, YK_OPTION_CALL, options, "NAME...",
       .help = "names by which clients may call the model; answers have the first", .fallback = "MODEL",
       .parse = add_name, .takes_several = true},
      {"api-key", NULL, YK_OPTION_CALL, &options->keys, "KEY...",
       .help = "keys, of which clients must send one, but for /health, /ping and the page; overwritten in the list of "
               "processes",
       .fallback = "YOKE_API_KEY of the environment", .parse = yk_api_keys_add, .takes_several = true,
       .is_secret = true},
      {"api-key-file", NULL, YK_OPTION_CALL, &options->keys, "FILE", .help = "the same, with a key a line",
       .parse = yk_api_keys_add_file},
      {"cors-origin", NULL, YK_OPTION_CALL, options, "URL", .help = "web pages that may call; *: any; repeatable",
       .fallback = "none", .parse = add_origin},
      {"metrics-prefix", NULL, YK_OPTION_CALL, &server->metrics_prefix, "NAME",
       .help = "metrics' names begin so; vllm: as vLLM's", .fallback = server->metrics_prefix,
       .parse = take_metrics_prefix},
      {"allowed-host", NULL, YK_OPTION_CALL, options, "NAME",
       .help = "host name that clients may use, as of a proxy on this machine; repeatable",
       .fallback = "this machine's if --host is, else any", .parse = add_allowed_host},
      {"disable-log-stats", NULL, YK_OPTION_FLAG, &options->disables_log_stats,
       .help = "no log lines of load and tokens/s"},
      {"log-stats-interval", NULL, YK_OPTION_NUMBER, &server->stats_interval_s, "SECONDS",
       .help = "between these lines", .above_min = true, .max = 86400},
      {"enable-tokenizer-info-endpoint", NULL, YK_OPTION_FLAG, &server->serves_tokenizer_info,
       .help = "serve /tokenizer_info"},
      {"allowed-lora-path", NULL, YK_OPTION_STRING, &server->adapters_folder, "DIR",
       .help = "clients may load adapters from folders below it, and unload adapters", .fallback = "they may not"},
      {"enable-prompt-tokens-details", NULL, YK_OPTION_FLAG, &server->reports_cached_tokens,
       .help = "usage has cached_tokens, which lets clients learn about each other's prompts"},
      {"enable-force-include-usage", NULL, YK_OPTION_FLAG, &server->forces_usage,
       .help = "every stream ends with the usage, also without stream_options"},
      {"log-requests", NULL, YK_OPTION_FLAG, &server->logs_requests, .help = "log each request, prompts too"},
      {"profile-every", NULL, YK_OPTION_INT, &server->profile_every, "N",
       .help = "time every N-th step for /metrics; 0: none", .max = INT32_MAX},
      yk_trace_option(&options->trace_path),
  };
  static_assert(sizeof table == N_HTTP_OPTIONS * sizeof *table, "N_HTTP_OPTIONS is the number of rows");
  memcpy(out, table, sizeof table);
}

static void fill_limit_options(serve_options *options, yk_option out[N_LIMIT_OPTIONS])
{
  yk_server_options *server = &options->server;
  const yk_option table[] = {
      {"max-waiting", NULL, YK_OPTION_INT, &options->max_waiting, "N",
       .help = "waiting requests; further requests get 429", .max = 1 << 20},
      {"max-connections", NULL, YK_OPTION_INT, &options->max_connections, "N", .help = "connections at once", .min = 1,
       .max = 1 << 20},
      {"max-body-bytes", NULL, YK_OPTION_BYTES, &server->max_body_bytes, "SIZE", .help = "largest request"},
      {"max-held-body-bytes", NULL, YK_OPTION_BYTES, &server->max_held_body_bytes, "SIZE",
       .help = "bodies received or prepared; then 503"},
      {"header-timeout", NULL, YK_OPTION_NUMBER, &server->header_timeout_s, "SECONDS",
       .help = "for a request's headers, again for its body; 0: none", .max = 86400},
      {"request-timeout", NULL, YK_OPTION_NUMBER, &server->request_timeout_s, "SECONDS", .help = "for a request to end",
       .fallback = "none", .max = 86400 * 365},
      {"shutdown-timeout", NULL, YK_OPTION_NUMBER, &server->shutdown_timeout_s, "SECONDS",
       .help = "for running requests after SIGTERM", .max = 86400},
      {"restart-on-failure", NULL, YK_OPTION_FLAG, &server->restarts_on_failure,
       .help = "load the model again when a rank has failed; under mpirun also start a killed process again"},
  };
  static_assert(sizeof table == N_LIMIT_OPTIONS * sizeof *table, "N_LIMIT_OPTIONS is the number of rows");
  memcpy(out, table, sizeof table);
}

/* Returns whether to continue. */
static bool parse(serve_options *options, int argc, char **argv, int *exit_code)
{
  yk_option http[N_HTTP_OPTIONS], limits[N_LIMIT_OPTIONS];
  fill_http_options(options, http);
  fill_limit_options(options, limits);
  const yk_option_group groups[] = {{"HTTP", http, N_HTTP_OPTIONS},
                                    {"Limits and failures", limits, N_LIMIT_OPTIONS},
                                    yk_template_options_group(&options->chat, true),
                                    yk_model_options_group(&options->model)};
  const yk_command command = {
      "yoke serve",
      "MODEL [options]",
      "Serve a model over HTTP as OpenAI and Anthropic do: /v1/completions, /v1/chat/completions, /v1/responses, "
      "/v1/messages, /v1/embeddings, /v1/models, and /tokenize, /detokenize, /metrics, /health.",
      examples,
      groups,
      sizeof groups / sizeof groups[0],
      .model = &options->model.checkpoint,
      .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  if (check(options, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

/* Prints to stdout, for a caller that requested any free port. */
static void print_url(void *user, const char *url)
{
  (void)user;
  printf("listening on %s\n", url);
  fflush(stdout);
}

/* Reports errors of the model's headers and of the template before the port is open. The plan is for CPU ranks of a
 * machine with unlimited memory: errors of devices and memory are reported later, and no GPU is used yet. */
static yk_status check_files(const serve_options *options, yk_err *err)
{
  yk_plan plan;
  yk_template_source template;
  char dir[YK_MODEL_PATH_BYTES];
  yk_engine_options engine;
  YK_TRY(yk_model_options_apply(&options->model, &engine, err));
  engine.device = YK_DEVICE_CPU;
  engine.device_ids = NULL;
  YK_TRY(yk_plan_make(&engine, INT64_C(1) << 50, &plan, err));
  if (!options->chat.chat_template) return YK_OK; /* without a template, the server runs but refuses chats */
  YK_TRY(yk_model_path_dir(yk_model_options_tokenizer(&options->model), dir, err));
  yk_status status = yk_template_source_find(dir, options->chat.chat_template, &template, err);
  if (status == YK_OK)
    yk_template_source_free(&template);
  else
    yk_err_prefix(err, "--chat-template");
  return status;
}

static yk_status prepare(serve_options *options, yk_err *err)
{
  YK_TRY(yk_model_options_find(&options->model, true, err));
  YK_TRY(check_files(options, err));
  options->server.engine.model_dir = options->model.checkpoint.path;
  options->server.engine.tokenizer = options->model.tokenizer.path;
  return YK_OK;
}

static int run(serve_options *options)
{
  yk_server_options *server = &options->server;
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&options->model)) return yk_cli_follow(&options->model, NULL, server->restarts_on_failure);
  yk_console_init(&options->console, (yk_log_level)options->model.log_level);
  if (prepare(options, &err) != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  server->engine.log = options->console.log;
  server->engine.progress = yk_console_loading;
  server->engine.progress_user = &options->console;
  server->listening = print_url;
  if (yk_trace_option_open(options->trace_path, &server->trace, &err) != YK_OK)
    return yk_cli_call_off(&options->model, NULL, &err);
  bool all_freed;
  int exit_code = yk_server_run(server, &all_freed, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  return yk_cli_end(all_freed, yk_trace_option_close(server->trace, exit_code));
}

int yk_cli_serve(int argc, char **argv)
{
  serve_options options = {0};
  int exit_code;
  init(&options);
  if (parse(&options, argc, argv, &exit_code)) {
    const yk_engine_options *engine = &options.server.engine;
    const bool is_parent = engine->starts_by_mpi && options.server.restarts_on_failure;
    exit_code = is_parent ? yk_cli_supervise("serve", argc, argv, engine->master_host) : run(&options);
  }
  yk_template_options_free(&options.chat);
  yk_model_options_free(&options.model);
  yk_api_keys_free(&options.keys);
  return exit_code;
}
