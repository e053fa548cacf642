/* A call that is a JSON object with a name and arguments. */
#include <string.h>

#include "base/json.h"
#include "openai/parse/machine.h"

enum { VALUE_OTHER, VALUE_NAME, VALUE_ARGUMENTS };

void yk_call_object_begin(yk_call_machine *m)
{
  yk_call_object *call = &m->object;
  call->in_object = call->is_emitted = call->has_arguments = call->arguments_ended = call->has_name = false;
  call->key.length = call->name.length = call->arguments.length = 0;
  call->value = VALUE_OTHER;
}

/* Emits the beginning of a call when the name is complete, and the arguments have begun or are absent. False: the name
 * is empty or not a string. */
static bool emit_beginning(yk_call_machine *m)
{
  yk_call_object *call = &m->object;
  static const yk_json_rules rules = {.max_depth = 1};
  yk_json_doc *name = NULL;
  if (yk_json_parse("name", call->name.data, call->name.length, &rules, &name, NULL) == YK_E_NOMEM)
    call->name.failed = true; /* reported by push */
  yk_json text = yk_json_root(name);
  size_t length = yk_json_length(text);
  if (length > 0) {
    m->id.length = m->name.length = 0;
    yk_strbuf_append(&m->name, yk_json_text(text), length);
    yk_calls_begin(m);
    yk_calls_write(m, call->arguments.data, call->arguments.length);
    call->is_emitted = true;
  }
  yk_json_free(name);
  return length > 0;
}

static bool key_is(const yk_call_object *call, const char *key)
{
  return call->key.length == strlen(key) && memcmp(call->key.data, key, call->key.length) == 0;
}

/* A value of the outermost object begins with c. False: the object is not a call. */
static bool begin_value(yk_call_machine *m, char c)
{
  yk_call_object *call = &m->object;
  call->value = VALUE_OTHER;
  if (key_is(call, "name") && !call->has_name) {
    call->value = VALUE_NAME;
    return c == '"';
  }
  if (call->has_arguments || (!key_is(call, "arguments") && !key_is(call, "parameters"))) return true;
  if (c == 'n' && !m->form->needs_arguments) return true; /* null: no arguments */
  call->value = VALUE_ARGUMENTS;
  call->has_arguments = true;
  return c == '{' && (!call->has_name || emit_beginning(m));
}

/* Takes a byte of a value of the outermost object; has_ended: the last byte. False: the name is invalid. */
static bool take_value_byte(yk_call_machine *m, char c, bool has_ended)
{
  yk_call_object *call = &m->object;
  if (call->value == VALUE_NAME) {
    yk_strbuf_append(&call->name, &c, 1);
    call->has_name = has_ended;
    if (has_ended && call->has_arguments) return emit_beginning(m);
  } else if (call->value == VALUE_ARGUMENTS) {
    if (call->is_emitted)
      yk_calls_add(m, YK_EVENT_ARGUMENTS, c);
    else if (!m->is_special || !m->options->hides_special)
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
static bool end_without_arguments(yk_call_machine *m)
{
  yk_call_object *call = &m->object;
  if (m->form->needs_arguments || !call->has_name || call->has_arguments) return false;
  yk_strbuf_append_str(&call->arguments, "{}");
  return emit_beginning(m);
}

/* Takes a byte of the object. INVALID: with this byte the object is not a call. */
static yk_scan_result take_object_byte(yk_call_machine *m, char c)
{
  yk_call_object *call = &m->object;
  yk_json_scan *scan = &call->scan;
  bool outer = scan->depth == 1, begins = outer && scan->state == YK_SCAN_VALUE && !yk_json_is_space(c);
  bool in_key = outer && scan->is_key && is_in_string(scan);
  if (outer && (scan->state == YK_SCAN_FIRST_KEY || scan->state == YK_SCAN_KEY)) call->key.length = 0;
  bool in_value = begins || scan->depth > 1 || (outer && is_in_string(scan) && !scan->is_key);
  if (begins && !begin_value(m, c)) return YK_SCAN_INVALID;
  yk_scan_result result = yk_json_scan_byte(scan, c);
  if (result == YK_SCAN_INVALID) return result;
  if (in_key && is_in_string(scan)) yk_strbuf_append(&call->key, &c, 1);
  bool has_ended = scan->depth == 1 && scan->state == YK_SCAN_AFTER;
  if (in_value && !take_value_byte(m, c, has_ended)) return YK_SCAN_INVALID;
  if (result == YK_SCAN_END && !call->is_emitted && !end_without_arguments(m)) return YK_SCAN_INVALID;
  return result;
}

yk_object_result yk_call_object_take(yk_call_machine *m, char c)
{
  yk_call_object *call = &m->object;
  yk_scan_result result = YK_SCAN_MORE;
  if (call->in_object) {
    result = take_object_byte(m, c);
  } else if (c == '{') {
    call->in_object = true;
    yk_json_scan_begin(&call->scan, '{');
  } else if (!yk_json_is_space(c)) {
    result = YK_SCAN_INVALID;
  }
  if (result == YK_SCAN_END) {
    yk_calls_end(m, true);
    return YK_OBJECT_END;
  }
  if (result == YK_SCAN_MORE) {
    if (!call->is_emitted) yk_calls_hold(m, c);
    return YK_OBJECT_MORE;
  }
  if (!call->is_emitted) return YK_OBJECT_NO_CALL;
  if (!call->arguments_ended) return YK_OBJECT_BROKEN;
  yk_calls_end(m, true);
  return YK_OBJECT_EARLY;
}
