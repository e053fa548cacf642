/* Calls whose arguments are texts in tags; the tool's schema determines their types.
 *
 * qwen3_coder: <tool_call><function=name><parameter=key>value</parameter></function></tool_call>; <tool_call> and the
 *   end tag of a value may be missing.
 * seed_oss: the same within <seed:tool_call>, with any number of calls inside and no tag missing.
 * minimax_m2: <minimax:tool_call><invoke name="name"><parameter name="key">value</parameter></invoke>
 *   </minimax:tool_call>, with any number of calls inside.
 * deepseek_v32: <｜DSML｜function_calls><｜DSML｜invoke name="name"><｜DSML｜parameter name="key" string="true">
 *   value</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>, with any number of calls inside. With
 *   string="false" the value is JSON.
 * glm45: <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>, with or without white space
 *   between the tags.
 *
 * A value on separate lines loses the newline at either end. A string is emitted as it arrives, another value when it
 * is complete. Tags within the strings of a JSON value are part of it. Text between arguments is dropped. */
#include <string.h>

#include "base/json_write.h"
#include "openai/parse/machine.h"

enum {
  CONTENT, /* searching a tag. held: part of the tag */
  OPENED,  /* held: everything from the tag on */
  NAME,    /* the same */
  FIRST,   /* after the name: the first argument or the end of the call begins the call */
  BETWEEN, /* arguments of an emitted call. held: part of a tag */
  KEY,
  BEFORE_VALUE, /* glm45. held: part of a tag */
  VALUE,        /* held: part of a tag */
  JSON,         /* a value that is an object or an array so far. held: the value */
  AFTER         /* after a call. held: white space and part of a tag */
};

enum { MAX_NAME_BYTES = 1024, ENDS = YK_TAG_END | YK_TAG_CLOSE, BEGINS = YK_TAG_OPEN | YK_TAG_CALL };

static void give_up(yk_call_machine *m, char c)
{
  yk_calls_release(m, YK_EVENT_CONTENT);
  m->state = CONTENT;
  m->form->step(m, c);
}

/* A tag that begins a call is held; the held bytes stay until the call is emitted. */
static void enter(yk_call_machine *m, int roles)
{
  m->n_before = m->header = m->held.length;
  m->state = roles & YK_TAG_CALL ? NAME : OPENED;
}

static void step_opened(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_CALL);
  if (found > 0) {
    enter(m, found);
  } else if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, c);
  }
}

/* ---- Calls and arguments ----------------------------------------------------------------------------------------- */

/* Copies a name, without white space and quotes around it. False: it is empty, or white space is in it. */
static bool take_name(yk_strbuf *out, const char *text, size_t n_bytes)
{
  out->length = 0;
  while (n_bytes > 0 && (yk_json_is_space(text[0]) || yk_is_one_of(text[0], "\"'"))) text++, n_bytes--;
  while (n_bytes > 0 && (yk_json_is_space(text[n_bytes - 1]) || yk_is_one_of(text[n_bytes - 1], "\"'"))) n_bytes--;
  yk_strbuf_append(out, text, n_bytes);
  for (size_t i = 0; i < n_bytes; i++)
    if (yk_json_is_space(text[i]) || yk_is_one_of(text[i], "<>{}\"")) return false;
  return n_bytes > 0;
}

static void begin_call(yk_call_machine *m)
{
  m->id.length = 0;
  m->has_key = false;
  yk_calls_begin(m);
  yk_calls_write(m, "{", 1);
}

static void end_arguments(yk_call_machine *m)
{
  yk_calls_write(m, "}", 1);
  yk_calls_end(m, true);
  m->state = AFTER;
}

static void begin_key(yk_call_machine *m)
{
  m->key.length = 0;
  m->state = KEY;
}

static void begin_value(yk_call_machine *m)
{
  yk_strbuf *json = &m->json;
  m->types = yk_tool_schemas_types(m->options->schemas, &m->name, &m->key);
  if (m->string_mark == 't') m->types = YK_TYPE_STRING;
  if (m->types == 0) m->types = m->string_mark == 'f' ? YK_TYPE_ANY : m->form->unknown_type;
  m->in_text = m->types == YK_TYPE_STRING;
  m->begins_newline = m->has_newline = false;
  json->length = m->value.length = 0;
  if (m->has_key) yk_strbuf_append_str(json, ", ");
  yk_json_append_string(json, m->key.data, m->key.length);
  yk_strbuf_append_str(json, m->in_text ? ": \"" : ": ");
  yk_calls_write(m, json->data, json->length);
  m->has_key = true;
  m->state = VALUE;
}

