#include "openai/translation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_write.h"

void yk_translation_begin(yk_translation *t, const yk_openai_defaults *defaults)
{
  *t = (yk_translation){.defaults = defaults};
  yk_strbuf_append_str(&t->body, "{");
}

static void append_list(yk_translation *t, const char *name, const yk_strbuf *elements)
{
  yk_strbuf *out = yk_translation_field(t, name);
  yk_strbuf_append_str(out, "[");
  yk_strbuf_append(out, elements->data, elements->length);
  yk_strbuf_append_str(out, "]");
}

bool yk_translation_failed(const yk_translation *t)
{
  const yk_translated_message *m = &t->message;
  return t->failed || t->body.failed || t->echo.failed || t->messages.failed || t->tools.failed ||
         t->message_places.failed || t->tool_places.failed || m->parts.failed || m->reasoning.failed ||
         m->calls.failed || m->result_of.failed;
}

yk_status yk_translation_end(yk_translation *t, yk_err *err)
{
  yk_translation_end_message(t);
  if (t->messages.length) append_list(t, "messages", &t->messages);
  if (t->tools.length) append_list(t, "tools", &t->tools);
  yk_strbuf_append_str(&t->body, "}");
  return yk_translation_failed(t) ? yk_err_set(err, YK_E_NOMEM, "no memory for a translated request") : YK_OK;
}

void yk_translation_free(yk_translation *t)
{
  yk_translated_message *m = &t->message;
  yk_strbuf *const buffers[] = {&t->body,  &t->echo,      &t->messages, &t->tools,     &t->message_places,
                                &m->parts, &m->reasoning, &m->calls,    &m->result_of, &t->tool_places};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) yk_strbuf_free(buffers[i]);
  free(t->call_ids.slots);
  *t = (yk_translation){0};
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static const yk_translated_field *find_field(const yk_translated_field *fields, size_t n, const char *name)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(fields[i].name, name) == 0) return &fields[i];
  return NULL;
}

bool yk_translation_has_field(const yk_translated_field *fields, size_t n, const char *name)
{
  return find_field(fields, n, name) != NULL;
}

static bool is_empty(yk_json value)
{
  if (yk_json_is(value, YK_JSON_FALSE)) return true;
  bool has_size = yk_json_is(value, YK_JSON_ARRAY) || yk_json_is(value, YK_JSON_OBJECT);
  return has_size ? yk_json_size(value) == 0 : yk_json_is(value, YK_JSON_STRING) && yk_json_length(value) == 0;
}

static const char *expected_of(yk_field_rule rule)
{
  switch (rule) {
  case YK_FIELD_PASSED_TEXT: return "a string";
  case YK_FIELD_PASSED_FLAG: return "true or false";
  case YK_FIELD_PASSED_NUMBER: return "a number";
  default: return "an object";
  }
}

static bool is_as_expected(yk_field_rule rule, yk_json value)
{
  switch (rule) {
  case YK_FIELD_PASSED_TEXT: return yk_json_is(value, YK_JSON_STRING);
  case YK_FIELD_PASSED_FLAG: return yk_json_is_bool(value);
  case YK_FIELD_PASSED_NUMBER: return yk_json_is(value, YK_JSON_NUMBER);
  case YK_FIELD_PASSED_OBJECT: return yk_json_is(value, YK_JSON_OBJECT);
  default: return true;
  }
}

yk_status yk_translation_fields(yk_translation *t, yk_json body, const yk_translated_field *fields, size_t n,
                                yk_err *err)
{
  if (!yk_json_is(body, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, "body", "an object", body, err);
  YK_JSON_EACH_KEY(key, body)
  {
    yk_json value = yk_json_member(key);
    const yk_translated_field *field = find_field(fields, n, yk_json_text(key));
    if (!yk_json_is_given(value)) continue;
    yk_translation_at(t, "%s", yk_json_text(key));
    if (!field)
      yk_translation_note(t, "field", key);
    else if (field->rule == YK_FIELD_COPY)
      yk_json_append(yk_translation_field(t, field->name), value, 0);
    else if (!is_as_expected(field->rule, value))
      return yk_translation_wrong(t, expected_of(field->rule), value, err);
    else if (field->rule == YK_FIELD_OFF && !is_empty(value))
      return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "not supported; leave it out");
  }
  return YK_OK;
}

void yk_translation_at(yk_translation *t, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vsnprintf(t->param, sizeof t->param, fmt, args);
  va_end(args);
}

