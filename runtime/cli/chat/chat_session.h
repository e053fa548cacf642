/* chat_session.h - what the parts of `yoke chat` share: reading lines (chat_input.h), commands (chat_command.h) and
 * turns (chat_turn.h). One thread. */
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
  uint64_t seed;          /* each turn draws from one of its own, made of this */
  bool with_stats;        /* speed on stderr behind each answer */
  bool is_terminal;       /* standard input: prompts are shown, and Ctrl-C goes back to one */
  bool dims;              /* standard output is a terminal: what an answer thinks is dimmed there */
  yk_console *console;
  yk_interrupt *interrupt; /* watches something all along */
  yk_checkpoint_template template;
  yk_engine *engine;
  yk_engine_info info;
  yk_chat_history history;
  uint64_t n_turns;
  size_t n_failed; /* turns and commands */
} yk_chat_session;

#endif
