/* Answers in messages with channels, as gpt-oss writes them (harmony).
 *
 *   <|channel|>analysis<|message|>text<|end|><|start|>assistant<|channel|>final<|message|>text
 *   <|start|>assistant<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>
 *
 * A header is everything up to <|message|>; the prompt has written the first <|start|>assistant. The recipient may
 * stand before or after the channel. A message of the channel analysis is reasoning, one to a recipient a call, any
 * other content. Where a header is malformed, the rest of the answer is content, the header included. Messages of one
 * kind are separated by a newline. */
#include <string.h>

#include "openai/parse/machine.h"

enum { HEADER, TEXT, BROKEN }; /* HEADER: held has the header so far. TEXT: held has part of a tag */
enum { BEGINS = YK_TAG_OPEN, ENDS = YK_TAG_CLOSE, MAX_HEADER_BYTES = 1024 };

static const char start_tag[] = "<|start|>", channel_tag[] = "<|channel|>", message_tag[] = "<|message|>";
static const char recipient_key[] = "to=", functions[] = "functions.";

/* A piece of a header. */
typedef struct span {
  const char *text;
  size_t n;
} span;

static bool is_at(const span *s, size_t at, const char *word)
{
  size_t n = strlen(word);
  return s->n >= at + n && memcmp(s->text + at, word, n) == 0;
}

/* The place of a text in the span; s->n: not in it. */
static size_t find(const span *s, const char *text)
{
  size_t at = 0;
  while (at < s->n && !is_at(s, at, text)) at++;
  return at;
}

/* The word from a place on, which ends before white space or a tag. */
static span word_at(const span *s, size_t at)
{
  span word = {s->text + at, 0};
  while (at + word.n < s->n && !yk_json_is_space(word.text[word.n]) && word.text[word.n] != '<') word.n++;
  return word;
}

static bool is_word(const span *word, const char *text)
{
  return word->n == strlen(text) && memcmp(word->text, text, word->n) == 0;
}

/* Fills the recipient, if the piece has one: a word that begins with its key. */
static void find_recipient(const span *piece, span *recipient)
{
  size_t at = find(piece, recipient_key);
  bool is_begin = at == 0 || (at < piece->n && yk_json_is_space(piece->text[at - 1]));
  if (is_begin && at < piece->n) *recipient = word_at(piece, at + strlen(recipient_key));
}

/* Whether a message may begin with the held bytes: white space, then a tag or a recipient, whole or in part. */
static bool may_begin(const yk_call_machine *m)
{
  static const char *const beginnings[] = {start_tag, channel_tag, message_tag, recipient_key};
  const char *held = m->held.data;
  size_t n = m->held.length;
  while (n > 0 && yk_json_is_space(*held)) held++, n--;
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
    size_t n_tag = strlen(beginnings[i]);
    if (memcmp(held, beginnings[i], n < n_tag ? n : n_tag) == 0) return true;
  }
  return false;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* The current message's kind: CONTENT, REASONING or ARGUMENTS. */
static void begin_message(yk_call_machine *m, yk_answer_event_kind kind)
{
  bool *has_text = kind == YK_EVENT_REASONING ? &m->has_reasoning : &m->has_content;
  m->message = kind;
  m->state = TEXT;
  yk_calls_drop(m);
  if (kind == YK_EVENT_ARGUMENTS) return;
  if (*has_text) yk_calls_add_byte(m, kind, '\n', false);
  *has_text = true;
}

static void begin_call(yk_call_machine *m, span recipient)
{
  if (is_at(&recipient, 0, functions)) recipient.text += strlen(functions), recipient.n -= strlen(functions);
  m->name.length = m->id.length = m->value.length = 0;
  yk_strbuf_append(&m->name, recipient.text, recipient.n);
  yk_calls_begin(m);
  begin_message(m, YK_EVENT_ARGUMENTS);
}

static void end_call(yk_call_machine *m, bool is_whole)
{
  const char *text = m->value.data ? m->value.data : "";
  size_t n = m->value.length;
  if (!m->has_open_call) return;
  while (n > 0 && yk_json_is_space(*text)) text++, n--;
  while (n > 0 && yk_json_is_space(text[n - 1])) n--;
  if (n == 0 && is_whole) yk_calls_write(m, "{}", 2);
  yk_calls_end(m, is_whole && (n == 0 || (*text == '{' && yk_json_scan_is_value(text, n))));
}

