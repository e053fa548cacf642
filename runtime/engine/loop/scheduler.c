#include "engine/loop/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

typedef struct planned_step {
  yk_scheduled *items; /* [max_seqs] */
  int32_t n_items;
  bool has_paced; /* one item is a part of a long prompt, as long as the pace permits */
} planned_step;

struct yk_scheduler {
  yk_device_limits limits;
  int depth;
  int32_t long_rows; /* see yk_scheduler_limit_long_prompts; if paced, a prompt with more rows to compute is long */
  bool is_paced;     /* see yk_scheduler_pace_long_prompts */
  yk_prompt_pace pace;
  bool waits_for_rows;  /* a sequence may wait for a step with more space: every step has enough for the oldest one */
  yk_memory_pool *pool; /* not owned */
  yk_sequence *waiting; /* linked by next, oldest first */
  yk_sequence **waiting_end;
  int32_t n_waiting;
  int64_t waiting_tokens; /* sum of listed_tokens over the waiting sequences */
  yk_sequence **running;  /* [max_seqs], oldest first */
  int32_t n_running;
  planned_step *steps;             /* [depth] step number n at n % depth */
  uint64_t n_planned, n_committed; /* steps; those between are in flight */
  yk_scheduler_counts counts;
};

static bool allocate_steps(yk_scheduler *s, size_t max_seqs)
{
  s->steps = calloc((size_t)s->depth, sizeof *s->steps);
  bool has_all = s->steps;
  for (int i = 0; has_all && i < s->depth; i++) {
    s->steps[i].items = calloc(max_seqs, sizeof *s->steps[i].items);
    has_all = s->steps[i].items;
  }
  return has_all;
}

yk_status yk_scheduler_create(const yk_device_limits *limits, int depth, yk_memory_pool *pool, yk_scheduler **out,
                              yk_err *err)
{
  yk_scheduler *s = calloc(1, sizeof *s);
  size_t max_seqs = (size_t)limits->max_seqs;
  if (s) {
    s->depth = depth;
    s->running = calloc(max_seqs, sizeof *s->running);
  }
  if (!s || !s->running || !allocate_steps(s, max_seqs)) {
    yk_scheduler_destroy(s);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a scheduler of %d sequences", limits->max_seqs);
  }
  s->limits = *limits;
  s->long_rows = limits->max_tokens;
  s->waits_for_rows = limits->max_tokens >= limits->max_seqs - 1 + YK_STATE_STEP_ROWS;
  s->pool = pool;
  s->waiting_end = &s->waiting;
  *out = s;
  return YK_OK;
}

void yk_scheduler_destroy(yk_scheduler *scheduler)
{
  if (!scheduler) return;
  free(scheduler->running);
  for (int i = 0; scheduler->steps && i < scheduler->depth; i++) free(scheduler->steps[i].items);
  free(scheduler->steps);
  free(scheduler);
}

void yk_scheduler_limit_long_prompts(yk_scheduler *scheduler, int32_t n_rows)
{
  scheduler->long_rows = n_rows;
  scheduler->is_paced = false;
}

void yk_scheduler_pace_long_prompts(yk_scheduler *scheduler, int32_t fewest_rows)
{
  scheduler->long_rows = YK_PACE_MOST_ROWS;
  scheduler->is_paced = true;
  yk_prompt_pace_init(&scheduler->pace, fewest_rows);
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
  seq->is_paced = false;
  seq->next = NULL;
  *scheduler->waiting_end = seq;
  scheduler->waiting_end = &seq->next;
  count_waiting(scheduler, seq);
}

static void add_first(yk_scheduler *s, yk_sequence *seq)
{
  seq->is_paced = false;
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
  yk_sequence_memory_enter(&seq->memory, s->pool, seq->n_tokens);
  seq->slot = seq->memory.slot;
  seq->slot_is_new = true;
  s->running[s->n_running++] = seq;
}

