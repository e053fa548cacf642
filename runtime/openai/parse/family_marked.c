/* Calls that are a header with the function's name, and an object of arguments after it.
 *
 * mistral: [TOOL_CALLS]name[ARGS]{...}, also without [ARGS] or with [CALL_ID]id before it; or, of earlier models,
 *   [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...].
 * deepseek_v3: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name, a newline, the arguments as a
 *   Markdown block of JSON, <｜tool▁call▁end｜>, further calls, <｜tool▁calls▁end｜>.
 * deepseek_v31: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>, ...
 * kimi_k2: <|tool_calls_section_begin|><|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}
 *   <|tool_call_end|>, ..., <|tool_calls_section_end|>. The text before the arguments is the call's id.
 * gemma4: <|tool_call>call:name{key:<|"|>text<|"|>,other:1}<tool_call|>, ...
 * functiongemma: <start_function_call>call:name{key:<escape>text<escape>}<end_function_call>, ... */
#include <string.h>

#include "openai/parse/machine.h"

enum {
  CONTENT,   /* searching a tag. held: part of the tag */
  HEADER,    /* held: everything from the tag on */
  ARGUMENTS, /* of an emitted call */
  OBJECT,    /* mistral: objects in an array. held: until the beginning of the call is emitted */
  BROKEN,    /* the arguments of an emitted call are malformed; held: part of a tag */
  AFTER      /* after a call. held: white space and part of a tag */
};

enum { MAX_HEADER_BYTES = 1024 };

static void enter_header(yk_call_machine *m)
{
  m->state = HEADER;
  m->in_array = false;
  m->header = m->held.length;
}

/* The held bytes are not a call: emits them as content, and takes the byte after them. */
static void give_up(yk_call_machine *m, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  m->state = CONTENT;
  m->form->step(m, c);
}

static void begin_arguments(yk_call_machine *m, char c)
{
  yk_calls_begin(m);
  m->state = ARGUMENTS;
  if (m->form->literal) {
    m->json.length = 0;
    yk_literal_begin(&m->literal, m->form->literal, c, &m->json);
    yk_calls_write(m, m->json.data, m->json.length);
  } else {
    yk_json_scan_begin(&m->scan, c);
    yk_calls_add(m, YK_EVENT_ARGUMENTS, c);
  }
}

static bool is_space_between(const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; i++)
    if (!yk_json_is_space(text[i])) return false;
  return true;
}

static bool ends_with_tag(const yk_call_machine *m, unsigned roles)
{
  for (const yk_tag *tag = m->form->tags; tag->text; tag++) {
    size_t n = strlen(tag->text), held = m->held.length;
    if (tag->roles & roles && held >= n && memcmp(m->held.data + held - n, tag->text, n) == 0) return true;
  }
  return false;
}

/* The text of the header, after white space and tags that begin calls. */
static const char *skip_tags(const yk_call_machine *m, const char *text, const char *end)
{
  const yk_tag *tag = m->form->tags;
  while (text < end && yk_json_is_space(*text)) text++;
  for (; tag->text; tag++) {
    size_t n = strlen(tag->text);
    if (!(tag->roles & YK_TAG_OPEN) || (size_t)(end - text) < n || memcmp(text, tag->text, n) != 0) continue;
    return skip_tags(m, text + n, end);
  }
  return text;
}

static bool read_header(yk_call_machine *m)
{
  const char *end = m->held.data + m->held.length, *text = skip_tags(m, m->held.data + m->header, end);
  m->name.length = m->id.length = 0;
  return m->form->read_header(m, text, (size_t)(end - text));
}

static void step_header(yk_call_machine *m, char c)
{
  size_t n_bytes = m->held.length - m->header;
  bool is_blank = is_space_between(m->held.data + m->header, n_bytes);
  if (c == '{' && read_header(m)) {
    begin_arguments(m, c);
  } else if (c == '[' && m->form->has_arrays && is_blank) {
    if (!yk_calls_hold(m, c)) return;
    m->state = OBJECT;
    m->in_array = true;
    yk_call_object_begin(m);
  } else if (c == '{' || n_bytes >= MAX_HEADER_BYTES || !yk_calls_hold(m, c)) {
    give_up(m, c);
  } else if (ends_with_tag(m, YK_TAG_CLOSE)) {
    yk_calls_release(m, YK_EVENT_CONTENT);
    m->state = CONTENT;
  }
}

static yk_scan_result take_argument(yk_call_machine *m, char c)
{
  yk_scan_result result;
  if (!m->form->literal) {
    result = yk_json_scan_byte(&m->scan, c);
    if (result != YK_SCAN_INVALID) yk_calls_add(m, YK_EVENT_ARGUMENTS, c);
    return result;
  }
  m->json.length = 0;
  result = yk_literal_byte(&m->literal, c, &m->json);
  yk_calls_write(m, m->json.data, m->json.length);
  return result;
}

