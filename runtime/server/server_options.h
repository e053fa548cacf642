/* server_options.h - the operator's options of the server. */
#ifndef YK_SERVER_SERVER_OPTIONS_H
#define YK_SERVER_SERVER_OPTIONS_H

#include "base/json.h"
#include "yoke/yoke.h"

typedef struct yk_server_options {
  yk_engine_options engine; /* includes the log, which the server uses as well */
  const char *host;         /* name or address */
  int port;                 /* 0: any free one */
  const char *const
      *model_names; /* [n_model_names], at least 1: names of the model for clients; answers use the first */
  size_t n_model_names;
  const char *const *api_keys; /* [n_api_keys] accepted keys, none of them ""; 0: no key is required */
  size_t n_api_keys;
  const char *chat_template;                  /* NULL: the checkpoint's own; a file, or "builtin:NAME" */
  yk_json template_kwargs;                    /* an object of default variables for the template, or absent; borrowed */
  const char *tool_parser, *reasoning_parser; /* of answers, as in yk_answer_style_options; NULL: by the template */
  int max_waiting;                            /* requests accepted in addition to those that run at once */
  int max_connections;
  int64_t max_body_bytes;
  /* sum over bodies that are received or prepared; small bodies are accepted beyond the limit */
  int64_t max_held_body_bytes;
  double request_timeout_s;   /* 0: none */
  double shutdown_timeout_s;  /* time after a signal for running requests to end */
  double header_timeout_s;    /* for the head of a request to arrive, and again for the body; 0: none */
  const char *const *origins; /* [n_origins] origins whose pages may call from a browser; "*": any */
  size_t n_origins;
  const char *const *allowed_hosts; /* [n_allowed_hosts] names, without ports, that clients may use for the server */
  size_t n_allowed_hosts;
  int32_t profile_every; /* as yk_engine_set_profile takes it */
  yk_trace *trace;       /* for the first steps; not owned; or NULL */
  bool restarts_on_failure;
  const char *metrics_prefix; /* of metrics' names, before a colon */
  bool reports_cached_tokens; /* usage includes the number of prompt tokens that were computed for other requests */
  bool forces_usage;          /* every stream of completions and chats ends with the usage */
  bool logs_requests;         /* logs every request, including prompts */
  double stats_interval_s;    /* interval of the statistics */
  bool logs_stats;            /* logs a line at each interval */
  bool serves_tokenizer_info; /* serves /tokenizer_info */
  /* Folder below which clients may name adapters to be loaded, and may unload adapters; NULL: they may not. */
  const char *adapters_folder;
  void (*listening)(void *user, const char *url); /* called when the port is open; may be NULL */
  void *user;
} yk_server_options;

#endif
