#include "engine/loop/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct yk_scheduler {
  yk_device_limits limits;
  yk_memory_pool *pool; /* not owned */
  yk_sequence *waiting; /* linked by next, oldest first */
  yk_sequence **waiting_end;
  int32_t n_waiting;
  int64_t waiting_tokens; /* sum of listed_tokens over the waiting sequences */
  yk_sequence **running;  /* [max_seqs], oldest first */
  int32_t n_running;
  yk_scheduled *items; /* [max_seqs] the planned step */
  int32_t n_items;
  int32_t *free_slots; /* [max_seqs]; the first max_seqs - n_running are free */
  yk_scheduler_counts counts;
};

yk_status yk_scheduler_create(const yk_device_limits *limits, yk_memory_pool *pool, yk_scheduler **out, yk_err *err)
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
  s->pool = pool;
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

static void count_waiting(yk_scheduler *s, yk_sequence *seq)
{
  seq->listed_tokens = seq->n_tokens;
  s->waiting_tokens += seq->listed_tokens;
  s->n_waiting++;
}

static void discount_waiting(yk_scheduler *s, const yk_sequence *seq)
{
  s->waiting_tokens -= seq->listed_tokens;
  s->n_waiting--;
}

void yk_scheduler_add(yk_scheduler *scheduler, yk_sequence *seq)
{
  seq->next = NULL;
  *scheduler->waiting_end = seq;
  scheduler->waiting_end = &seq->next;
  count_waiting(scheduler, seq);
}

static void add_first(yk_scheduler *s, yk_sequence *seq)
{
  seq->next = s->waiting;
  if (!s->waiting) s->waiting_end = &seq->next;
  s->waiting = seq;
  count_waiting(s, seq);
}

static yk_sequence *take_first(yk_scheduler *s)
{
  yk_sequence *seq = s->waiting;
  s->waiting = seq->next;
  if (!s->waiting) s->waiting_end = &s->waiting;
  discount_waiting(s, seq);
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
  discount_waiting(s, seq);
  return true;
}

void yk_scheduler_remove(yk_scheduler *scheduler, yk_sequence *seq)
{
  if (!remove_running(scheduler, seq) && !remove_waiting(scheduler, seq))
    yk_sequence_memory_unpark(&seq->memory, scheduler->pool);
  yk_sequence_memory_release(&seq->memory, scheduler->pool);
}

void yk_scheduler_park(yk_scheduler *scheduler, yk_sequence *seq)
{
  if (!remove_running(scheduler, seq)) remove_waiting(scheduler, seq);
  yk_sequence_memory_park(&seq->memory, scheduler->pool);
}

void yk_scheduler_unpark(yk_scheduler *scheduler, yk_sequence *seq)
{
  yk_sequence_memory_unpark(&seq->memory, scheduler->pool);
  yk_scheduler_add(scheduler, seq);
}

/* Release the memory of a sequence that does not run: the sequence parked longest, else the last waiting sequence with
 * memory from an earlier call. Never that of `wanting`. False if there is no such memory. */
static bool reclaim_idle(yk_scheduler *s, const yk_sequence *wanting)
{
  yk_sequence *victim = NULL;
  if (yk_memory_pool_reclaim(s->pool)) return true;
  for (yk_sequence *seq = s->waiting; seq; seq = seq->next)
    if (!yk_sequence_memory_is_empty(&seq->memory) && seq != wanting) victim = seq;
  if (!victim) return false;
  yk_sequence_memory_release(&victim->memory, s->pool);
  return true;
}

static void preempt(yk_scheduler *s, int32_t index)
{
  yk_sequence *victim = s->running[index];
  leave_running(s, index);
  yk_sequence_memory_release(&victim->memory, s->pool);
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
  yk_sequence_memory_plan(&seq->memory, s->pool, seq->tokens, n_rows);
  *budget -= n_rows;
}

static int32_t rows_within(const yk_sequence *seq, int32_t budget)
{
  return (int32_t)yk_min_i64(seq->n_tokens - seq->memory.n_computed, budget);
}

