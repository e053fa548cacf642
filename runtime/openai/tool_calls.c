#include "openai/tool_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "openai/json_scan.h"

static const char open_tag[] = "<tool_call>", close_tag[] = "</tool_call>", python_tag[] = "<|python_tag|>";

typedef enum parser_mode {
  MODE_START,   /* llama3_json: nothing but white space and a part of the tag has come */
  MODE_CONTENT, /* hermes: looking for a tag. held: a part of it */
  MODE_CALL,    /* held: all of it, from the tag on, until the call's beginning is told */
  MODE_BROKEN,  /* a call that has been told is no JSON any more: what comes are its arguments. held: a part of a tag */
  MODE_AFTER,   /* behind a call. held: white space (llama3_json: ";" too) and a part of a tag */
  MODE_REST     /* llama3_json: all is content */
} parser_mode;

typedef enum call_value { VALUE_OTHER, VALUE_NAME, VALUE_ARGUMENTS } call_value;

/* The call that is being read. */
typedef struct call_reader {
  yk_json_scan scan;
  bool in_object;
  bool is_told;     /* its beginning: name known, arguments begun */
  call_value value; /* what the value at hand of the outermost object is */
  bool has_arguments, arguments_ended;
  bool has_name;
  yk_strbuf key, name, arguments; /* as JSON; arguments until the beginning is told */
} call_reader;

struct yk_tool_parser {
  yk_tool_format format;
  bool only_first;
  void (*take)(void *user, const yk_tool_event *event);
  void *user;
  parser_mode mode;
  yk_strbuf held;          /* bytes of which it is not known yet what they are */
  size_t n_space;          /* of held, before the part of a tag */
  yk_strbuf piece;         /* content or arguments of this push that are not told yet */
  yk_tool_event_kind kind; /* of piece */
  int32_t n_calls;         /* told */
  bool is_dropped;         /* the call at hand comes after the first, which alone is wanted */
  call_reader call;
};

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

static void tell(yk_tool_parser *p, yk_tool_event_kind kind, const char *text, size_t n_bytes)
{
  if (kind != YK_TOOL_CONTENT && p->is_dropped) return;
  p->take(p->user, &(yk_tool_event){kind, p->n_calls - 1, text, n_bytes});
}

static void flush_piece(yk_tool_parser *p)
{
  if (p->piece.length) tell(p, p->kind, p->piece.data, p->piece.length);
  p->piece.length = 0;
}

static void add(yk_tool_parser *p, yk_tool_event_kind kind, const char *text, size_t n_bytes)
{
  if (p->kind != kind) flush_piece(p);
  p->kind = kind;
  yk_strbuf_append(&p->piece, text, n_bytes);
}

/* False where there is no memory, which push tells at its end. */
static bool hold(yk_tool_parser *p, char c)
{
  yk_strbuf_append(&p->held, &c, 1);
  return !p->held.failed;
}

/* What was held turns out to be of this kind. */
static void release(yk_tool_parser *p, yk_tool_event_kind kind)
{
  add(p, kind, p->held.data, p->held.length);
  p->held.length = p->n_space = 0;
}

static void drop_held(yk_tool_parser *p)
{
  p->held.length = p->n_space = 0;
}

/* ---- A call ------------------------------------------------------------------------------------------------------ */

static void enter_call(yk_tool_parser *p)
{
  call_reader *call = &p->call;
  p->mode = MODE_CALL;
  call->in_object = call->is_told = call->has_arguments = call->arguments_ended = call->has_name = false;
  call->key.length = call->name.length = call->arguments.length = 0;
  call->value = VALUE_OTHER;
}

/* What was held is no call. */
static void give_up(yk_tool_parser *p)
{
  release(p, YK_TOOL_CONTENT);
  p->mode = p->format == YK_TOOLS_HERMES ? MODE_CONTENT : MODE_REST;
}

/* The name is there and the arguments have begun. False: the name is none. */
static bool tell_beginning(yk_tool_parser *p)
{
  call_reader *call = &p->call;
  static const yk_json_rules rules = {.max_depth = 1};
  yk_json_doc *name = NULL;
  if (yk_json_parse("name", call->name.data, call->name.length, &rules, &name, NULL) == YK_E_NOMEM)
    call->name.failed = true; /* which push tells */
  yk_json text = yk_json_root(name);
  size_t length = yk_json_length(text);
  if (length > 0) {
    flush_piece(p);
    p->is_dropped = p->only_first && p->n_calls > 0;
    if (!p->is_dropped) p->n_calls++;
    tell(p, YK_TOOL_BEGIN, yk_json_text(text), length);
    if (call->arguments.length) add(p, YK_TOOL_ARGUMENTS, call->arguments.data, call->arguments.length);
    drop_held(p);
    call->is_told = true;
  }
  yk_json_free(name);
  return length > 0;
}

static bool key_is(const call_reader *call, const char *key)
{
  return call->key.length == strlen(key) && memcmp(call->key.data, key, call->key.length) == 0;
}