static void step_arguments(yk_call_machine *m, char c)
{
  yk_scan_result result = take_argument(m, c);
  if (result == YK_SCAN_MORE) return;
  m->state = result == YK_SCAN_END ? AFTER : BROKEN;
  if (result == YK_SCAN_END)
    yk_calls_end(m, true);
  else
    m->form->step(m, c);
}

static void step_object(yk_call_machine *m, char c)
{
  switch (yk_call_object_take(m, c)) {
  case YK_OBJECT_MORE: return;
  case YK_OBJECT_END: m->state = AFTER; return;
  case YK_OBJECT_NO_CALL: give_up(m, c); return;
  case YK_OBJECT_EARLY: m->state = AFTER; break;
  case YK_OBJECT_BROKEN: m->state = BROKEN; break;
  }
  m->form->step(m, c);
}

static void step_broken(yk_call_machine *m, char c)
{
  int found = yk_calls_find(m, c, YK_TAG_CLOSE | YK_TAG_OPEN, YK_EVENT_ARGUMENTS);
  if (!found) return;
  yk_calls_drop(m);
  yk_calls_end(m, false);
  m->state = AFTER;
  if (found & YK_TAG_OPEN) enter_header(m);
}

/* Drops white space between calls, and the tags after arguments. */
static void step_after(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, m->in_array ? ",]" : "")) {
    if (c != ']') return;
    m->in_array = false;
    yk_calls_drop(m);
    return;
  }
  if (m->in_array && c == '{') {
    m->state = OBJECT;
    yk_call_object_begin(m);
    step_object(m, c);
    return;
  }
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_OPEN | YK_TAG_CLOSE | YK_TAG_SKIP);
  if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, c);
  } else if (found > 0 && found & YK_TAG_OPEN) {
    enter_header(m);
  } else if (found > 0) {
    yk_calls_drop(m);
  }
}

static void step(yk_call_machine *m, char c)
{
  switch (m->state) {
  case CONTENT:
    if (yk_calls_find(m, c, YK_TAG_OPEN, YK_EVENT_CONTENT)) enter_header(m);
    break;
  case HEADER: step_header(m, c); break;
  case ARGUMENTS: step_arguments(m, c); break;
  case OBJECT: step_object(m, c); break;
  case BROKEN: step_broken(m, c); break;
  default: step_after(m, c);
  }
}