static void give_up(yk_call_machine *m)
{
  m->message = YK_EVENT_CONTENT;
  m->state = BROKEN;
  yk_calls_release(m, YK_EVENT_CONTENT);
}

/* held is a header, which ends with <|message|>. False: it is malformed. */
static bool read_header(yk_call_machine *m)
{
  const span header = {m->held.data, m->held.length - strlen(message_tag)};
  size_t at = find(&header, channel_tag);
  const span role = {header.text, at};
  span channel = {header.text + at, header.n - at}, recipient = {NULL, 0};
  size_t begin = find(&role, start_tag);
  if (begin < role.n) {
    const span name = word_at(&role, begin + strlen(start_tag));
    if (!is_word(&name, "assistant")) return false;
  }
  find_recipient(&role, &recipient);
  find_recipient(&channel, &recipient);
  const span name = at < header.n ? word_at(&channel, strlen(channel_tag)) : (span){"final", 5};
  bool is_analysis = is_word(&name, "analysis");
  if (!is_analysis && !is_word(&name, "commentary") && !is_word(&name, "final")) return false;
  if (recipient.n > 0 && m->options->tools == YK_TOOLS_OPENAI)
    begin_call(m, recipient);
  else
    begin_message(m, is_analysis && m->options->reasoning ? YK_EVENT_REASONING : YK_EVENT_CONTENT);
  return true;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static void step_header(yk_call_machine *m, char c)
{
  size_t n_end = strlen(message_tag);
  if (!yk_calls_hold(m, c)) return;
  bool is_whole = m->held.length >= n_end && memcmp(m->held.data + m->held.length - n_end, message_tag, n_end) == 0;
  if (is_whole ? !read_header(m) : !may_begin(m) || m->held.length > MAX_HEADER_BYTES) give_up(m);
}

static void end_message(yk_call_machine *m, int found)
{
  end_call(m, true);
  m->message = YK_EVENT_CONTENT;
  m->state = HEADER;
  if (found == ENDS) yk_calls_drop(m); /* else the tag begins the next header */
}

static void step_text(yk_call_machine *m, char c)
{
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, BEGINS | ENDS);
  if (found > 0) {
    end_message(m, found);
  } else if (found == YK_NO_TAG) {
    bool is_first = m->held.length == 1;
    yk_calls_unhold(m);
    if (m->message == YK_EVENT_ARGUMENTS) yk_strbuf_append(&m->value, m->held.data, m->held.length);
    yk_calls_release(m, m->message);
    if (!is_first) {
      step_text(m, c); /* the byte may begin a tag */
      return;
    }
    if (m->message == YK_EVENT_ARGUMENTS) yk_strbuf_append(&m->value, &c, 1);
    yk_calls_add(m, m->message, c);
  }
}

static void step(yk_call_machine *m, char c)
{
  switch (m->state) {
  case HEADER: step_header(m, c); break;
  case TEXT: step_text(m, c); break;
  default: yk_calls_add(m, YK_EVENT_CONTENT, c);
  }
}

/* A header that is not complete is no text of the answer if it was cut, and content if the model ended there. */
static void end(yk_call_machine *m, bool is_cut)
{
  if (!is_cut && m->held.length > 0) {
    yk_answer_event_kind kind = m->state == HEADER ? YK_EVENT_CONTENT : m->message;
    if (kind == YK_EVENT_ARGUMENTS) yk_strbuf_append(&m->value, m->held.data, m->held.length);
    yk_calls_release(m, kind);
  }
  yk_calls_drop(m);
  end_call(m, !is_cut);
  m->message = YK_EVENT_CONTENT;
}

static const yk_tag tags[] = {{"<|end|>", ENDS},     {"<|return|>", ENDS},    {"<|call|>", ENDS},
                              {"<|start|>", BEGINS}, {"<|channel|>", BEGINS}, {NULL, 0}};

const yk_call_form yk_form_harmony = {.step = step, .end = end, .tags = tags};
