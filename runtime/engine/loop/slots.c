#include "engine/loop/slots.h"

#include <stdlib.h>

enum { NONE = -1 };

typedef struct row {
  struct yk_sequence_memory *holder; /* or NULL */
  bool is_free;
  int32_t newer, older; /* neighbours in the list of free slots */
} row;

struct yk_slots {
  int32_t oldest, newest; /* ends of the list of free slots: slots are taken from the oldest end */
  row *rows;              /* [n] */
};

static void add_newest(yk_slots *s, int32_t i)
{
  s->rows[i].older = s->newest;
  s->rows[i].newer = NONE;
  *(s->newest == NONE ? &s->oldest : &s->rows[s->newest].newer) = i;
  s->newest = i;
}

static void add_oldest(yk_slots *s, int32_t i)
{
  s->rows[i].newer = s->oldest;
  s->rows[i].older = NONE;
  *(s->oldest == NONE ? &s->newest : &s->rows[s->oldest].older) = i;
  s->oldest = i;
}

static void remove_free(yk_slots *s, int32_t i)
{
  row *it = &s->rows[i];
  *(it->older == NONE ? &s->oldest : &s->rows[it->older].newer) = it->newer;
  *(it->newer == NONE ? &s->newest : &s->rows[it->newer].older) = it->older;
}

yk_status yk_slots_create(int32_t n, yk_slots **out, yk_err *err)
{
  yk_slots *s = calloc(1, sizeof *s);
  if (s) s->rows = calloc((size_t)n, sizeof *s->rows);
  if (!s || !s->rows) {
    yk_slots_destroy(s);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %d slots", n);
  }
  s->oldest = s->newest = NONE;
  for (int32_t i = 0; i < n; i++) {
    s->rows[i].is_free = true;
    add_newest(s, i);
  }
  *out = s;
  return YK_OK;
}

void yk_slots_destroy(yk_slots *slots)
{
  if (!slots) return;
  free(slots->rows);
  free(slots);
}

int32_t yk_slots_take(yk_slots *slots, struct yk_sequence_memory *holder, struct yk_sequence_memory **loser)
{
  int32_t i = slots->oldest;
  *loser = NULL;
  if (i == NONE) return NONE;
  *loser = slots->rows[i].holder;
  slots->rows[i].holder = holder;
  yk_slots_retake(slots, i);
  return i;
}

void yk_slots_retake(yk_slots *slots, int32_t slot)
{
  remove_free(slots, slot);
  slots->rows[slot].is_free = false;
}

void yk_slots_leave(yk_slots *slots, int32_t slot, bool keeps_holder)
{
  slots->rows[slot].is_free = true;
  if (keeps_holder) {
    add_newest(slots, slot);
    return;
  }
  slots->rows[slot].holder = NULL;
  add_oldest(slots, slot);
}

void yk_slots_drop_holder(yk_slots *slots, int32_t slot)
{
  remove_free(slots, slot);
  yk_slots_leave(slots, slot, false);
}

struct yk_sequence_memory *yk_slots_user(const yk_slots *slots, int32_t slot)
{
  return slots->rows[slot].is_free ? NULL : slots->rows[slot].holder;
}