/* A value of the outermost object begins with c. False: with it the object is no call. */
static bool begin_value(yk_tool_parser *p, char c)
{
  call_reader *call = &p->call;
  call->value = VALUE_OTHER;
  if (key_is(call, "name") && !call->has_name) {
    call->value = VALUE_NAME;
    return c == '"';
  }
  if (call->has_arguments || (!key_is(call, "arguments") && !key_is(call, "parameters"))) return true;
  call->value = VALUE_ARGUMENTS;
  call->has_arguments = true;
  return c == '{' && (!call->has_name || tell_beginning(p));
}

/* A byte of a value of the outermost object, which ends with it where has_ended. False: the name is none. */
static bool take_value_byte(yk_tool_parser *p, char c, bool has_ended)
{
  call_reader *call = &p->call;
  if (call->value == VALUE_NAME) {
    yk_strbuf_append(&call->name, &c, 1);
    call->has_name = has_ended;
    if (has_ended && call->has_arguments) return tell_beginning(p);
  } else if (call->value == VALUE_ARGUMENTS) {
    if (call->is_told)
      add(p, YK_TOOL_ARGUMENTS, &c, 1);
    else
      yk_strbuf_append(&call->arguments, &c, 1);
    call->arguments_ended = has_ended;
  }
  return true;
}

static bool is_in_string(const yk_json_scan *scan)
{
  return scan->state == YK_SCAN_STRING || scan->state == YK_SCAN_ESCAPE || scan->state == YK_SCAN_HEX;
}

/* Whether c is, or may become, part of a call. */
static yk_scan_result take_object_byte(yk_tool_parser *p, char c)
{
  call_reader *call = &p->call;
  yk_json_scan *scan = &call->scan;
  bool outer = scan->depth == 1, begins = outer && scan->state == YK_SCAN_VALUE && !yk_json_is_space(c);
  bool in_key = outer && scan->is_key && is_in_string(scan);
  if (outer && (scan->state == YK_SCAN_FIRST_KEY || scan->state == YK_SCAN_KEY)) call->key.length = 0;
  bool in_value = begins || scan->depth > 1 || (outer && is_in_string(scan) && !scan->is_key);
  if (begins && !begin_value(p, c)) return YK_SCAN_INVALID;
  yk_scan_result result = yk_json_scan_byte(scan, c);
  if (result == YK_SCAN_INVALID) return result;
  if (in_key && is_in_string(scan)) yk_strbuf_append(&call->key, &c, 1);
  bool has_ended = scan->depth == 1 && scan->state == YK_SCAN_AFTER;
  if (in_value && !take_value_byte(p, c, has_ended)) return YK_SCAN_INVALID;
  return result == YK_SCAN_END && !call->is_told ? YK_SCAN_INVALID : result;
}

static void step(yk_tool_parser *p, char c);

static void step_call(yk_tool_parser *p, char c)
{
  call_reader *call = &p->call;
  yk_scan_result result = YK_SCAN_MORE;
  if (call->in_object) {
    result = take_object_byte(p, c);
  } else if (c == '{') {
    call->in_object = true;
    yk_json_scan_begin(&call->scan);
  } else if (!yk_json_is_space(c)) {
    result = YK_SCAN_INVALID;
  }
  if (result == YK_SCAN_END) {
    p->mode = MODE_AFTER;
  } else if (result == YK_SCAN_MORE) {
    if (!call->is_told) hold(p, c);
  } else if (!call->is_told) {
    give_up(p);
    step(p, c);
  } else {
    p->mode = call->arguments_ended ? MODE_AFTER : MODE_BROKEN;
    step(p, c);
  }
}

/* ---- Around calls ------------------------------------------------------------------------------------------------ */

/* Whether held, behind its white space, is a part of a tag or all of it. */
static bool is_part_of(const yk_tool_parser *p, const char *tag, bool *is_whole)
{
  size_t n = p->held.length - p->n_space, length = strlen(tag);
  *is_whole = n == length;
  return n <= length && memcmp(p->held.data + p->n_space, tag, n) == 0;
}

static bool is_space_held(const yk_tool_parser *p, char c)
{
  return p->held.length == p->n_space && yk_json_is_space(c);
}

static void hold_space(yk_tool_parser *p, char c)
{
  if (hold(p, c)) p->n_space++;
}

/* A byte of text that goes up to a tag, which is then all that is held. True: the tag is there. */
static bool find_tag(yk_tool_parser *p, char c, const char *tag, yk_tool_event_kind kind)
{
  bool is_whole;
  if (!hold(p, c)) return false;
  if (is_part_of(p, tag, &is_whole)) return is_whole;
  p->held.length--;
  bool is_first = p->held.length == 0;
  release(p, kind);
  if (!is_first) return find_tag(p, c, tag, kind); /* the byte may begin a tag itself */
  add(p, kind, &c, 1);
  return false;
}

static void step_content(yk_tool_parser *p, char c)
{
  if (find_tag(p, c, open_tag, YK_TOOL_CONTENT)) enter_call(p);
}

