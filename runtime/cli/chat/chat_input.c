#include "cli/chat/chat_input.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* LOOK_MS: interval of checking for a signal while nothing is typed. */
enum { LOOK_MS = 100, MESSAGE_MAX_BYTES = 4 << 20 };

void yk_chat_input_init(yk_chat_input *input, yk_chat_editor *editor)
{
  *input = (yk_chat_input){.editor = editor};
  yk_jsonl_reader_init(&input->reader, STDIN_FILENO, "standard input", MESSAGE_MAX_BYTES);
}

void yk_chat_input_free(yk_chat_input *input)
{
  yk_chat_editor_free(input->editor);
  yk_jsonl_reader_free(&input->reader);
  yk_strbuf_free(&input->message);
}

static void show_prompt(const yk_chat_session *session, const char *prompt)
{
  if (session->is_terminal) fputs(prompt, stderr);
}

/* Drops the message read so far. */
static void begin_again(yk_chat_input *input)
{
  yk_strbuf_clear(&input->message);
  yk_strbuf_append(&input->message, "", 0);
}

/* True if the signal ends the chat; *at_prompt: Ctrl-C was typed since the last line. */
static bool handle_signal(yk_chat_input *input, yk_chat_session *session, int signal, bool *at_prompt)
{
  if (signal == SIGINT && session->is_terminal && !*at_prompt) {
    *at_prompt = true;
    begin_again(input);
    show_prompt(session, "\n(Ctrl-C once more, or Ctrl-D, leaves)\n");
    if (!input->editor) show_prompt(session, "> ");
    return false;
  }
  show_prompt(session, "\n");
  input->signal = signal;
  return true;
}

/* *event: YK_JSONL_LINE or _END, the latter also for a signal. */
static yk_status read_line(yk_chat_input *input, yk_chat_session *session, bool *at_prompt, yk_jsonl_event *event,
                           yk_jsonl_line *line, yk_err *err)
{
  for (;;) {
    int signal = yk_interrupt_take(session->interrupt);
    *event = YK_JSONL_END;
    if (signal && handle_signal(input, session, signal, at_prompt)) return YK_OK;
    YK_TRY(yk_jsonl_read(&input->reader, LOOK_MS, event, line, err));
    if (*event == YK_JSONL_END) show_prompt(session, "\n");
    if (*event != YK_JSONL_WAIT) return YK_OK;
  }
}

/* As read_line, with the editor, which shows the prompt. */
static void edit_line(yk_chat_input *input, yk_chat_session *session, const char *prompt, bool *at_prompt,
                      yk_jsonl_event *event, yk_jsonl_line *line)
{
  yk_editor_line typed;
  do {
    yk_chat_editor_read(input->editor, prompt, &typed);
    prompt = "> "; /* a signal has dropped the message so far */
  } while (typed.event == YK_EDITOR_SIGNAL && !handle_signal(input, session, typed.signal, at_prompt));
  *event = typed.event == YK_EDITOR_LINE ? YK_JSONL_LINE : YK_JSONL_END;
  *line = (yk_jsonl_line){.text = typed.text, .n_bytes = typed.n_bytes};
  if (typed.event == YK_EDITOR_END) show_prompt(session, "\n");
}

/* Appends a line to the message. Returns whether the message continues. */
static bool add_line(yk_strbuf *message, const yk_jsonl_line *line)
{
  size_t n_bytes = line->n_bytes;
  if (n_bytes > 0 && line->text[n_bytes - 1] == '\r') n_bytes--;
  bool goes_on = n_bytes > 0 && line->text[n_bytes - 1] == '\\';
  yk_strbuf_append(message, line->text, n_bytes - goes_on);
  if (goes_on) yk_strbuf_append_str(message, "\n");
  return goes_on;
}

static void refuse_long(yk_chat_input *input, yk_chat_session *session)
{
  begin_again(input);
  session->n_failed++;
  yk_log_write(&session->console->log, YK_LOG_ERROR, "message: expected at most %d bytes, found more",
               MESSAGE_MAX_BYTES);
}

yk_status yk_chat_input_read(yk_chat_input *input, yk_chat_session *session, bool *got, yk_err *err)
{
  yk_jsonl_event event;
  yk_jsonl_line line;
  yk_strbuf *message = &input->message;
  bool at_prompt = false, goes_on = false;
  begin_again(input);
  for (;;) {
    const char *prompt = goes_on ? ". " : "> ";
    if (input->editor) {
      edit_line(input, session, prompt, &at_prompt, &event, &line);
    } else {
      show_prompt(session, prompt);
      YK_TRY(read_line(input, session, &at_prompt, &event, &line, err));
    }
    *got = event == YK_JSONL_LINE;
    if (!*got && (input->signal || yk_jsonl_is_blank(message->data, message->length))) return YK_OK;
    goes_on = *got && !line.too_long && add_line(message, &line);
    at_prompt = false;
    if ((*got && line.too_long) || message->length > MESSAGE_MAX_BYTES) {
      goes_on = false;
      refuse_long(input, session);
    }
    if (message->failed) return yk_err_set(err, YK_E_NOMEM, "no memory for a message");
    if (goes_on) continue;
    *got = !yk_jsonl_is_blank(message->data, message->length);
    if (*got && input->editor) yk_chat_editor_remember(input->editor, message->data);
    if (*got) return YK_OK;
    begin_again(input);
  }
}
