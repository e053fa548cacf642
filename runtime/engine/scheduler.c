#include "engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct yk_scheduler {
  yk_device_limits limits;
  yk_scheduler_rules rules;
  yk_kv_blocks *blocks; /* not owned */
  yk_sequence *waiting; /* linked by next, oldest first */
  yk_sequence **waiting_end;
  int32_t n_waiting;
  yk_sequence *parked;   /* linked by next, latest first */
  yk_sequence **running; /* [max_seqs], oldest first */
  int32_t n_running;
  yk_scheduled *items; /* [max_seqs] the planned step */
  int32_t n_items;
  int32_t *free_slots; /* [max_seqs]; the first max_seqs - n_running are free */
  yk_scheduler_counts counts;
};

yk_status yk_scheduler_create(const yk_device_limits *limits, const yk_scheduler_rules *rules, yk_kv_blocks *blocks,
                              yk_scheduler **out, yk_err *err)
{
  yk_scheduler *s = calloc(1, sizeof *s);
  if (s) {
    s->running = calloc((size_t)limits->max_seqs, sizeof *s->running);
    s->items = calloc((size_t)limits->max_seqs, sizeof *s->items);
    s->free_slots = calloc((size_t)limits->max_seqs, sizeof *s->free_slots);
  }
  if (!s || !s->running || !s->items || !s->free_slots) {
    yk_scheduler_destroy(s);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a scheduler of %d sequences", limits->max_seqs);
  }
  s->limits = *limits;
  s->rules = *rules;
  s->blocks = blocks;
  s->waiting_end = &s->waiting;
  for (int32_t i = 0; i < limits->max_seqs; i++) s->free_slots[i] = limits->max_seqs - 1 - i;
  *out = s;
  return YK_OK;
}

void yk_scheduler_destroy(yk_scheduler *scheduler)
{
  if (!scheduler) return;
  free(scheduler->running);
  free(scheduler->items);
  free(scheduler->free_slots);
  free(scheduler);
}

void yk_scheduler_add(yk_scheduler *scheduler, yk_sequence *seq)
{
  seq->next = NULL;
  *scheduler->waiting_end = seq;
  scheduler->waiting_end = &seq->next;
  scheduler->n_waiting++;
}

static void add_first(yk_scheduler *s, yk_sequence *seq)
{
  seq->next = s->waiting;
  if (!s->waiting) s->waiting_end = &seq->next;
  s->waiting = seq;
  s->n_waiting++;
}

static yk_sequence *take_first(yk_scheduler *s)
{
  yk_sequence *seq = s->waiting;
  s->waiting = seq->next;
  if (!s->waiting) s->waiting_end = &s->waiting;
  s->n_waiting--;
  return seq;
}

static void enter_running(yk_scheduler *s, yk_sequence *seq)
{
  seq->slot = s->free_slots[s->limits.max_seqs - 1 - s->n_running];
  seq->slot_is_new = true;
  s->running[s->n_running++] = seq;
}

static void leave_running(yk_scheduler *s, int32_t index)
{
  yk_sequence *seq = s->running[index];
  memmove(&s->running[index], &s->running[index + 1], (size_t)(s->n_running - index - 1) * sizeof(yk_sequence *));
  s->n_running--;
  s->free_slots[s->limits.max_seqs - 1 - s->n_running] = seq->slot;
  seq->slot = -1;
}

static bool remove_running(yk_scheduler *s, const yk_sequence *seq)
{
  for (int32_t i = 0; i < s->n_running; i++) {
    if (s->running[i] != seq) continue;
    leave_running(s, i);
    return true;
  }
  return false;
}

static bool remove_waiting(yk_scheduler *s, const yk_sequence *seq)
{
  yk_sequence **link = &s->waiting;
  while (*link && *link != seq) link = &(*link)->next;
  if (!*link) return false;
  *link = seq->next;
  if (!*link) s->waiting_end = link;
  s->n_waiting--;
  return true;
}

