/* Calls that are JSON objects.
 *
 * hermes (Hermes, Qwen): <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of calls, text around
 * them. A call without arguments gets {}.
 * granite: the same objects in an array behind <|tool_call|> or <tool_call>.
 * phi4_mini_json: the same array behind <|tool_call|> or the word functools, with an optional <|/tool_call|>.
 * hunyuan_a13b: the same array in <tool_calls></tool_calls>.
 * nemotron_json: the same array in <TOOLCALL></TOOLCALL>.
 * llama3_json: the whole answer is {"name": ..., "parameters" or "arguments": {...}}, or several with ";" between,
 * after an optional <|python_tag|>. */
#include "openai/parse/machine.h"

enum {
  START,   /* llama3_json: only white space and part of the tag have arrived */
  CONTENT, /* searching a tag. held: part of the tag */
  CALL,    /* held: everything from the tag on, until the beginning of the call is emitted */
  BROKEN,  /* an emitted call is invalid JSON: further bytes are its arguments. held: part of a tag */
  AFTER,   /* after a call. held: white space (llama3_json: ";" too) and part of a tag */
  REST     /* llama3_json: everything is content */
};

static void step_tagged(yk_call_machine *m, char c);
static void step_llama(yk_call_machine *m, char c);

static void enter_call(yk_call_machine *m)
{
  m->state = CALL;
  m->in_array = false;
  yk_call_object_begin(m);
}

/* The held bytes are not a call: emits them as content, and takes the byte after them. */
static void give_up(yk_call_machine *m, int state, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  m->state = state;
  m->form->step(m, c);
}

/* state: without a call. */
static void step_call(yk_call_machine *m, char c, int state)
{
  switch (yk_call_object_take(m, c)) {
  case YK_OBJECT_MORE: return;
  case YK_OBJECT_END: m->state = AFTER; return;
  case YK_OBJECT_NO_CALL: give_up(m, state, c); return;
  case YK_OBJECT_EARLY: m->state = AFTER; break;
  case YK_OBJECT_BROKEN: m->state = BROKEN; break;
  }
  m->form->step(m, c);
}

/* ---- Calls in tags ----------------------------------------------------------------------------------------------- */

/* Drops white space between calls, and the closing tag. */
static void step_after(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, m->in_array ? ",]" : "")) {
    if (c != ']') return;
    m->in_array = false;
    yk_calls_drop(m);
    return;
  }
  if (m->in_array && c == '{') {
    enter_call(m);
    m->in_array = true;
    step_call(m, c, CONTENT);
    return;
  }
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_OPEN | YK_TAG_CLOSE);
  if (found == YK_TAG_CLOSE) {
    yk_calls_drop(m);
  } else if (found == YK_TAG_OPEN) {
    enter_call(m);
  } else if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, CONTENT, c);
  }
}

static void step_tagged_call(yk_call_machine *m, char c)
{
  bool begins_array = c == '[' && m->form->has_arrays && !m->in_array && !m->object.in_object;
  if (begins_array)
    m->in_array = yk_calls_hold(m, c);
  else
    step_call(m, c, CONTENT);
}

static void step_tagged(yk_call_machine *m, char c)
{
  switch (m->state) {
  case START:
  case CONTENT:
    m->state = CONTENT;
    if (yk_calls_find(m, c, YK_TAG_OPEN, YK_EVENT_CONTENT)) enter_call(m);
    break;
  case CALL: step_tagged_call(m, c); break;
  case BROKEN:
    if (!yk_calls_find(m, c, YK_TAG_CLOSE, YK_EVENT_ARGUMENTS)) break;
    yk_calls_drop(m);
    yk_calls_end(m, false);
    m->state = AFTER;
    break;
  default: step_after(m, c);
  }
}

/* Ends the text for both kinds of calls. */
static void end_call(yk_call_machine *m, bool is_cut)
{
  if (m->state == BROKEN && !is_cut) yk_calls_release(m, YK_EVENT_ARGUMENTS);
  yk_calls_drop(m);
  yk_calls_end(m, m->state == CALL && m->object.arguments_ended);
}

