#include "openai/tool_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "openai/json_scan.h"

static const char open_tag[] = "<tool_call>", close_tag[] = "</tool_call>", python_tag[] = "<|python_tag|>";

typedef enum parser_mode {
  MODE_START,   /* llama3_json: only white space and part of the tag have arrived */
  MODE_CONTENT, /* hermes: searching a tag. held: part of the tag */
  MODE_CALL,    /* held: everything from the tag on, until the beginning of the call is emitted */
  MODE_BROKEN,  /* an emitted call is invalid JSON: further bytes are its arguments. held: part of a tag */
  MODE_AFTER,   /* behind a call. held: white space (llama3_json: ";" too) and part of a tag */
  MODE_REST     /* llama3_json: everything is content */
} parser_mode;

typedef enum call_value { VALUE_OTHER, VALUE_NAME, VALUE_ARGUMENTS } call_value;

/* The current call. */
typedef struct call_reader {
  yk_json_scan scan;
  bool in_object;
  bool is_emitted;  /* its beginning was emitted: name complete, arguments begun */
  call_value value; /* role of the current value of the outermost object */
  bool has_arguments, arguments_ended;
  bool has_name;
  yk_strbuf key, name, arguments; /* as JSON; arguments until the beginning is emitted */
} call_reader;

struct yk_tool_parser {
  yk_tool_options options;
  parser_mode mode;
  bool is_special;         /* the current byte belongs to a special token */
  yk_strbuf held;          /* bytes whose kind is not decided yet */
  yk_strbuf held_special;  /* for each of them: belongs to a special token */
  size_t n_space;          /* white space at the beginning of held, before the part of a tag */
  yk_strbuf piece;         /* content or arguments of this push that are not emitted yet */
  yk_tool_event_kind kind; /* of piece */
  int32_t n_calls;         /* emitted */
  bool is_dropped;         /* the current call follows the first, and only the first is wanted */
  bool has_open_call;      /* begun, and not ended */
  bool has_broken_call;
  call_reader call;
};

/* ---- Emitting events --------------------------------------------------------------------------------------------- */

static void emit(yk_tool_parser *p, const yk_tool_event *event)
{
  if (event->kind != YK_TOOL_CONTENT && p->is_dropped) return;
  p->options.take(p->options.user, event);
}

static void flush_piece(yk_tool_parser *p)
{
  const yk_tool_event event = {
      .kind = p->kind, .call = p->n_calls - 1, .text = p->piece.data, .n_bytes = p->piece.length};
  if (p->piece.length) emit(p, &event);
  p->piece.length = 0;
}

static void add_byte(yk_tool_parser *p, yk_tool_event_kind kind, char c, bool is_special)
{
  if (is_special && p->options.hides_special) return;
  if (p->kind != kind) flush_piece(p);
  p->kind = kind;
  yk_strbuf_append(&p->piece, &c, 1);
}

/* Adds the current byte. */
static void add(yk_tool_parser *p, yk_tool_event_kind kind, char c)
{
  add_byte(p, kind, c, p->is_special);
}

static void end_call(yk_tool_parser *p, bool is_whole)
{
  if (!p->has_open_call) return;
  flush_piece(p);
  emit(p, &(yk_tool_event){.kind = YK_TOOL_END, .call = p->n_calls - 1, .is_whole = is_whole});
  p->has_broken_call |= !is_whole && !p->is_dropped;
  p->has_open_call = false;
}

/* Holds the byte. False: no memory, which push reports at its end. */
static bool hold(yk_tool_parser *p, char c)
{
  yk_strbuf_append(&p->held, &c, 1);
  yk_strbuf_append(&p->held_special, &p->is_special, 1);
  return !p->held.failed && !p->held_special.failed;
}

static void drop_held(yk_tool_parser *p)
{
  p->held.length = p->held_special.length = p->n_space = 0;
}

/* Removes the current byte, the last one in held. */
static void unhold(yk_tool_parser *p)
{
  p->held.length--;
  p->held_special.length--;
}

/* Emits the held bytes as this kind. */
static void release(yk_tool_parser *p, yk_tool_event_kind kind)
{
  for (size_t i = 0; i < p->held.length; i++) add_byte(p, kind, p->held.data[i], p->held_special.data[i]);
  drop_held(p);
}

/* ---- A call ------------------------------------------------------------------------------------------------------ */

static void enter_call(yk_tool_parser *p)
{
  call_reader *call = &p->call;
  p->mode = MODE_CALL;
  call->in_object = call->is_emitted = call->has_arguments = call->arguments_ended = call->has_name = false;
  call->key.length = call->name.length = call->arguments.length = 0;
  call->value = VALUE_OTHER;
}

