/* Calls that are a line with the function's name, and an object of arguments behind the line.
 *
 * glm4 (GLM-4): the whole answer is a name, a newline and {...}, maybe several one after another. Nothing marks a call
 * but that the answer, or the text behind a call, begins with a name: other answers begin with a newline. */
#include "openai/parse/machine.h"

enum {
  START,     /* held: a beginning of a line that may be a name; behind a call white space before the name */
  NAMED,     /* held: the line; the next byte shows whether the line is a name */
  ARGUMENTS, /* of an emitted call */
  BROKEN,    /* the arguments of an emitted call are malformed: further bytes are its arguments */
  REST       /* everything is content */
};

enum { MAX_NAME_BYTES = 256 };

static bool is_of_name(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || yk_is_one_of(c, "_-.");
}

static void give_up(yk_call_machine *m, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  yk_calls_add(m, YK_EVENT_CONTENT, c);
  m->state = REST;
}

/* n_before: white space before the name. Spaces may follow the name in its line. */
static void step_start(yk_call_machine *m, char c)
{
  size_t n_name = m->held.length - m->n_before;
  if (m->n_calls > 0 && yk_calls_hold_space(m, c, "")) return;
  bool is_behind = n_name > 0 && m->held.data[m->held.length - 1] == ' ';
  if (n_name > 0 && c == '\n')
    m->state = NAMED;
  else if (n_name >= MAX_NAME_BYTES || !((is_of_name(c) && !is_behind) || (c == ' ' && n_name > 0))) {
    give_up(m, c);
    return;
  }
  yk_calls_hold(m, c);
}

static void step_named(yk_call_machine *m, char c)
{
  size_t end = m->held.length - 1; /* the newline */
  if (c != '{') {
    give_up(m, c);
    return;
  }
  while (m->held.data[end - 1] == ' ') end--;
  m->name.length = m->id.length = 0;
  yk_strbuf_append(&m->name, m->held.data + m->n_before, end - m->n_before);
  yk_calls_begin(m);
  yk_json_scan_begin(&m->scan, c);
  yk_calls_add(m, YK_EVENT_ARGUMENTS, c);
  m->state = ARGUMENTS;
}

static void step_arguments(yk_call_machine *m, char c)
{
  yk_scan_result result = yk_json_scan_byte(&m->scan, c);
  yk_calls_add(m, YK_EVENT_ARGUMENTS, c);
  if (result == YK_SCAN_MORE) return;
  m->state = result == YK_SCAN_END ? START : BROKEN;
  if (result == YK_SCAN_END) yk_calls_end(m, true);
}

static void step(yk_call_machine *m, char c)
{
  switch (m->state) {
  case START: step_start(m, c); break;
  case NAMED: step_named(m, c); break;
  case ARGUMENTS: step_arguments(m, c); break;
  case BROKEN: yk_calls_add(m, YK_EVENT_ARGUMENTS, c); break;
  default: yk_calls_add(m, YK_EVENT_CONTENT, c);
  }
}

/* Any line may be a name, so that one without arguments is content, if the output was cut too. */
static void end(yk_call_machine *m, bool is_cut)
{
  (void)is_cut;
  if (m->held.length > m->n_before) yk_calls_release(m, YK_EVENT_CONTENT);
  yk_calls_drop(m);
  yk_calls_end(m, false);
}

const yk_call_form yk_form_glm4 = {.step = step, .end = end};