static void remove_parked(yk_scheduler *s, const yk_sequence *seq)
{
  yk_sequence **link = &s->parked;
  while (*link && *link != seq) link = &(*link)->next;
  if (*link) *link = seq->next;
}

void yk_scheduler_remove(yk_scheduler *scheduler, yk_sequence *seq)
{
  if (!remove_running(scheduler, seq) && !remove_waiting(scheduler, seq)) remove_parked(scheduler, seq);
  yk_sequence_release(seq, scheduler->blocks);
}

void yk_scheduler_park(yk_scheduler *scheduler, yk_sequence *seq)
{
  if (!remove_running(scheduler, seq)) remove_waiting(scheduler, seq);
  seq->next = scheduler->parked;
  scheduler->parked = seq;
}

void yk_scheduler_unpark(yk_scheduler *scheduler, yk_sequence *seq)
{
  remove_parked(scheduler, seq);
  yk_scheduler_add(scheduler, seq);
}

/* Blocks of a sequence that does not run: of the one parked longest, else of the last waiting one that brought some
 * from an earlier call. None of `wanting`. False when nobody holds any. */
static bool reclaim_idle(yk_scheduler *s, const yk_sequence *wanting)
{
  yk_sequence *victim = NULL;
  for (yk_sequence *seq = s->parked; seq; seq = seq->next)
    if (seq->n_blocks > 0) victim = seq;
  for (yk_sequence *seq = victim ? NULL : s->waiting; seq; seq = seq->next)
    if (seq->n_blocks > 0 && seq != wanting) victim = seq;
  if (!victim) return false;
  yk_sequence_release(victim, s->blocks);
  return true;
}

static void preempt(yk_scheduler *s, int32_t index)
{
  yk_sequence *victim = s->running[index];
  leave_running(s, index);
  yk_sequence_release(victim, s->blocks);
  add_first(s, victim);
  s->counts.preemptions++;
}

static void preempt_youngest(yk_scheduler *s)
{
  preempt(s, s->n_running - 1);
}

static void plan_rows(yk_scheduler *s, yk_sequence *seq, int32_t n_rows, bool enters, int32_t *budget)
{
  s->items[s->n_items++] = (yk_scheduled){seq, n_rows, enters};
  if (s->rules.reuses_prefixes) yk_sequence_publish(seq, s->blocks, seq->n_computed + n_rows);
  *budget -= n_rows;
}

static int32_t rows_within(const yk_sequence *seq, int32_t budget)
{
  return (int32_t)yk_min_i64(seq->n_tokens - seq->n_computed, budget);
}

/* Rows for those already running. Returns whether anyone was preempted. */
static bool plan_running(yk_scheduler *s, int32_t *budget)
{
  bool preempted = false;
  for (int32_t i = 0; i < s->n_running; i++) {
    if (*budget <= 0) break;
    yk_sequence *seq = s->running[i];
    int32_t n_rows = rows_within(seq, *budget);
    while (!yk_sequence_reserve(seq, s->blocks, seq->n_computed + n_rows)) {
      if (reclaim_idle(s, seq)) continue;
      preempt_youngest(s); /* never one already planned: those stand before seq */
      preempted = true;
      if (i >= s->n_running) return true; /* it was the youngest itself */
    }
    plan_rows(s, seq, n_rows, false, budget);
  }
  return preempted;
}

/* A waiting sequence enters only if all it now holds would fit and every running one could still grow by a block: a
 * half computed prompt that must be thrown away again helps nobody. Alone, it always fits. */
static bool make_room(yk_scheduler *s, yk_sequence *seq)
{
  int32_t needed = yk_sequence_blocks_for(seq->n_tokens) - seq->n_blocks + s->n_running;
  while (yk_kv_blocks_free_count(s->blocks) < needed)
    if (!reclaim_idle(s, seq)) return false;
  return true;
}

