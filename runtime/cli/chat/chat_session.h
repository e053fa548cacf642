/* chat_session.h - state shared by the parts of `yoke chat`: reading lines (chat_input.h), commands (chat_command.h)
 * and turns (chat_turn.h). One thread. */
#ifndef YK_CLI_CHAT_SESSION_H
#define YK_CLI_CHAT_SESSION_H

#include "chat/checkpoint_template.h"
#include "cli/chat/chat_history.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options/sampling_options.h"
#include "yoke/yoke.h"

typedef struct yk_chat_session {
  const yk_sampling_options *sampling;
  yk_json default_kwargs; /* of the template: an object, or absent */
  const char *adapter;    /* of every turn; NULL: none */
  uint64_t seed;          /* each turn derives its own seed from this */
  bool with_stats;        /* print speed to stderr after each answer */
  bool is_terminal;       /* standard input is a terminal: prompts are shown, and Ctrl-C returns to the prompt */
  bool dims;              /* standard output is a terminal: reasoning of an answer is dimmed */
  yk_console *console;
  yk_interrupt *interrupt; /* always watches a list of requests, maybe empty */
  yk_checkpoint_template template;
  yk_engine *engine;
  yk_engine_info info;
  yk_chat_history history;
  uint64_t n_turns;
  size_t n_failed; /* failed turns and commands */
} yk_chat_session;

#endif