/* Adds a byte that is known to belong to the value. */
static void write_value(yk_call_machine *m, char c, bool is_special)
{
  if (is_special && m->options->hides_special) return;
  if (!m->in_text) {
    yk_strbuf_append(&m->value, &c, 1);
    return;
  }
  m->json.length = 0;
  if ((unsigned char)c >= 0x80)
    yk_strbuf_append(&m->json, &c, 1); /* part of a character */
  else
    yk_json_append_escaped(&m->json, &c, 1);
  yk_calls_write(m, m->json.data, m->json.length);
  m->value.length = 0;
  yk_strbuf_append(&m->value, &c, 1); /* the value is not empty */
}

/* Holds back a newline, which may be the last byte, and drops the first. */
static void add_to_value(yk_call_machine *m, char c, bool is_special)
{
  if (m->form->marks_strings) {
    write_value(m, c, is_special);
    return;
  }
  bool is_first = m->value.length == 0 && !m->has_newline && !m->begins_newline;
  if (is_first && c == '\n') {
    m->begins_newline = true;
    return;
  }
  if (m->has_newline) write_value(m, '\n', false);
  m->has_newline = c == '\n';
  if (c != '\n') write_value(m, c, is_special);
}

static void end_value(yk_call_machine *m)
{
  bool drops_newline = m->form->trims_each || m->begins_newline;
  if (m->has_newline && !drops_newline) write_value(m, '\n', false);
  m->json.length = 0;
  if (m->in_text)
    yk_strbuf_append_str(&m->json, "\"");
  else
    yk_typed_value_append(&m->json, m->types, m->value.data ? m->value.data : "", m->value.length);
  yk_calls_write(m, m->json.data, m->json.length);
  m->state = BETWEEN;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static void step_name(yk_call_machine *m, char c)
{
  size_t n_bytes = m->held.length - m->header;
  if (c == m->form->name_end) {
    if (!take_name(&m->name, m->held.data + m->header, n_bytes) || m->name.failed) {
      give_up(m, c);
      return;
    }
    m->state = FIRST;
    if (c == '<') { /* of the next tag */
      m->n_before = m->held.length;
      m->form->step(m, c);
    } else {
      yk_calls_hold(m, c);
      m->n_before = m->held.length;
    }
    return;
  }
  if (n_bytes >= MAX_NAME_BYTES || c == '<' || !yk_calls_hold(m, c)) give_up(m, c);
}

/* A tag after an argument or the name is complete. */
static void take_tag(yk_call_machine *m, int found)
{
  if (found & YK_TAG_KEY) {
    yk_calls_drop(m);
    begin_key(m);
    return;
  }
  end_arguments(m);
  if (found & BEGINS)
    enter(m, found);
  else
    yk_calls_drop(m);
}

static void step_first(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_KEY | ENDS);
  if (found > 0) {
    begin_call(m);
    take_tag(m, found);
  } else if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, c);
  }
}

static void step_between(yk_call_machine *m, char c)
{
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_KEY | ENDS | BEGINS);
  if (found > 0) {
    take_tag(m, found);
  } else if (found == YK_NO_TAG) {
    bool is_first = m->held.length == 1;
    yk_calls_drop(m);
    if (!is_first) step_between(m, c); /* the byte may begin a tag */
  }
}

/* The length of the name in a text that may end with string="true" or string="false" after the name. */
static size_t take_string_mark(yk_call_machine *m, const char *text, size_t n_bytes)
{
  static const char *const marks[] = {" string=\"true\"", " string=\"false\""};
  m->string_mark = '\0';
  while (n_bytes > 0 && yk_json_is_space(text[n_bytes - 1])) n_bytes--;
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    size_t n_mark = strlen(marks[i]);
    if (n_bytes < n_mark || memcmp(text + n_bytes - n_mark, marks[i], n_mark) != 0) continue;
    m->string_mark = "tf"[i];
    return n_bytes - n_mark;
  }
  return n_bytes;
}

static void step_key(yk_call_machine *m, char c)
{
  size_t n_end = strlen(m->form->key_end);
  yk_strbuf_append(&m->key, &c, 1);
  if (m->key.failed || m->key.length < n_end) return;
  size_t n_key = m->key.length - n_end;
  if (memcmp(m->key.data + n_key, m->form->key_end, n_end) != 0) return;
  yk_strbuf key = m->key;
  m->key = YK_STRBUF_INIT;
  if (m->form->marks_strings) n_key = take_string_mark(m, key.data, n_key);
  take_name(&m->key, key.data, n_key);
  yk_strbuf_free(&key);
  m->state = BEFORE_VALUE;
  if (strcmp(m->form->key_end, ">") == 0) begin_value(m);
}