static void step_broken(yk_tool_parser *p, char c)
{
  if (p->format != YK_TOOLS_HERMES) {
    add(p, YK_TOOL_ARGUMENTS, &c, 1);
  } else if (find_tag(p, c, close_tag, YK_TOOL_ARGUMENTS)) {
    drop_held(p);
    p->mode = MODE_AFTER;
  }
}

/* White space between calls and the closing tag are nobody's content. */
static void step_after_hermes(yk_tool_parser *p, char c)
{
  bool is_whole;
  if (is_space_held(p, c)) {
    hold_space(p, c);
    return;
  }
  if (!hold(p, c)) return;
  if (is_part_of(p, close_tag, &is_whole)) {
    if (is_whole) drop_held(p);
  } else if (is_part_of(p, open_tag, &is_whole)) {
    if (is_whole) enter_call(p);
  } else {
    p->held.length--;
    release(p, YK_TOOL_CONTENT);
    p->mode = MODE_CONTENT;
    step_content(p, c);
  }
}

static void step_after_llama(yk_tool_parser *p, char c)
{
  if (yk_json_is_space(c) || c == ';') {
    hold_space(p, c);
  } else if (c == '{') {
    enter_call(p);
    step_call(p, c);
  } else {
    give_up(p);
    step(p, c);
  }
}

static void step_start(yk_tool_parser *p, char c)
{
  bool is_whole;
  if (is_space_held(p, c)) {
    hold_space(p, c);
  } else if (p->held.length == p->n_space && c == '{') {
    enter_call(p);
    step_call(p, c);
  } else if (hold(p, c)) {
    if (!is_part_of(p, python_tag, &is_whole))
      give_up(p);
    else if (is_whole)
      enter_call(p);
  }
}

static void step(yk_tool_parser *p, char c)
{
  switch (p->mode) {
  case MODE_START: step_start(p, c); break;
  case MODE_CONTENT: step_content(p, c); break;
  case MODE_CALL: step_call(p, c); break;
  case MODE_BROKEN: step_broken(p, c); break;
  case MODE_AFTER:
    if (p->format == YK_TOOLS_HERMES)
      step_after_hermes(p, c);
    else
      step_after_llama(p, c);
    break;
  case MODE_REST: add(p, YK_TOOL_CONTENT, &c, 1); break;
  }
}

/* ---- Parser ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  yk_tool_format format;
} formats[] = {{"hermes", YK_TOOLS_HERMES}, {"llama3_json", YK_TOOLS_LLAMA3_JSON}};

yk_tool_format yk_tool_format_find(const char *name)
{
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (strcmp(formats[i].name, name) == 0) return formats[i].format;
  return YK_TOOLS_NONE;
}

const char *yk_tool_format_names(void)
{
  return "hermes, llama3_json";
}

yk_status yk_tool_parser_create(yk_tool_format format, bool only_first,
                                void (*take)(void *user, const yk_tool_event *event), void *user, yk_tool_parser **out,
                                yk_err *err)
{
  *out = NULL;
  if (format != YK_TOOLS_HERMES && format != YK_TOOLS_LLAMA3_JSON)
    return yk_err_set(err, YK_E_INVAL, "tool calls: expected one of %s", yk_tool_format_names());
  yk_tool_parser *p = calloc(1, sizeof *p);
  if (!p) return yk_err_set(err, YK_E_NOMEM, "no memory for a parser of tool calls");
  *p = (yk_tool_parser){.format = format,
                        .only_first = only_first,
                        .take = take,
                        .user = user,
                        .mode = format == YK_TOOLS_HERMES ? MODE_CONTENT : MODE_START};
  *out = p;
  return YK_OK;
}

void yk_tool_parser_free(yk_tool_parser *parser)
{
  if (!parser) return;
  yk_strbuf_free(&parser->held);
  yk_strbuf_free(&parser->piece);
  yk_strbuf_free(&parser->call.key);
  yk_strbuf_free(&parser->call.name);
  yk_strbuf_free(&parser->call.arguments);
  free(parser);
}

static yk_status check_memory(const yk_tool_parser *p, yk_err *err)
{
  const call_reader *call = &p->call;
  bool failed = p->held.failed || p->piece.failed || call->key.failed || call->name.failed || call->arguments.failed;
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the text of tool calls") : YK_OK;
}

yk_status yk_tool_parser_push(yk_tool_parser *parser, const char *text, size_t n_bytes, yk_err *err)
{
  for (size_t i = 0; i < n_bytes; i++) step(parser, text[i]);
  flush_piece(parser);
  return check_memory(parser, err);
}

yk_status yk_tool_parser_finish(yk_tool_parser *parser, yk_err *err)
{
  bool only_space = parser->mode == MODE_AFTER && parser->held.length == parser->n_space;
  if (only_space || (parser->mode == MODE_CALL && parser->call.is_told))
    drop_held(parser);
  else
    release(parser, parser->mode == MODE_BROKEN ? YK_TOOL_ARGUMENTS : YK_TOOL_CONTENT);
  flush_piece(parser);
  return check_memory(parser, err);
}

int32_t yk_tool_parser_calls(const yk_tool_parser *parser)
{
  return parser->n_calls;
}
