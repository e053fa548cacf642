/* yoke chat - an interactive chat with a model. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat/chat_command.h"
#include "cli/chat/chat_input.h"
#include "cli/chat/chat_turn.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/options/model_options.h"
#include "cli/options/template_options.h"
#include "cli/options/vllm_options.h"

typedef struct chat_options {
  yk_model_options model;
  yk_sampling_options sampling;
  yk_template_options chat;
  const char *system, *adapter;
  bool with_stats, keeps_no_history;
} chat_options;

static const char about[] =
    "Talk with a model. Each line of standard input is a message, and its answer goes to standard output; the "
    "model's chat template renders earlier messages and answers in front. A line that ends in a backslash continues "
    "in the next one. On a terminal Alt-Enter begins a new line, pasted text stays one message, the arrows and "
    "Ctrl-R go through earlier messages, and text between <think> and </think> is dimmed. Lines that begin with a "
    "slash are commands: /help lists them. Ctrl-C stops an answer, which is kept as far as it came; Ctrl-D, or "
    "Ctrl-C twice at the prompt, ends the chat. A failed message is removed, and the chat continues; where standard "
    "input "
    "is no terminal, the exit code is then 1.";

static const char examples[] = "  yoke chat -m Qwen3-8B-AWQ --tp 2\n"
                               "  yoke chat -m Qwen3-8B-AWQ --system \"Answer in one sentence.\" --stats\n"
                               "  printf 'Who was Ada Lovelace?\\nWhere was she born?\\n' | yoke chat -m DIR\n";

/* Returns whether to continue. */
static bool parse(chat_options *options, int argc, char **argv, int *exit_code)
{
  const yk_option own[] = {
      {"system", NULL, YK_OPTION_STRING, &options->system, "TEXT", .help = "the system's message, before all others",
       .fallback = "none"},
      {"adapter", NULL, YK_OPTION_STRING, &options->adapter, "NAME", .help = "of --lora-modules, for all answers",
       .fallback = "none"},
      {"stats", NULL, YK_OPTION_FLAG, &options->with_stats, .help = "tokens/s after each answer, on stderr"},
      {"no-history", NULL, YK_OPTION_FLAG, &options->keeps_no_history,
       .help = "do not keep messages for the arrow keys of later chats, in XDG_STATE_HOME or ~/.local/state, "
               "yoke/chat_history"},
  };
  const yk_option_group groups[] = {{"Conversation", own, sizeof own / sizeof own[0]},
                                    yk_template_options_group(&options->chat, false),
                                    yk_sampling_options_group(&options->sampling),
                                    yk_model_options_group(&options->model)};
  const yk_command command = {"yoke chat",
                              "MODEL [options]",
                              about,
                              examples,
                              groups,
                              sizeof groups / sizeof groups[0],
                              .instead = "messages come from standard input",
                              .model = &options->model.checkpoint,
                              .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  yk_engine_options engine;
  if (yk_model_options_apply(&options->model, &engine, &err) == YK_OK &&
      yk_adapter_options_check_name(&options->model.adapters, options->adapter, &err) == YK_OK)
    return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static yk_status open_conversation(yk_chat_session *session, const chat_options *options, yk_err *err)
{
  const char *system = options->system ? options->system : "";
  yk_status status = yk_chat_history_set_system(&session->history, system, strlen(system), err);
  if (status != YK_OK) yk_err_prefix(err, "--system");
  YK_TRY(status);
  return yk_checkpoint_template_open(yk_model_options_tokenizer(&options->model), options->chat.chat_template,
                                     &session->template, err);
}

/* Opens the template first, since an engine takes long to load. */
static yk_status open_session(yk_chat_session *session, const chat_options *options, yk_err *err)
{
  yk_engine_options engine_options;
  YK_TRY(yk_model_options_apply(&options->model, &engine_options, err));
  yk_status status = open_conversation(session, options, err);
  if (status != YK_OK) {
    yk_engine_call_off(&engine_options, err);
    return status;
  }
  engine_options.log = session->console->log;
  engine_options.progress = yk_console_loading;
  engine_options.progress_user = session->console;
  status = yk_engine_create(&engine_options, &session->engine, err);
  yk_console_clear(session->console);
  if (status == YK_OK) yk_engine_get_info(session->engine, &session->info);
  return status;
}

static yk_status talk(yk_chat_session *session, yk_chat_input *input, yk_err *err)
{
  for (bool goes_on = true; goes_on;) {
    YK_TRY(yk_chat_input_read(input, session, &goes_on, err));
    const yk_strbuf *message = &input->message;
    if (goes_on && message->data[0] == '/')
      goes_on = yk_chat_command(session, message->data, message->length);
    else if (goes_on)
      YK_TRY(yk_chat_turn(session, message->data, message->length, err));
    /* On a terminal Ctrl-C has only ended the answer. */
    if (session->is_terminal && yk_interrupt_caught(session->interrupt) == SIGINT)
      yk_interrupt_take(session->interrupt);
  }
  return YK_OK;
}

static yk_status run_session(yk_chat_session *session, yk_chat_input *input, const chat_options *options, yk_err *err)
{
  yk_request *const none = NULL;
  YK_TRY(open_session(session, options, err));
  if (session->is_terminal) {
    fputs("/help lists commands; Ctrl-D leaves\n", stderr);
    yk_interrupt_be_quiet(session->interrupt);
  }
  yk_interrupt_watch(session->interrupt, &none, 0); /* from this point a signal ends an answer, not the program */
  yk_status status = talk(session, input, err);
  yk_interrupt_watch(session->interrupt, NULL, 0);
  return status;
}

/* Whether the terminal supports text attributes, and the user has not disabled them. */
static bool shows_dim_text(void)
{
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0 && !(no_color && no_color[0]);
}

static int run_chat(chat_options *options)
{
  yk_console console;
  yk_interrupt interrupt;
  yk_chat_input input;
  yk_err err = YK_ERR_INIT;
  yk_chat_session session = {.sampling = &options->sampling,
                             .default_kwargs = yk_json_root(options->chat.kwargs),
                             .seed = options->model.seed,
                             .adapter = options->adapter,
                             .with_stats = options->with_stats,
                             .is_terminal = isatty(STDIN_FILENO),
                             .dims = shows_dim_text(),
                             .console = &console,
                             .interrupt = &interrupt};
  if (yk_cli_follows(&options->model)) return yk_cli_follow(&options->model, NULL, false);
  yk_console_init(&console, (yk_log_level)options->model.log_level);
  if (yk_model_options_find(&options->model, true, &err) != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  if (yk_interrupt_start(&interrupt, &console, &err) != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  yk_chat_editor *editor;
  yk_status status = yk_chat_editor_create(&interrupt, !options->keeps_no_history, &console.log, &editor, &err);
  yk_chat_input_init(&input, editor);
  if (status == YK_OK) status = run_session(&session, &input, options, &err);
  int exit_code = session.n_failed > 0 && !session.is_terminal ? YK_EXIT_FAILURE : YK_EXIT_OK;
  if (status != YK_OK) exit_code = yk_cli_failure(&err);
  int signal = input.signal;
  bool all_freed = yk_engine_destroy(session.engine);
  yk_checkpoint_template_close(&session.template);
  yk_chat_history_free(&session.history);
  yk_chat_input_free(&input);
  yk_interrupt_stop(&interrupt);
  return yk_cli_end(all_freed, signal ? YK_EXIT_SIGNAL + signal : exit_code);
}

int yk_cli_chat(int argc, char **argv)
{
  chat_options options = {0};
  int exit_code;
  yk_model_options_init(&options.model);
  yk_sampling_options_init_for_chat(&options.sampling);
  yk_template_options_init(&options.chat);
  if (parse(&options, argc, argv, &exit_code)) exit_code = run_chat(&options);
  yk_sampling_options_free(&options.sampling);
  yk_template_options_free(&options.chat);
  yk_model_options_free(&options.model);
  return exit_code;
}