static void admit_waiting(yk_scheduler *s, int32_t *budget)
{
  while (s->waiting && *budget > 0 && s->n_running < s->limits.max_seqs) {
    yk_sequence *seq = s->waiting;
    int32_t reused = 0;
    if (seq->n_blocks == 0 && s->rules.reuses_prefixes) reused = yk_sequence_match(seq, s->blocks);
    if (!make_room(s, seq)) {
      yk_sequence_release(seq, s->blocks);
      return;
    }
    take_first(s);
    enter_running(s, seq);
    s->counts.admitted_tokens += (uint64_t)seq->n_tokens;
    s->counts.reused_tokens += (uint64_t)reused;
    int32_t n_rows = rows_within(seq, *budget);
    yk_sequence_reserve(seq, s->blocks, seq->n_computed + n_rows);
    plan_rows(s, seq, n_rows, true, budget);
  }
}

int32_t yk_scheduler_plan(yk_scheduler *scheduler, const yk_scheduled **items)
{
  int32_t budget = scheduler->limits.max_tokens;
  scheduler->n_items = 0;
  if (!plan_running(scheduler, &budget)) admit_waiting(scheduler, &budget);
  *items = scheduler->items;
  return scheduler->n_items;
}

void yk_scheduler_commit(yk_scheduler *scheduler)
{
  for (int32_t i = 0; i < scheduler->n_items; i++) {
    yk_sequence *seq = scheduler->items[i].seq;
    seq->n_computed += scheduler->items[i].n_rows;
    if (scheduler->rules.window_tokens)
      yk_sequence_leave_behind(seq, scheduler->blocks, scheduler->rules.window_tokens);
  }
}

void yk_scheduler_mark_sound(yk_scheduler *scheduler, yk_sequence *seq, int32_t position)
{
  yk_sequence_mark_sound(seq, scheduler->blocks, position, scheduler->rules.narrowest_window_tokens);
}

/* Give up the blocks of one sequence other than `failed` that reads a withdrawn block; what the sequence has computed
 * on top of that block is withdrawn with it. False where there is none. */
static bool recompute_one(yk_scheduler *s, const yk_sequence *failed)
{
  for (int32_t i = s->n_running - 1; i >= 0; i--) { /* youngest first, so that they wait in their order */
    yk_sequence *seq = s->running[i];
    if (seq == failed || !yk_sequence_reads_withdrawn(seq, s->blocks)) continue;
    yk_sequence_withdraw(seq, s->blocks);
    preempt(s, i);
    return true;
  }
  for (int list = 0; list < 2; list++)
    for (yk_sequence *seq = list ? s->parked : s->waiting; seq; seq = seq->next) {
      if (seq == failed || !yk_sequence_reads_withdrawn(seq, s->blocks)) continue;
      yk_sequence_withdraw(seq, s->blocks);
      yk_sequence_release(seq, s->blocks);
      return true;
    }
  return false;
}

void yk_scheduler_withdraw(yk_scheduler *scheduler, yk_sequence *seq)
{
  yk_sequence_withdraw(seq, scheduler->blocks);
  while (recompute_one(scheduler, seq)) {
  }
}

int32_t yk_scheduler_n_waiting(const yk_scheduler *scheduler)
{
  return scheduler->n_waiting;
}

int32_t yk_scheduler_n_running(const yk_scheduler *scheduler)
{
  return scheduler->n_running;
}

yk_scheduler_counts yk_scheduler_count(const yk_scheduler *scheduler)
{
  return scheduler->counts;
}

yk_sequence *yk_scheduler_any(const yk_scheduler *scheduler)
{
  return scheduler->n_running ? scheduler->running[0] : scheduler->waiting;
}

void yk_scheduler_for_each(const yk_scheduler *scheduler, void (*visit)(void *context, yk_sequence *seq), void *context)
{
  for (int32_t i = 0; i < scheduler->n_running; i++) visit(context, scheduler->running[i]);
  for (yk_sequence *seq = scheduler->waiting; seq; seq = seq->next) visit(context, seq);
}
