/* Calls that are a line with the function's name, then an object of arguments.
 *
 * glm4 (GLM-4): the whole answer is one or more calls, each a name, a newline and {...}. There are no tags: an answer
 * that begins with a name in a line before "{" is a call, and so is such text after a call. Other answers begin with a
 * newline. */
#include "openai/parse/machine.h"

enum {
  START,     /* held: the beginning of a line that may be a name, and after a call the white space before the line */
  NAMED,     /* held: the line with its newline; a "{" must follow, else the line is content */
  ARGUMENTS, /* within the arguments of an emitted call */
  BROKEN,    /* the arguments of an emitted call are malformed: all further bytes are emitted as arguments */
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

/* held begins with n_before bytes of white space. Spaces may follow the name in its line. */
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

/* A held line without arguments is content, even in an output that was cut: it need not be a name. */
static void end(yk_call_machine *m, bool is_cut)
{
  (void)is_cut;
  if (m->held.length > m->n_before) yk_calls_release(m, YK_EVENT_CONTENT);
  yk_calls_drop(m);
  yk_calls_end(m, false);
}

const yk_call_form yk_form_glm4 = {.step = step, .end = end};