/* The held bytes are not a call: emits them as content. */
static void give_up(yk_tool_parser *p)
{
  release(p, YK_TOOL_CONTENT);
  p->mode = p->options.format == YK_TOOLS_HERMES ? MODE_CONTENT : MODE_REST;
}

/* Emits the beginning of a call when the name is complete, and the arguments have begun or are absent. False: the name
 * is empty or not a string. */
static bool emit_beginning(yk_tool_parser *p)
{
  call_reader *call = &p->call;
  static const yk_json_rules rules = {.max_depth = 1};
  yk_json_doc *name = NULL;
  if (yk_json_parse("name", call->name.data, call->name.length, &rules, &name, NULL) == YK_E_NOMEM)
    call->name.failed = true; /* reported by push */
  yk_json text = yk_json_root(name);
  size_t length = yk_json_length(text);
  if (length > 0) {
    flush_piece(p);
    p->is_dropped = p->options.only_first && p->n_calls > 0;
    if (!p->is_dropped) p->n_calls++;
    p->has_open_call = true;
    emit(p, &(yk_tool_event){
                .kind = YK_TOOL_BEGIN, .call = p->n_calls - 1, .text = yk_json_text(text), .n_bytes = length});
    for (size_t i = 0; i < call->arguments.length; i++) add_byte(p, YK_TOOL_ARGUMENTS, call->arguments.data[i], false);
    drop_held(p);
    call->is_emitted = true;
  }
  yk_json_free(name);
  return length > 0;
}

static bool key_is(const call_reader *call, const char *key)
{
  return call->key.length == strlen(key) && memcmp(call->key.data, key, call->key.length) == 0;
}

/* A value of the outermost object begins with c. False: the object is not a call. */
static bool begin_value(yk_tool_parser *p, char c)
{
  call_reader *call = &p->call;
  call->value = VALUE_OTHER;
  if (key_is(call, "name") && !call->has_name) {
    call->value = VALUE_NAME;
    return c == '"';
  }
  if (call->has_arguments || (!key_is(call, "arguments") && !key_is(call, "parameters"))) return true;
  if (c == 'n' && p->options.format == YK_TOOLS_HERMES) return true; /* null: no arguments */
  call->value = VALUE_ARGUMENTS;
  call->has_arguments = true;
  return c == '{' && (!call->has_name || emit_beginning(p));
}

/* Takes a byte of a value of the outermost object; has_ended: the last byte. False: the name is invalid. */
static bool take_value_byte(yk_tool_parser *p, char c, bool has_ended)
{
  call_reader *call = &p->call;
  if (call->value == VALUE_NAME) {
    yk_strbuf_append(&call->name, &c, 1);
    call->has_name = has_ended;
    if (has_ended && call->has_arguments) return emit_beginning(p);
  } else if (call->value == VALUE_ARGUMENTS) {
    if (call->is_emitted)
      add(p, YK_TOOL_ARGUMENTS, c);
    else if (!p->is_special || !p->options.hides_special)
      yk_strbuf_append(&call->arguments, &c, 1);
    call->arguments_ended = has_ended;
  }
  return true;
}

static bool is_in_string(const yk_json_scan *scan)
{
  return scan->state == YK_SCAN_STRING || scan->state == YK_SCAN_ESCAPE || scan->state == YK_SCAN_HEX;
}

/* The object has ended before its beginning was emitted: it may be a call without arguments. */
static bool end_without_arguments(yk_tool_parser *p)
{
  call_reader *call = &p->call;
  if (p->options.format != YK_TOOLS_HERMES || !call->has_name || call->has_arguments) return false;
  yk_strbuf_append_str(&call->arguments, "{}");
  return emit_beginning(p);
}

/* Takes a byte of the object. INVALID: with this byte the object is not a call. */
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
  if (result == YK_SCAN_END && !call->is_emitted && !end_without_arguments(p)) return YK_SCAN_INVALID;
  return result;
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
    end_call(p, true);
    p->mode = MODE_AFTER;
  } else if (result == YK_SCAN_MORE) {
    if (!call->is_emitted) hold(p, c);
  } else if (!call->is_emitted) {
    give_up(p);
    step(p, c);
  } else {
    if (call->arguments_ended) end_call(p, true);
    p->mode = call->arguments_ended ? MODE_AFTER : MODE_BROKEN;
    step(p, c);
  }
}

/* ---- Text around calls ------------------------------------------------------------------------------------------- */

/* Whether held, behind its white space, is a beginning of the tag; *is_whole: the whole tag. */
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