static void leave_running(yk_scheduler *s, int32_t index)
{
  yk_sequence *seq = s->running[index];
  memmove(&s->running[index], &s->running[index + 1], (size_t)(s->n_running - index - 1) * sizeof(yk_sequence *));
  s->n_running--;
  yk_sequence_memory_leave(&seq->memory, s->pool);
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
 * memory from an earlier call. Never releases the memory of `wanting`. False if there is no such memory. */
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

/* Preempt the youngest running sequence. False: it is in flight, so that its blocks are free only after its step. The
 * sequence that needs a block then waits for that step rather than take the blocks of an older one. */
static bool preempt_youngest(yk_scheduler *s)
{
  if (s->running[s->n_running - 1]->is_in_flight) return false;
  preempt(s, s->n_running - 1);
  return true;
}

/* The step being planned, and the remaining budget of rows and memory. */
typedef struct budget {
  planned_step *step;
  int32_t n_rows, n_seqs;
  int32_t most_of_long; /* of a long prompt's rows */
} budget;

static int32_t rows_left(const yk_sequence *seq)
{
  return seq->n_tokens - seq->memory.n_computed;
}

/* A paced prompt stays long to its end. */
static bool is_long_prompt(const yk_scheduler *s, const yk_sequence *seq)
{
  return rows_left(seq) > (seq->is_paced ? s->pace.n_rows : s->long_rows);
}

static bool has_decodes(const yk_scheduler *s)
{
  for (int32_t i = 0; i < s->n_running; i++)
    if (!s->running[i]->is_in_flight && rows_left(s->running[i]) == 1) return true;
  return false;
}

/* Running or waiting; 2 stands for more. */
static int32_t count_long_prompts(const yk_scheduler *s)
{
  int32_t n = 0;
  for (int32_t i = 0; i < s->n_running && n < 2; i++) n += is_long_prompt(s, s->running[i]);
  for (const yk_sequence *seq = s->waiting; seq && n < 2; seq = seq->next) n += is_long_prompt(s, seq);
  return n;
}

static int32_t most_of_long(yk_scheduler *s)
{
  const bool has_limit = s->is_paced || s->long_rows < s->limits.max_tokens;
  if (!has_limit || !has_decodes(s) || count_long_prompts(s) != 1) return INT32_MAX;
  return s->is_paced ? yk_prompt_pace_next(&s->pace) : s->long_rows;
}

static bool is_full(const budget *left)
{
  return left->n_rows <= 0 || left->n_seqs <= 0;
}

static void plan_rows(yk_scheduler *s, yk_sequence *seq, int32_t n_rows, bool enters, budget *left)
{
  if (s->is_paced && left->most_of_long < INT32_MAX && is_long_prompt(s, seq))
    seq->is_paced = left->step->has_paced = true;
  left->step->items[left->step->n_items++] = (yk_scheduled){seq, n_rows, enters};
  yk_sequence_memory_plan(&seq->memory, s->pool, seq->tokens, n_rows);
  seq->is_in_flight = true;
  left->n_rows -= n_rows;
  left->n_seqs--;
}

/* 0: the sequence waits for a step with more space. Older sequences leave enough, once each computes a single row. */
static int32_t rows_within(const yk_scheduler *s, const yk_sequence *seq, const budget *left)
{
  const int64_t most = is_long_prompt(s, seq) ? yk_min_i64(left->n_rows, left->most_of_long) : left->n_rows;
  if (most == 0) return 0;
  return yk_sequence_memory_limit_rows(&seq->memory, s->pool, rows_left(seq), (int32_t)most, s->waits_for_rows);
}

/* Reserve blocks for the coming rows of running sequence i. False: there are none; the sequence is preempted, or must
 * wait for a step in flight. *lacked: blocks ran out. */
static bool reserve_rows(yk_scheduler *s, int32_t i, int32_t n_rows, bool *lacked)
{
  yk_sequence *seq = s->running[i];
  while (!yk_sequence_memory_reserve(&seq->memory, s->pool, seq->memory.n_computed + n_rows)) {
    if (reclaim_idle(s, seq)) continue;
    *lacked = true;
    if (!preempt_youngest(s) || i >= s->n_running) return false;
  }
  return true;
}

/* Plan rows for the running sequences. Returns whether blocks ran out. */
static bool plan_running(yk_scheduler *s, budget *left)
{
  bool lacked = false;
  for (int32_t i = 0; i < s->n_running && !is_full(left); i++) {
    yk_sequence *seq = s->running[i];
    if (seq->is_in_flight) continue;
    int32_t n_rows = rows_within(s, seq, left);
    if (n_rows > 0 && reserve_rows(s, i, n_rows, &lacked)) plan_rows(s, seq, n_rows, false, left);
  }
  return lacked;
}

/* A waiting sequence is admitted only if all its tokens would fit and every running sequence could still grow by a
 * block: computing half a prompt and then discarding the rows wastes work. A sequence alone always fits. */
static bool free_blocks_for(yk_scheduler *s, yk_sequence *seq)
{
  while (!yk_memory_pool_fits(s->pool, &seq->memory, seq->n_tokens, s->n_running))
    if (!reclaim_idle(s, seq)) return false;
  return true;
}

static void admit_waiting(yk_scheduler *s, budget *left)
{
  while (s->waiting && !is_full(left) && s->n_running < s->limits.max_seqs) {
    yk_sequence *seq = s->waiting;
    const bool is_empty = yk_sequence_memory_is_empty(&seq->memory);
    const int32_t reused = is_empty ? yk_sequence_reuse(seq, s->pool) : 0;
    if (reused == YK_REUSE_LATER) return;
    const bool has_rows = rows_within(s, seq, left) > 0, has_blocks = has_rows && free_blocks_for(s, seq);
    if (!has_blocks) {
      if (is_empty || has_rows) yk_sequence_memory_release(&seq->memory, s->pool);
      return;
    }
    take_first(s);
    enter_running(s, seq);
    s->counts.admitted_tokens += (uint64_t)seq->n_tokens;
    s->counts.reused_tokens += (uint64_t)reused;
    int32_t n_rows = rows_within(s, seq, left);
    yk_sequence_memory_reserve(&seq->memory, s->pool, seq->memory.n_computed + n_rows);
    plan_rows(s, seq, n_rows, true, left);
  }
}

/* An equal part of the sequences for each step in flight. */
static int32_t seqs_of_step(const yk_scheduler *s)
{
  int64_t n = yk_min_i64((int64_t)s->n_running + s->n_waiting, s->limits.max_seqs);
  return (int32_t)yk_ceil_div_i64(n, s->depth);
}

int32_t yk_scheduler_plan(yk_scheduler *scheduler, const yk_scheduled **items)
{
  planned_step *step = &scheduler->steps[scheduler->n_planned % (uint64_t)scheduler->depth];
  budget left = {.step = step,
                 .n_rows = scheduler->limits.max_tokens,
                 .n_seqs = seqs_of_step(scheduler),
                 .most_of_long = most_of_long(scheduler)};
  step->n_items = 0;
  step->has_paced = false;
  yk_memory_pool_begin_step(scheduler->pool);
  if (!plan_running(scheduler, &left)) admit_waiting(scheduler, &left);
  if (step->n_items > 0) scheduler->n_planned++;
  *items = step->items;
  return step->n_items;
}

void yk_scheduler_time_step(yk_scheduler *scheduler, int64_t ns)
{
  const planned_step *step = &scheduler->steps[scheduler->n_committed % (uint64_t)scheduler->depth];
  int32_t n_prompts = 0;
  for (int32_t i = 0; i < step->n_items; i++) n_prompts += step->items[i].n_rows > 1;
  if (n_prompts == 0) yk_prompt_pace_decoded(&scheduler->pace, ns);
  if (n_prompts == 1 && step->has_paced) yk_prompt_pace_mixed(&scheduler->pace, ns);
}

/* The sequence, which is running, begins again. Its blocks have been withdrawn. */
static void begin_again(yk_scheduler *s, yk_sequence *seq)
{
  int32_t index = 0;
  while (s->running[index] != seq) index++;
  seq->is_void = false;
  preempt(s, index);
}

void yk_scheduler_commit(yk_scheduler *scheduler)
{
  planned_step *step = &scheduler->steps[scheduler->n_committed++ % (uint64_t)scheduler->depth];
  for (int32_t i = 0; i < step->n_items; i++) {
    yk_scheduled *item = &step->items[i];
    item->seq->is_in_flight = false;
    yk_sequence_memory_commit(&item->seq->memory, scheduler->pool, item->n_rows);
  }
  for (int32_t i = step->n_items - 1; i >= 0; i--) { /* youngest first, so that the sequences wait in their order */
    yk_scheduled *item = &step->items[i];
    if (!item->seq->is_void) continue;
    begin_again(scheduler, item->seq);
    item->seq = NULL;
  }
}

void yk_scheduler_drop_steps(yk_scheduler *scheduler)
{
  for (; scheduler->n_committed < scheduler->n_planned; scheduler->n_committed++) {
    const planned_step *step = &scheduler->steps[scheduler->n_committed % (uint64_t)scheduler->depth];
    for (int32_t i = 0; i < step->n_items; i++) step->items[i].seq->is_in_flight = step->items[i].seq->is_void = false;
  }
}

void yk_scheduler_mark_sound(yk_scheduler *scheduler, yk_sequence *seq, int32_t position)
{
  yk_sequence_memory_mark_sound(&seq->memory, scheduler->pool, position);
}

static bool must_recompute(const yk_scheduler *s, const yk_sequence *seq, const yk_sequence *failed)
{
  return seq != failed && !seq->is_void && yk_sequence_memory_reads_withdrawn(&seq->memory, s->pool);
}

/* Release the memory of one sequence other than `failed` that holds a withdrawn block, and withdraw the sequence's
 * later blocks, which were computed from that block. False if there is none. */
static bool recompute_one(yk_scheduler *s, const yk_sequence *failed)
{
  for (int32_t i = s->n_running - 1; i >= 0; i--) { /* youngest first, so that the sequences wait in their order */
    yk_sequence *seq = s->running[i];
    if (!must_recompute(s, seq, failed)) continue;
    yk_sequence_memory_withdraw(&seq->memory, s->pool);
    if (seq->is_in_flight)
      seq->is_void = true;
    else
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