static void step_before_value(yk_call_machine *m, char c)
{
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_VALUE | YK_TAG_KEY | ENDS);
  if (found == YK_PART_OF_TAG) return;
  if (found == YK_TAG_VALUE) {
    yk_calls_drop(m);
    begin_value(m);
  } else if (found > 0) {
    take_tag(m, found);
  } else {
    bool is_first = m->held.length == 1;
    yk_calls_drop(m);
    if (!is_first) step_before_value(m, c);
  }
}

static void end_json(yk_call_machine *m)
{
  m->state = VALUE;
  for (size_t i = 0; i < m->held.length; i++) add_to_value(m, m->held.data[i], m->held_special.data[i] != 0);
  yk_calls_drop(m);
}

/* The held text is no JSON: reads the text again as values without a form, and so all that follow, since reading each
 * again would take quadratic time. */
static void read_again(yk_call_machine *m)
{
  yk_strbuf text = m->held, special = m->held_special;
  m->held = m->held_special = YK_STRBUF_INIT;
  m->has_plain_values = true;
  m->state = VALUE;
  for (size_t i = 0; i < text.length; i++) {
    m->is_special = special.data[i] != 0;
    m->form->step(m, text.data[i]);
  }
  m->held.failed |= text.failed || special.failed;
  yk_strbuf_free(&text);
  yk_strbuf_free(&special);
}

static void step_json(yk_call_machine *m, char c)
{
  if (!yk_calls_hold(m, c)) return;
  yk_scan_result result = yk_json_scan_byte(&m->scan, c);
  if (result == YK_SCAN_END)
    end_json(m);
  else if (result == YK_SCAN_INVALID)
    read_again(m);
}

/* Whether an object or an array begins with c. */
static bool begins_json(const yk_call_machine *m, char c)
{
  bool fits = (c == '{' && m->types & YK_TYPE_OBJECT) || (c == '[' && m->types & YK_TYPE_ARRAY);
  if (!fits || m->has_plain_values || m->held.length > 0) return false;
  for (size_t i = 0; i < m->value.length; i++)
    if (!yk_json_is_space(m->value.data[i])) return false;
  return true;
}

static void step_value(yk_call_machine *m, char c)
{
  if (begins_json(m, c)) {
    if (!yk_calls_hold(m, c)) return;
    yk_json_scan_begin(&m->scan, c);
    m->state = JSON;
    return;
  }
  if (!yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, YK_TAG_VALUE_END | (m->form->is_lenient ? YK_TAG_KEY | YK_TAG_END : 0));
  if (found == YK_PART_OF_TAG) return;
  if (found != YK_NO_TAG) {
    end_value(m);
    if (found == YK_TAG_VALUE_END)
      yk_calls_drop(m);
    else
      take_tag(m, found);
    return;
  }
  size_t n_held = m->held.length - 1;
  bool is_first = n_held == 0;
  for (size_t i = 0; i < n_held; i++) add_to_value(m, m->held.data[i], m->held_special.data[i] != 0);
  yk_calls_drop(m);
  if (is_first)
    add_to_value(m, c, m->is_special);
  else
    step_value(m, c); /* the byte may begin a tag */
}

static void step_after(yk_call_machine *m, char c)
{
  if (yk_calls_hold_space(m, c, "") || !yk_calls_hold(m, c)) return;
  int found = yk_calls_match(m, BEGINS | ENDS);
  if (found == YK_NO_TAG) {
    yk_calls_unhold(m);
    give_up(m, c);
  } else if (found > 0 && found & BEGINS) {
    enter(m, found);
  } else if (found > 0) {
    yk_calls_drop(m);
  }
}

static void step(yk_call_machine *m, char c)
{
  int found;
  switch (m->state) {
  case CONTENT:
    found = yk_calls_find(m, c, YK_TAG_OPEN, YK_EVENT_CONTENT);
    if (found) enter(m, found);
    break;
  case OPENED: step_opened(m, c); break;
  case NAME: step_name(m, c); break;
  case FIRST: step_first(m, c); break;
  case BETWEEN: step_between(m, c); break;
  case KEY: step_key(m, c); break;
  case BEFORE_VALUE: step_before_value(m, c); break;
  case VALUE: step_value(m, c); break;
  case JSON: step_json(m, c); break;
  default: step_after(m, c);
  }
}