/* Takes a byte of text in front of a tag. True: the tag is complete, and held contains only the tag. */
static bool find_tag(yk_tool_parser *p, char c, const char *tag, yk_tool_event_kind kind)
{
  bool is_whole;
  if (!hold(p, c)) return false;
  if (is_part_of(p, tag, &is_whole)) return is_whole;
  unhold(p);
  bool is_first = p->held.length == 0;
  release(p, kind);
  if (!is_first) return find_tag(p, c, tag, kind); /* the byte may begin a tag */
  add(p, kind, c);
  return false;
}

static void step_content(yk_tool_parser *p, char c)
{
  if (find_tag(p, c, open_tag, YK_TOOL_CONTENT)) enter_call(p);
}

static void step_broken(yk_tool_parser *p, char c)
{
  if (p->options.format != YK_TOOLS_HERMES) {
    add(p, YK_TOOL_ARGUMENTS, c);
  } else if (find_tag(p, c, close_tag, YK_TOOL_ARGUMENTS)) {
    drop_held(p);
    end_call(p, false);
    p->mode = MODE_AFTER;
  }
}

/* Drops white space between calls, and the closing tag. */
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
    unhold(p);
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
    if (p->options.format == YK_TOOLS_HERMES)
      step_after_hermes(p, c);
    else
      step_after_llama(p, c);
    break;
  case MODE_REST: add(p, YK_TOOL_CONTENT, c); break;
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

yk_status yk_tool_parser_create(const yk_tool_options *options, yk_tool_parser **out, yk_err *err)
{
  *out = NULL;
  if (options->format != YK_TOOLS_HERMES && options->format != YK_TOOLS_LLAMA3_JSON)
    return yk_err_set(err, YK_E_INVAL, "tool calls: expected one of %s", yk_tool_format_names());
  yk_tool_parser *p = calloc(1, sizeof *p);
  if (!p) return yk_err_set(err, YK_E_NOMEM, "no memory for a parser of tool calls");
  p->options = *options;
  p->mode = options->format == YK_TOOLS_HERMES ? MODE_CONTENT : MODE_START;
  *out = p;
  return YK_OK;
}

void yk_tool_parser_free(yk_tool_parser *parser)
{
  if (!parser) return;
  yk_strbuf_free(&parser->held);
  yk_strbuf_free(&parser->held_special);
  yk_strbuf_free(&parser->piece);
  yk_strbuf_free(&parser->call.key);
  yk_strbuf_free(&parser->call.name);
  yk_strbuf_free(&parser->call.arguments);
  free(parser);
}

static yk_status check_memory(const yk_tool_parser *p, yk_err *err)
{
  const call_reader *call = &p->call;
  bool failed = p->held.failed || p->held_special.failed || p->piece.failed || call->key.failed || call->name.failed ||
                call->arguments.failed;
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the text of tool calls") : YK_OK;
}

/* Ends the text. is_cut: the model did not end it. */
static void finish(yk_tool_parser *p, bool is_cut)
{
  bool is_hermes = p->options.format == YK_TOOLS_HERMES, has_tag = p->held.length > p->n_space;
  switch (p->mode) {
  case MODE_START: /* held: white space and part of a tag */
    if (is_cut && has_tag)
      drop_held(p);
    else
      release(p, YK_TOOL_CONTENT);
    break;
  case MODE_CONTENT:
  /* held: everything from a tag on, unless the call has been emitted; for llama3_json any JSON object may be a call */
  case MODE_CALL:
    if ((p->mode == MODE_CALL && p->call.is_emitted) || (is_cut && is_hermes))
      drop_held(p);
    else
      release(p, YK_TOOL_CONTENT);
    break;
  case MODE_BROKEN:
    if (is_cut)
      drop_held(p);
    else
      release(p, YK_TOOL_ARGUMENTS);
    break;
  case MODE_AFTER: drop_held(p); break;
  case MODE_REST: break;
  }
  end_call(p, p->mode == MODE_CALL && p->call.arguments_ended);
}

yk_status yk_tool_parser_push(yk_tool_parser *parser, const yk_output *output, yk_err *err)
{
  size_t next = 0;
  for (size_t i = 0; i < output->text_bytes; i++) {
    while (next < output->n_special && output->special[next].end <= i) next++;
    parser->is_special = next < output->n_special && output->special[next].begin <= i;
    step(parser, output->text[i]);
  }
  bool is_cut = output->finish == YK_FINISH_LENGTH || output->stop_string;
  if (output->finish != YK_FINISH_NONE) finish(parser, is_cut);
  flush_piece(parser);
  return check_memory(parser, err);
}

bool yk_tool_parser_has_calls(const yk_tool_parser *parser)
{
  return parser->n_calls > 0 && !parser->has_broken_call;
}
