/* server_options.h - what whoever runs the server decides. */
#ifndef YK_SERVER_SERVER_OPTIONS_H
#define YK_SERVER_SERVER_OPTIONS_H

#include "base/json.h"
#include "yoke/yoke.h"

typedef struct yk_server_options {
  yk_engine_options engine; /* with its log, which the server writes to as well */
  const char *host;         /* name or address */
  int port;                 /* 0: any free one */
  const char *const
      *model_names; /* [n_model_names], at least 1: what clients may call the model; answers say the first */
  size_t n_model_names;
  const char *const *api_keys; /* [n_api_keys] of which clients must send one, none of them ""; 0: none is asked for */
  size_t n_api_keys;
  const char *chat_template; /* NULL: the checkpoint's own; a file, or "builtin:NAME" */
  yk_json template_kwargs;   /* an object of variables that the template has by default, or absent; borrowed */
  const char *tool_parser;   /* how calls of tools are found in answers; NULL: tools are refused */
  int max_waiting;           /* requests accepted beside those that run at once */
  int max_connections;
  int64_t max_body_bytes;
  int64_t max_held_body_bytes; /* of all bodies that are received or prepared; small ones are taken beyond it */
  double request_timeout_s;    /* 0: none */
  double shutdown_timeout_s;   /* how long a signal leaves to what runs */
  double header_timeout_s;     /* for a whole request to arrive */
  const char *const *origins;  /* [n_origins] whose pages may call from a browser; "*": any */
  size_t n_origins;
  const char *const *allowed_hosts; /* [n_allowed_hosts] names, without ports, by which clients may call the server */
  size_t n_allowed_hosts;
  int32_t profile_every; /* as yk_engine_set_profile takes it */
  yk_trace *trace;       /* of the first steps; not owned; or NULL */
  bool restarts_on_failure;
  const char *metrics_prefix; /* of metrics' names, in front of a colon */
  bool tells_cached_tokens;   /* in the usage: of a prompt, how many tokens others' requests had computed */
  bool logs_requests;         /* prompts among them */
  double stats_interval_s;    /* between looks at what the server does */
  bool logs_stats;            /* a line at each of them */
  bool tells_tokenizer;       /* /tokenizer_info */
  void (*listening)(void *user, const char *url); /* the port is open; may be NULL */
  void *user;
} yk_server_options;

#endif