/* If the model ended the text itself, end tags that are missing change nothing. */
static void end(yk_call_machine *m, bool is_cut)
{
  if (m->state == JSON) read_again(m);
  if (!m->has_open_call) {
    bool is_content = m->state != AFTER && !is_cut;
    if (is_content) yk_calls_release(m, YK_EVENT_CONTENT);
    yk_calls_drop(m);
    return;
  }
  bool is_whole = !is_cut && (m->state == BETWEEN || m->state == VALUE);
  if (is_whole && m->state == VALUE) {
    for (size_t i = 0; i < m->held.length; i++) add_to_value(m, m->held.data[i], m->held_special.data[i] != 0);
    end_value(m);
  }
  yk_calls_drop(m);
  if (is_whole)
    end_arguments(m);
  else
    yk_calls_end(m, false);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static const yk_tag qwen3_coder_tags[] = {{"<tool_call>", YK_TAG_OPEN},
                                          {"<function=", YK_TAG_OPEN | YK_TAG_CALL},
                                          {"<parameter=", YK_TAG_KEY},
                                          {"</parameter>", YK_TAG_VALUE_END},
                                          {"</function>", YK_TAG_END},
                                          {"</tool_call>", YK_TAG_CLOSE},
                                          {NULL, 0}};
static const yk_tag seed_oss_tags[] = {{"<seed:tool_call>", YK_TAG_OPEN},
                                       {"<function=", YK_TAG_CALL},
                                       {"<parameter=", YK_TAG_KEY},
                                       {"</parameter>", YK_TAG_VALUE_END},
                                       {"</function>", YK_TAG_END},
                                       {"</seed:tool_call>", YK_TAG_CLOSE},
                                       {NULL, 0}};
static const yk_tag minimax_tags[] = {{"<minimax:tool_call>", YK_TAG_OPEN},
                                      {"<invoke name=", YK_TAG_CALL},
                                      {"<parameter name=", YK_TAG_KEY},
                                      {"</parameter>", YK_TAG_VALUE_END},
                                      {"</invoke>", YK_TAG_END},
                                      {"</minimax:tool_call>", YK_TAG_CLOSE},
                                      {NULL, 0}};
static const yk_tag deepseek_v32_tags[] = {{"<｜DSML｜function_calls>", YK_TAG_OPEN},
                                           {"<｜DSML｜invoke name=", YK_TAG_CALL},
                                           {"<｜DSML｜parameter name=", YK_TAG_KEY},
                                           {"</｜DSML｜parameter>", YK_TAG_VALUE_END},
                                           {"</｜DSML｜invoke>", YK_TAG_END},
                                           {"</｜DSML｜function_calls>", YK_TAG_CLOSE},
                                           {NULL, 0}};
static const yk_tag glm45_tags[] = {
    {"<tool_call>", YK_TAG_OPEN | YK_TAG_CALL}, {"<arg_key>", YK_TAG_KEY},      {"<arg_value>", YK_TAG_VALUE},
    {"</arg_value>", YK_TAG_VALUE_END},         {"</tool_call>", YK_TAG_CLOSE}, {NULL, 0}};

const yk_call_form yk_form_qwen3_coder = {.step = step,
                                          .end = end,
                                          .tags = qwen3_coder_tags,
                                          .name_end = '>',
                                          .key_end = ">",
                                          .is_lenient = true,
                                          .trims_each = true,
                                          .unknown_type = YK_TYPE_STRING};
const yk_call_form yk_form_seed_oss = {
    .step = step, .end = end, .tags = seed_oss_tags, .name_end = '>', .key_end = ">", .unknown_type = YK_TYPE_STRING};
const yk_call_form yk_form_minimax_m2 = {
    .step = step, .end = end, .tags = minimax_tags, .name_end = '>', .key_end = ">", .unknown_type = YK_TYPE_STRING};
const yk_call_form yk_form_deepseek_v32 = {.step = step,
                                           .end = end,
                                           .tags = deepseek_v32_tags,
                                           .name_end = '>',
                                           .key_end = ">",
                                           .marks_strings = true,
                                           .unknown_type = YK_TYPE_STRING};
const yk_call_form yk_form_glm45 = {.step = step,
                                    .end = end,
                                    .tags = glm45_tags,
                                    .name_end = '<',
                                    .key_end = "</arg_key>",
                                    .unknown_type = YK_TYPE_ANY};
