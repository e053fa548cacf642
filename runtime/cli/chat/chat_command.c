#include "cli/chat/chat_command.h"

#include <stdio.h>
#include <string.h>

#include "base/name_nearest.h"

static const char help[] = "/help          this list\n"
                           "/clear         forget the conversation, but not the system's message\n"
                           "/system TEXT   set the system's message; without TEXT: remove it\n"
                           "/undo          remove the last message and its answer\n"
                           "/exit          leave, as Ctrl-D does\n"
                           "A line that ends in a backslash continues in the next one; Alt-Enter begins a new line.\n"
                           "A message that begins with a slash needs a space before it. Ctrl-C stops an answer.\n";

static yk_status run_help(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err)
{
  (void)session, (void)text, (void)n_bytes, (void)err;
  fputs(help, stderr);
  return YK_OK;
}

static yk_status run_clear(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err)
{
  (void)text, (void)n_bytes, (void)err;
  yk_chat_history_clear(&session->history);
  return YK_OK;
}

static yk_status run_system(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err)
{
  return yk_chat_history_set_system(&session->history, text, n_bytes, err);
}

static yk_status run_undo(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err)
{
  (void)text, (void)n_bytes;
  return yk_chat_history_undo(&session->history) ? YK_OK
                                                 : yk_err_set(err, YK_E_INVAL, "/undo: there is no message to remove");
}

static const struct {
  const char *name;
  bool takes_text;
  yk_status (*run)(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err);
} commands[] = {
    {"/help", false, run_help}, {"/clear", false, run_clear}, {"/system", true, run_system},
    {"/undo", false, run_undo}, {"/exit", false, NULL}, /* run: NULL ends the chat */
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static yk_status report_unknown(const char *name, yk_err *err)
{
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
  const char *nearest = yk_name_nearest(name, names, N_COMMANDS);
  if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown command %s; did you mean %s?", name, nearest);
  return yk_err_set(err, YK_E_INVAL, "unknown command %s; /help lists them, and a space before the slash sends it",
                    name);
}

static bool is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* *ends: the command ends the chat. */
static yk_status carry_out(yk_chat_session *session, const char *text, size_t n_bytes, bool *ends, yk_err *err)
{
  char name[YK_NAME_MAX_CHARS + 1];
  size_t n_name = 0;
  while (n_name < n_bytes && !is_space(text[n_name])) n_name++;
  snprintf(name, sizeof name, "%.*s", (int)n_name, text);
  text += n_name;
  n_bytes -= n_name;
  while (n_bytes > 0 && is_space(text[0])) text++, n_bytes--;
  while (n_bytes > 0 && is_space(text[n_bytes - 1])) n_bytes--;
  for (size_t i = 0; i < N_COMMANDS; i++) {
    if (strcmp(commands[i].name, name) != 0) continue;
    if (n_bytes > 0 && !commands[i].takes_text)
      return yk_err_set(err, YK_E_INVAL, "%s: expected nothing after it, found \"%.*s\"", name,
                        n_bytes > 40 ? 40 : (int)n_bytes, text);
    *ends = !commands[i].run;
    return *ends ? YK_OK : commands[i].run(session, text, n_bytes, err);
  }
  return report_unknown(name, err);
}

bool yk_chat_command(yk_chat_session *session, const char *text, size_t n_bytes)
{
  bool ends = false;
  yk_err err = YK_ERR_INIT;
  if (carry_out(session, text, n_bytes, &ends, &err) == YK_OK) return !ends;
  session->n_failed++;
  yk_log_write(&session->console->log, YK_LOG_ERROR, "%s", err.message);
  return true;
}
