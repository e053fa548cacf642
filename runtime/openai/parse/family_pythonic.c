/* Calls that are Python calls with named arguments.
 *
 * pythonic: the whole answer is a list of calls, [f(a=1, b="x"), g()], between optional <|python_start|> and
 * <|python_end|>.
 * olmo3: calls on separate lines in <function_calls></function_calls>, with text around them. */
#include "openai/parse/machine.h"

enum {
  START,     /* held: white space and part of the tag; olmo3: part of the tag */
  NAME,      /* held: everything until the beginning of the call is emitted */
  ARGUMENTS, /* the same */
  BROKEN,    /* further bytes are arguments of an emitted call; olmo3: held: part of a tag */
  COMMA,     /* after a call. held: white space; olmo3: and part of a tag */
  AFTER,     /* after the list. held: white space and part of a tag */
  REST       /* pythonic: everything is content */
};

/* pythonic */
static void give_up(yk_call_machine *m, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  m->state = REST;
  m->form->step(m, c);
}

static bool is_name_byte(char c, bool is_first)
{
  bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return is_letter || (!is_first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

/* olmo3 */
static void give_up_list(yk_call_machine *m, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  m->state = START;
  m->form->step(m, c);
}

static void enter_name(yk_call_machine *m)
{
  m->name.length = 0;
  m->state = NAME;
}

/* ---- Names and arguments ----------------------------------------------------------------------------------------- */

static void step_name(yk_call_machine *m, char c, void (*gives_up)(yk_call_machine *m, char c))
{
  bool is_first = m->name.length == 0;
  if (!yk_calls_hold(m, c) || (is_first && yk_json_is_space(c))) return;
  if (c == '(' && !is_first) {
    m->json.length = 0;
    yk_literal_begin(&m->literal, &yk_literal_python, c, &m->json);
    m->state = ARGUMENTS;
  } else if (is_name_byte(c, is_first)) {
    yk_strbuf_append(&m->name, &c, 1);
  } else {
    yk_calls_unhold(m);
    gives_up(m, c);
  }
}

static void write_arguments(yk_call_machine *m)
{
  yk_calls_write(m, m->json.data, m->json.length);
  m->json.length = 0;
}

/* The first complete name of an argument shows that this is a call. */
static void step_arguments(yk_call_machine *m, char c, void (*gives_up)(yk_call_machine *m, char c))
{
  yk_scan_result result = yk_literal_byte(&m->literal, c, &m->json);
  if (!m->has_open_call && result != YK_SCAN_INVALID) {
    yk_calls_hold(m, c);
    if (result == YK_SCAN_END || m->literal.has_key) yk_calls_begin(m);
  }
  if (m->has_open_call) write_arguments(m);
  if (result == YK_SCAN_MORE) return;
  if (result == YK_SCAN_END) {
    yk_calls_end(m, true);
    m->state = COMMA;
  } else if (m->has_open_call) {
    m->state = BROKEN;
    m->form->step(m, c);
  } else {
    gives_up(m, c);
  }
}

/* ---- pythonic ---------------------------------------------------------------------------------------------------- */

static void step_start(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  if (c == '[' && m->held.length == m->n_before + 1) {
    enter_name(m);
    return;
  }
  int found = yk_calls_match(m, YK_TAG_OPEN);
  if (found == YK_TAG_OPEN) m->n_before = m->held.length;
  if (found != YK_NO_TAG) return;
  yk_calls_unhold(m);
  give_up(m, c);
}

static void step_comma(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "")) return;
  if (c != ',' && c != ']') {
    give_up(m, c);
  } else if (yk_calls_hold(m, c) && c == ',') {
    enter_name(m);
  } else {
    yk_calls_drop(m);
    m->state = AFTER;
  }
}

static void step_after(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_CLOSE);
  if (found == YK_TAG_CLOSE) {
    yk_calls_drop(m);
  } else if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, c);
  }
}

static void step(yk_call_machine *m, char c)
{
  switch (m->state) {
  case START: step_start(m, c); break;
  case NAME: step_name(m, c, give_up); break;
  case ARGUMENTS: step_arguments(m, c, give_up); break;
  case BROKEN: yk_calls_add(m, YK_EVENT_ARGUMENTS, c); break;
  case COMMA: step_comma(m, c); break;
  case AFTER: step_after(m, c); break;
  default: yk_calls_add(m, YK_EVENT_CONTENT, c);
  }
}

/* Any list may be one of calls, so that one that is cut is content. */
static void end(yk_call_machine *m, bool is_cut)
{
  bool has_tag = m->held.length > m->n_before;
  bool is_content = m->state == START ? !(is_cut && has_tag) : m->state == NAME || m->state == ARGUMENTS;
  if (is_content && !m->has_open_call) yk_calls_release(m, YK_EVENT_CONTENT);
  yk_calls_drop(m);
  yk_calls_end(m, false);
}

/* ---- olmo3 ------------------------------------------------------------------------------------------------------- */

/* A call on the next line, or the end of the list. */
static void step_line(yk_call_machine *m, char c)
{
  bool is_first = m->held.length == m->n_before;
  if (yk_calls_hold_space(m, c, ",")) return;
  if (is_first && is_name_byte(c, true)) {
    enter_name(m);
    m->form->step(m, c);
    return;
  }
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_CLOSE);
  if (found == YK_TAG_CLOSE) {
    yk_calls_drop(m);
    m->state = AFTER;
  } else if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up_list(m, c);
  }
}

static void step_broken(yk_call_machine *m, char c)
{
  if (!yk_calls_find(m, c, YK_TAG_CLOSE, YK_EVENT_ARGUMENTS)) return;
  yk_calls_drop(m);
  yk_calls_end(m, false);
  m->state = AFTER;
}

/* White space between lists is dropped. */
static void step_between_lists(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_OPEN);
  if (found == YK_TAG_OPEN) enter_name(m);
  if (found != YK_NO_TAG) return;
  yk_calls_unhold(m);
  give_up_list(m, c);
}

static void step_olmo3(yk_call_machine *m, char c)
{
  switch (m->state) {
  case START:
    if (yk_calls_find(m, c, YK_TAG_OPEN, YK_EVENT_CONTENT)) enter_name(m);
    break;
  case NAME: step_name(m, c, give_up_list); break;
  case ARGUMENTS: step_arguments(m, c, give_up_list); break;
  case BROKEN: step_broken(m, c); break;
  case COMMA: step_line(m, c); break;
  default: step_between_lists(m, c);
  }
}

static void end_olmo3(yk_call_machine *m, bool is_cut)
{
  bool is_content = m->state == START || ((m->state == NAME || m->state == ARGUMENTS) && !m->has_open_call);
  if (is_content && !is_cut) yk_calls_release(m, YK_EVENT_CONTENT);
  if (m->state == BROKEN && !is_cut) yk_calls_release(m, YK_EVENT_ARGUMENTS);
  yk_calls_drop(m);
  yk_calls_end(m, false);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static const yk_tag tags[] = {{"<|python_start|>", YK_TAG_OPEN}, {"<|python_end|>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag olmo3_tags[] = {{"<function_calls>", YK_TAG_OPEN}, {"</function_calls>", YK_TAG_CLOSE}, {NULL, 0}};

const yk_call_form yk_form_pythonic = {.step = step, .end = end, .tags = tags};
const yk_call_form yk_form_olmo3 = {.step = step_olmo3, .end = end_olmo3, .tags = olmo3_tags};