static void end(yk_call_machine *m, bool is_cut)
{
  bool may_be_call = m->state == CONTENT || m->state == HEADER || (m->state == OBJECT && !m->has_open_call);
  if (may_be_call && !is_cut) yk_calls_release(m, YK_EVENT_CONTENT);
  if (m->state == BROKEN && !is_cut) yk_calls_release(m, YK_EVENT_ARGUMENTS);
  yk_calls_drop(m);
  yk_calls_end(m, m->state == OBJECT && m->object.arguments_ended);
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

static const char *find(const char *text, size_t n_bytes, const char *tag)
{
  size_t n = strlen(tag);
  for (size_t i = 0; i + n <= n_bytes; i++)
    if (memcmp(text + i, tag, n) == 0) return text + i;
  return NULL;
}

/* Takes a name, without white space around it. False: there is none, or white space or a tag is in it. */
static bool take_name(yk_call_machine *m, const char *text, size_t n_bytes)
{
  while (n_bytes > 0 && yk_json_is_space(text[0])) text++, n_bytes--;
  while (n_bytes > 0 && yk_json_is_space(text[n_bytes - 1])) n_bytes--;
  for (size_t i = 0; i < n_bytes; i++)
    if (yk_json_is_space(text[i]) || yk_is_one_of(text[i], "<>[](){}\"")) return false;
  yk_strbuf_append(&m->name, text, n_bytes);
  return n_bytes > 0;
}

static bool read_mistral(yk_call_machine *m, const char *text, size_t n_bytes)
{
  const char *arguments = find(text, n_bytes, "[ARGS]"), *id = find(text, n_bytes, "[CALL_ID]");
  const char *end = arguments ? arguments : text + n_bytes;
  if (arguments && !is_space_between(arguments + 6, (size_t)(text + n_bytes - arguments - 6))) return false;
  if (id && id < end) {
    yk_strbuf_append(&m->id, id + 9, (size_t)(end - id - 9));
    end = id;
  }
  return take_name(m, text, (size_t)(end - text));
}

static const char separator[] = "<｜tool▁sep｜>";

static bool read_deepseek_v3(yk_call_machine *m, const char *text, size_t n_bytes)
{
  const char *name = find(text, n_bytes, separator), *end = text + n_bytes;
  if (!name) return false;
  name += sizeof separator - 1;
  const char *line = memchr(name, '\n', (size_t)(end - name));
  const char *block = line ? find(line, (size_t)(end - line), "```json") : NULL;
  return block && is_space_between(line, (size_t)(block - line)) &&
         is_space_between(block + 7, (size_t)(end - block - 7)) && take_name(m, name, (size_t)(line - name));
}

static bool read_deepseek_v31(yk_call_machine *m, const char *text, size_t n_bytes)
{
  const char *end = find(text, n_bytes, separator);
  if (!end) return false;
  const char *behind = end + sizeof separator - 1;
  return is_space_between(behind, (size_t)(text + n_bytes - behind)) && take_name(m, text, (size_t)(end - text));
}

/* "functions.name:0": the name may contain dots and colons. */
static bool read_kimi_k2(yk_call_machine *m, const char *text, size_t n_bytes)
{
  static const char arguments[] = "<|tool_call_argument_begin|>", prefix[] = "functions.";
  const char *end = find(text, n_bytes, arguments);
  if (!end || !is_space_between(end + sizeof arguments - 1, (size_t)(text + n_bytes - end) - sizeof arguments + 1))
    return false;
  while (end > text && yk_json_is_space(end[-1])) end--;
  const char *name = text, *name_end = end;
  while (name_end > name && name_end[-1] >= '0' && name_end[-1] <= '9') name_end--;
  if (name_end > name && name_end < end && name_end[-1] == ':')
    name_end--;
  else
    name_end = end;
  if ((size_t)(name_end - name) > sizeof prefix - 1 && memcmp(name, prefix, sizeof prefix - 1) == 0)
    name += sizeof prefix - 1;
  if (!take_name(m, name, (size_t)(name_end - name))) return false;
  if (name_end < end) yk_strbuf_append(&m->id, text, (size_t)(end - text));
  return true;
}

static bool read_gemma(yk_call_machine *m, const char *text, size_t n_bytes)
{
  return n_bytes > 5 && memcmp(text, "call:", 5) == 0 && take_name(m, text + 5, n_bytes - 5);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static const yk_tag mistral_tags[] = {{"[TOOL_CALLS]", YK_TAG_OPEN}, {NULL, 0}};
static const yk_tag deepseek_tags[] = {{"<｜tool▁calls▁begin｜>", YK_TAG_OPEN},
                                       {"<｜tool▁call▁begin｜>", YK_TAG_OPEN},
                                       {"<｜tool▁call▁end｜>", YK_TAG_CLOSE},
                                       {"<｜tool▁calls▁end｜>", YK_TAG_CLOSE},
                                       {NULL, 0}};
static const yk_tag deepseek_v3_tags[] = {
    {"<｜tool▁calls▁begin｜>", YK_TAG_OPEN}, {"<｜tool▁call▁begin｜>", YK_TAG_OPEN},
    {"<｜tool▁call▁end｜>", YK_TAG_CLOSE},   {"<｜tool▁calls▁end｜>", YK_TAG_CLOSE},
    {"```<｜tool▁call▁end｜>", YK_TAG_SKIP}, {NULL, 0}};
static const yk_tag kimi_tags[] = {{"<|tool_calls_section_begin|>", YK_TAG_OPEN},
                                   {"<|tool_call_begin|>", YK_TAG_OPEN},
                                   {"<|tool_call_end|>", YK_TAG_CLOSE},
                                   {"<|tool_calls_section_end|>", YK_TAG_CLOSE},
                                   {NULL, 0}};
static const yk_tag gemma4_tags[] = {{"<|tool_call>", YK_TAG_OPEN}, {"<tool_call|>", YK_TAG_CLOSE}, {NULL, 0}};
static const yk_tag functiongemma_tags[] = {
    {"<start_function_call>", YK_TAG_OPEN}, {"<end_function_call>", YK_TAG_CLOSE}, {NULL, 0}};

const yk_call_form yk_form_mistral = {
    .step = step, .end = end, .tags = mistral_tags, .read_header = read_mistral, .has_arrays = true};
const yk_call_form yk_form_deepseek_v3 = {
    .step = step, .end = end, .tags = deepseek_v3_tags, .read_header = read_deepseek_v3};
const yk_call_form yk_form_deepseek_v31 = {
    .step = step, .end = end, .tags = deepseek_tags, .read_header = read_deepseek_v31};
const yk_call_form yk_form_kimi_k2 = {.step = step, .end = end, .tags = kimi_tags, .read_header = read_kimi_k2};
const yk_call_form yk_form_gemma4 = {
    .step = step, .end = end, .tags = gemma4_tags, .read_header = read_gemma, .literal = &yk_literal_gemma4};
const yk_call_form yk_form_functiongemma = {.step = step,
                                            .end = end,
                                            .tags = functiongemma_tags,
                                            .read_header = read_gemma,
                                            .literal = &yk_literal_functiongemma};