/* Plan rows for the running sequences. Returns whether a sequence was preempted. */
static bool plan_running(yk_scheduler *s, int32_t *budget)
{
  bool preempted = false;
  for (int32_t i = 0; i < s->n_running; i++) {
    if (*budget <= 0) break;
    yk_sequence *seq = s->running[i];
    int32_t n_rows = rows_within(seq, *budget);
    while (!yk_sequence_memory_reserve(&seq->memory, s->pool, seq->memory.n_computed + n_rows)) {
      if (reclaim_idle(s, seq)) continue;
      preempt_youngest(s); /* never one already planned: those precede seq */
      preempted = true;
      if (i >= s->n_running) return true; /* seq itself was the youngest */
    }
    plan_rows(s, seq, n_rows, false, budget);
  }
  return preempted;
}

/* A waiting sequence is admitted only if all its tokens would fit and every running sequence could still grow by a
 * block: computing half a prompt and then discarding the rows wastes work. A sequence alone always fits. */
static bool free_blocks_for(yk_scheduler *s, yk_sequence *seq)
{
  while (!yk_memory_pool_fits(s->pool, &seq->memory, seq->n_tokens, s->n_running))
    if (!reclaim_idle(s, seq)) return false;
  return true;
}

static void admit_waiting(yk_scheduler *s, int32_t *budget)
{
  while (s->waiting && *budget > 0 && s->n_running < s->limits.max_seqs) {
    yk_sequence *seq = s->waiting;
    int32_t reused = 0;
    if (yk_sequence_memory_is_empty(&seq->memory)) reused = yk_sequence_reuse(seq, s->pool);
    if (!free_blocks_for(s, seq)) {
      yk_sequence_memory_release(&seq->memory, s->pool);
      return;
    }
    take_first(s);
    enter_running(s, seq);
    s->counts.admitted_tokens += (uint64_t)seq->n_tokens;
    s->counts.reused_tokens += (uint64_t)reused;
    int32_t n_rows = rows_within(seq, *budget);
    yk_sequence_memory_reserve(&seq->memory, s->pool, seq->memory.n_computed + n_rows);
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
    const yk_scheduled *item = &scheduler->items[i];
    yk_sequence_memory_commit(&item->seq->memory, scheduler->pool, item->n_rows);
  }
}

void yk_scheduler_mark_sound(yk_scheduler *scheduler, yk_sequence *seq, int32_t position)
{
  yk_sequence_memory_mark_sound(&seq->memory, scheduler->pool, position);
}

static bool must_recompute(const yk_scheduler *s, const yk_sequence *seq, const yk_sequence *failed)
{
  return seq != failed && yk_sequence_memory_reads_withdrawn(&seq->memory, s->pool);
}

/* Release the memory of one sequence other than `failed` that holds a withdrawn block, and withdraw the sequence's
 * later blocks, which were computed from that block. False if there is none. */
static bool recompute_one(yk_scheduler *s, const yk_sequence *failed)
{
  for (int32_t i = s->n_running - 1; i >= 0; i--) { /* youngest first, so that the sequences wait in their order */
    yk_sequence *seq = s->running[i];
    if (!must_recompute(s, seq, failed)) continue;
    yk_sequence_memory_withdraw(&seq->memory, s->pool);
    preempt(s, i);
    return true;
  }
  for (yk_sequence *seq = s->waiting; seq; seq = seq->next) {
    if (!must_recompute(s, seq, failed)) continue;
    yk_sequence_memory_withdraw(&seq->memory, s->pool);
    yk_sequence_memory_release(&seq->memory, s->pool);
    return true;
  }
  return yk_memory_pool_drop_withdrawn(s->pool);
}

void yk_scheduler_withdraw(yk_scheduler *scheduler, yk_sequence *seq)
{
  yk_sequence_memory_withdraw(&seq->memory, scheduler->pool);
  while (recompute_one(scheduler, seq)) {
  }
}

int32_t yk_scheduler_n_waiting(const yk_scheduler *scheduler)
{
  return scheduler->n_waiting;
}

int64_t yk_scheduler_waiting_tokens(const yk_scheduler *scheduler)
{
  int64_t n = scheduler->waiting_tokens;
  for (int32_t i = 0; i < scheduler->n_running; i++) {
    const yk_sequence *seq = scheduler->running[i];
    n += yk_max_i64((int64_t)seq->n_prompt - seq->memory.n_computed, 0);
  }
  return n;
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