static void end_tagged(yk_call_machine *m, bool is_cut)
{
  bool may_be_call = m->state == CONTENT || (m->state == CALL && !m->has_open_call);
  if (may_be_call && !is_cut) yk_calls_release(m, YK_EVENT_CONTENT);
  end_call(m, is_cut);
}

/* ---- Calls alone ------------------------------------------------------------------------------------------------- */

static void step_start(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "")) return;
  if (m->held.length == m->n_before && c == '{') {
    enter_call(m);
    step_call(m, c, REST);
  } else if (yk_calls_hold(m, c)) {
    int found = yk_calls_match(m, YK_TAG_OPEN);
    if (found == YK_TAG_OPEN) enter_call(m);
    if (found != YK_NO_TAG) return;
    yk_calls_unhold(m);
    give_up(m, REST, c);
  }
}

static void step_llama_after(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, ";")) return;
  if (c != '{') {
    give_up(m, REST, c);
    return;
  }
  enter_call(m);
  step_call(m, c, REST);
}

static void step_llama(yk_call_machine *m, char c)
{
  switch (m->state) {
  case START: step_start(m, c); break;
  case CALL: step_call(m, c, REST); break;
  case BROKEN: yk_calls_add(m, YK_EVENT_ARGUMENTS, c); break;
  case AFTER: step_llama_after(m, c); break;
  default: yk_calls_add(m, YK_EVENT_CONTENT, c);
  }
}

/* Any JSON object may be a call, so that one that is cut is content. */
static void end_llama(yk_call_machine *m, bool is_cut)
{
  bool has_tag = m->held.length > m->n_before;
  bool is_content = m->state == START ? !(is_cut && has_tag) : m->state == CALL && !m->has_open_call;
  if (is_content) yk_calls_release(m, YK_EVENT_CONTENT);
  end_call(m, is_cut);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static const yk_tag hermes_tags[] = {{"<tool_call>", YK_TAG_OPEN}, {"</tool_call>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag llama_tags[] = {{"<|python_tag|>", YK_TAG_OPEN}, {NULL, 0}};
static const yk_tag granite_tags[] = {
    {"<|tool_call|>", YK_TAG_OPEN}, {"<tool_call>", YK_TAG_OPEN}, {"</tool_call>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag phi4_mini_tags[] = {{"functools", YK_TAG_OPEN},        {"<|tool_call|>", YK_TAG_OPEN},
                                        {"<|tool_calls|>", YK_TAG_OPEN},   {"<|/tool_call|>", YK_TAG_CLOSE},
                                        {"<|/tool_calls|>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag hunyuan_tags[] = {{"<tool_calls>", YK_TAG_OPEN}, {"</tool_calls>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag nemotron_tags[] = {{"<TOOLCALL>", YK_TAG_OPEN}, {"</TOOLCALL>", YK_TAG_CLOSE}, {NULL, 0}};

const yk_call_form yk_form_hermes = {.step = step_tagged, .end = end_tagged, .tags = hermes_tags};
const yk_call_form yk_form_granite = {.step = step_tagged, .end = end_tagged, .tags = granite_tags, .has_arrays = true};
const yk_call_form yk_form_phi4_mini = {
    .step = step_tagged, .end = end_tagged, .tags = phi4_mini_tags, .has_arrays = true};
const yk_call_form yk_form_hunyuan_a13b = {
    .step = step_tagged, .end = end_tagged, .tags = hunyuan_tags, .has_arrays = true};
const yk_call_form yk_form_nemotron_json = {
    .step = step_tagged, .end = end_tagged, .tags = nemotron_tags, .has_arrays = true};
const yk_call_form yk_form_llama3_json = {
    .step = step_llama, .end = end_llama, .tags = llama_tags, .needs_arguments = true};
