#include "openai/parse/machine.h"

#include <string.h>

/* ---- Emitting ---------------------------------------------------------------------------------------------------- */

static void emit(yk_call_machine *m, const yk_answer_event *event)
{
  bool is_text = event->kind == YK_EVENT_CONTENT || event->kind == YK_EVENT_REASONING;
  if (is_text || !m->is_dropped) m->options->take(m->options->user, event);
}

void yk_calls_flush(yk_call_machine *m)
{
  const yk_answer_event event = {
      .kind = m->kind, .call = m->n_calls - 1, .text = m->piece.data, .n_bytes = m->piece.length};
  if (m->piece.length) emit(m, &event);
  m->piece.length = 0;
}

void yk_calls_add_byte(yk_call_machine *m, yk_answer_event_kind kind, char c, bool is_special)
{
  if (is_special && m->options->hides_special) return;
  if (m->kind != kind) yk_calls_flush(m);
  m->kind = kind;
  yk_strbuf_append(&m->piece, &c, 1);
}

void yk_calls_add(yk_call_machine *m, yk_answer_event_kind kind, char c)
{
  yk_calls_add_byte(m, kind, c, m->is_special);
}

void yk_calls_write(yk_call_machine *m, const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; i++) yk_calls_add_byte(m, YK_EVENT_ARGUMENTS, text[i], false);
}

void yk_calls_begin(yk_call_machine *m)
{
  yk_calls_flush(m);
  m->is_dropped = m->options->only_first && m->n_calls > 0;
  if (!m->is_dropped) m->n_calls++;
  m->has_open_call = true;
  emit(m, &(yk_answer_event){.kind = YK_EVENT_CALL,
                             .call = m->n_calls - 1,
                             .text = m->name.data,
                             .n_bytes = m->name.length,
                             .id = m->id.length ? m->id.data : NULL,
                             .n_id_bytes = m->id.length});
  yk_calls_drop(m);
}

void yk_calls_end(yk_call_machine *m, bool is_whole)
{
  if (!m->has_open_call) return;
  yk_calls_flush(m);
  emit(m, &(yk_answer_event){.kind = YK_EVENT_CALL_END, .call = m->n_calls - 1, .is_whole = is_whole});
  m->has_broken_call |= !is_whole && !m->is_dropped;
  m->has_open_call = false;
}

/* ---- Held bytes -------------------------------------------------------------------------------------------------- */

bool yk_calls_hold(yk_call_machine *m, char c)
{
  yk_strbuf_append(&m->held, &c, 1);
  yk_strbuf_append(&m->held_special, &m->is_special, 1);
  return !m->held.failed && !m->held_special.failed;
}

void yk_calls_drop(yk_call_machine *m)
{
  m->held.length = m->held_special.length = m->n_before = 0;
}

void yk_calls_unhold(yk_call_machine *m)
{
  m->held.length--;
  m->held_special.length--;
}

void yk_calls_release(yk_call_machine *m, yk_answer_event_kind kind)
{
  for (size_t i = 0; i < m->held.length; i++) yk_calls_add_byte(m, kind, m->held.data[i], m->held_special.data[i] != 0);
  yk_calls_drop(m);
}

bool yk_calls_hold_space(yk_call_machine *m, char c, const char *more)
{
  if (m->held.length != m->n_before || !(yk_json_is_space(c) || yk_is_one_of(c, more))) return false;
  if (yk_calls_hold(m, c)) m->n_before++;
  return true;
}

/* ---- Tags -------------------------------------------------------------------------------------------------------- */

int yk_calls_match(const yk_call_machine *m, unsigned roles)
{
  size_t n = m->held.length - m->n_before;
  const char *held = m->held.data + m->n_before;
  int found = YK_NO_TAG;
  for (const yk_tag *tag = m->form->tags; tag->text; tag++) {
    if (!(tag->roles & roles) || strncmp(tag->text, held, n) != 0) continue;
    if (tag->text[n] == '\0') return (int)tag->roles;
    found = YK_PART_OF_TAG;
  }
  return found;
}

int yk_calls_find(yk_call_machine *m, char c, unsigned roles, yk_answer_event_kind kind)
{
  if (!yk_calls_hold(m, c)) return 0;
  int found = yk_calls_match(m, roles);
  if (found == YK_PART_OF_TAG) return 0;
  if (found != YK_NO_TAG) return found;
  yk_calls_unhold(m);
  bool is_first = m->held.length == 0;
  yk_calls_release(m, kind);
  if (!is_first) return yk_calls_find(m, c, roles, kind); /* the byte may begin a tag */
  yk_calls_add(m, kind, c);
  return 0;
}