yk_json yk_translation_take(yk_translation *t, yk_json body, const char *name)
{
  yk_json value = yk_json_get(body, name);
  yk_translation_at(t, "%s", name);
  return yk_json_is_given(value) ? value : YK_JSON_NONE;
}

yk_status yk_translation_refuse(const yk_translation *t, yk_status status, yk_err *err, const char *fmt, ...)
{
  char why[YK_ERR_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  return yk_err_set(err, status, "%s: %s", t->param, why);
}

yk_status yk_translation_wrong(const yk_translation *t, const char *expected, yk_json found, yk_err *err)
{
  return yk_json_wrong_type(NULL, t->param, expected, found, err);
}

yk_strbuf *yk_translation_field(yk_translation *t, const char *name)
{
  yk_strbuf_append_fmt(&t->body, "%s\"%s\":", t->body.length > 1 ? "," : "", name);
  return &t->body;
}

void yk_translation_note(const yk_translation *t, const char *kind, yk_json name)
{
  if (t->defaults->pass_over) t->defaults->pass_over(t->defaults->user, kind, yk_json_text(name));
}

/* ---- Ids of calls ------------------------------------------------------------------------------------------------ */

static uint64_t hash_of(yk_json id)
{
  uint32_t hash = yk_hash(YK_HASH_START, yk_json_text(id), yk_json_length(id));
  return (uint64_t)hash << 32 | yk_hash(hash, yk_json_text(id), yk_json_length(id));
}

/* The slot of a hash, or the free one where it belongs; n_slots is a power of two with a free slot. */
static uint64_t *slot_of(uint64_t *slots, size_t n_slots, uint64_t hash)
{
  size_t at = (size_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (n_slots - 1);
  while (slots[at] && slots[at] != hash) at = (at + 1) & (n_slots - 1);
  return &slots[at];
}

static bool reserve_slot(yk_call_ids *ids)
{
  enum { FIRST_SLOTS = 64 };
  if (2 * (ids->n + 1) <= ids->n_slots) return true;
  size_t n_slots = ids->n_slots ? 2 * ids->n_slots : FIRST_SLOTS;
  uint64_t *slots = calloc(n_slots, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < ids->n_slots; i++)
    if (ids->slots[i]) *slot_of(slots, n_slots, ids->slots[i]) = ids->slots[i];
  free(ids->slots);
  ids->slots = slots;
  ids->n_slots = n_slots;
  return true;
}

static void add_id(yk_translation *t, yk_json id)
{
  yk_call_ids *ids = &t->call_ids;
  if (!reserve_slot(ids)) {
    t->failed = true;
    return;
  }
  uint64_t *slot = slot_of(ids->slots, ids->n_slots, hash_of(id));
  ids->n += *slot == 0;
  *slot = hash_of(id);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static const char PART_BEGIN[] = "{\"type\":\"text\",\"text\":";

/* One text is a string, several are a list. */
static void append_content(const yk_translated_message *m, yk_strbuf *out)
{
  size_t n_begin = sizeof PART_BEGIN - 1;
  if (m->n_parts == 0) {
    yk_strbuf_append_str(out, m->calls.length || m->reasoning.length ? "null" : "\"\"");
  } else if (m->n_parts == 1) {
    yk_strbuf_append(out, m->parts.data + n_begin, m->parts.length - n_begin - 1);
  } else {
    yk_strbuf_append_str(out, "[");
    yk_strbuf_append(out, m->parts.data, m->parts.length);
    yk_strbuf_append_str(out, "]");
  }
}

void yk_translation_end_message(yk_translation *t)
{
  yk_translated_message *m = &t->message;
  yk_strbuf *out = &t->messages;
  if (!m->role || m->parts.failed) return;
  bool is_nothing = m->n_parts == 0 && m->reasoning.length == 0 && m->calls.length == 0;
  if (is_nothing && strcmp(m->role, "assistant") == 0) { /* reasoning that the client returned without its text */
    m->role = NULL;
    return;
  }
  yk_strbuf_append(&t->message_places, m->place, strlen(m->place) + 1);
  yk_strbuf_append_fmt(out, "%s{\"role\":\"%s\",\"content\":", out->length ? "," : "", m->role);
  append_content(m, out);
  if (m->reasoning.length) {
    yk_strbuf_append_str(out, ",\"reasoning\":\"");
    yk_strbuf_append(out, m->reasoning.data, m->reasoning.length);
    yk_strbuf_append_str(out, "\"");
  }
  if (m->calls.length) {
    yk_strbuf_append_str(out, ",\"tool_calls\":[");
    yk_strbuf_append(out, m->calls.data, m->calls.length);
    yk_strbuf_append_str(out, "]");
  }
  if (m->result_of.length) {
    yk_strbuf_append_str(out, ",\"tool_call_id\":");
    yk_strbuf_append(out, m->result_of.data, m->result_of.length);
  }
  yk_strbuf_append_str(out, "}");
  t->failed |= m->reasoning.failed || m->calls.failed || m->result_of.failed; /* cleared below */
  yk_strbuf_clear(&m->parts);
  yk_strbuf_clear(&m->reasoning);
  yk_strbuf_clear(&m->calls);
  yk_strbuf_clear(&m->result_of);
  m->n_parts = 0;
  m->role = NULL;
}

void yk_translation_message(yk_translation *t, const char *role)
{
  yk_translation_end_message(t);
  t->message.role = role;
  snprintf(t->message.place, sizeof t->message.place, "%.*s", (int)(strcspn(t->param, "]") + 1), t->param);
}

void yk_translation_assistant(yk_translation *t)
{
  if (!t->message.role || strcmp(t->message.role, "assistant") != 0) yk_translation_message(t, "assistant");
}

void yk_translation_text(yk_translation *t, const char *text, size_t n_bytes)
{
  yk_translated_message *m = &t->message;
  if (m->n_parts++) yk_strbuf_append_str(&m->parts, ",");
  yk_strbuf_append_str(&m->parts, PART_BEGIN);
  yk_json_append_string(&m->parts, text, n_bytes);
  yk_strbuf_append_str(&m->parts, "}");
}

void yk_translation_reasoning(yk_translation *t, const char *text, size_t n_bytes)
{
  yk_json_append_escaped(&t->message.reasoning, text, n_bytes);
}

void yk_translation_call(yk_translation *t, yk_json id, yk_json name, const char *arguments, size_t n_bytes)
{
  yk_strbuf *out = &t->message.calls;
  add_id(t, id);
  if (out->length) yk_strbuf_append_str(out, ",");
  yk_strbuf_append_str(out, "{\"id\":");
  yk_json_append_string(out, yk_json_text(id), yk_json_length(id));
  yk_strbuf_append_str(out, ",\"type\":\"function\",\"function\":{\"name\":");
  yk_json_append_string(out, yk_json_text(name), yk_json_length(name));
  yk_strbuf_append_str(out, ",\"arguments\":");
  yk_json_append_string(out, arguments, n_bytes);
  yk_strbuf_append_str(out, "}}");
}

bool yk_translation_result(yk_translation *t, yk_json id)
{
  const yk_call_ids *ids = &t->call_ids;
  if (ids->n == 0 || !*slot_of(ids->slots, ids->n_slots, hash_of(id))) return false;
  yk_translation_message(t, "tool");
  yk_json_append_string(&t->message.result_of, yk_json_text(id), yk_json_length(id));
  return true;
}

/* ---- Tools ------------------------------------------------------------------------------------------------------- */

static void append_member(yk_strbuf *out, const char *name, yk_json value)
{
  if (!yk_json_is_given(value)) return;
  yk_strbuf_append_fmt(out, ",\"%s\":", name);
  yk_json_append(out, value, 0);
}

yk_status yk_translation_check_strict(yk_translation *t, yk_json object, yk_err *err)
{
  yk_json strict = yk_json_get(object, "strict");
  if (!yk_json_is_given(strict) || yk_json_is_bool(strict)) return YK_OK;
  size_t length = strlen(t->param);
  snprintf(t->param + length, sizeof t->param - length, ".strict");
  return yk_translation_wrong(t, "true or false", strict, err);
}

void yk_translation_tool(yk_translation *t, yk_json name, yk_json description, yk_json parameters, const char *key,
                         yk_json strict)
{
  yk_strbuf *out = &t->tools;
  yk_strbuf_append_fmt(&t->tool_places, "%s.%s", t->param, key);
  yk_strbuf_append(&t->tool_places, "", 1);
  if (out->length) yk_strbuf_append_str(out, ",");
  yk_strbuf_append_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
  yk_json_append(out, name, 0);
  append_member(out, "description", description);
  append_member(out, "parameters", parameters);
  append_member(out, "strict", strict);
  yk_strbuf_append_str(out, "}}");
}
