/* scheduler.h - selects the sequences of the next step, and the number of rows of each.
 *
 * First come, first served, with continuous batching: running sequences get their rows first (one when decoding, a
 * chunk while part of the prompt is still to be computed), then waiting sequences are admitted while row budget, slots
 * and KV blocks suffice. If a running sequence finds no free block, the youngest running sequence is preempted: its
 * blocks are freed, and it moves to the front of the waiting list to be computed again. The oldest sequence therefore
 * always makes progress.
 *
 * Several steps in flight have disjoint sets of sequences, of about equal size. A sequence in flight keeps its memory
 * until its step is committed: it is neither preempted nor removed. Steps run in the order of planning on every rank,
 * so a step may read KV blocks that an earlier step in flight writes.
 *
 * An admitted sequence starts from the longest published prefix. Blocks are published when their rows are planned, not
 * when the rows are computed: within a step every layer writes all rows' K and V before any row attends, so a sequence
 * of the same step may already read them. Parked sequences (held by a caller, with nothing to compute) keep their
 * blocks only until another sequence needs them. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SCHEDULER_H
#define YK_ENGINE_LOOP_SCHEDULER_H

#include "engine/loop/prompt_pace.h"
#include "engine/loop/sequence.h"
#include "model/step.h"

/* One sequence's part of a step: its rows memory.n_computed .. memory.n_computed + n_rows - 1. */
typedef struct yk_scheduled {
  yk_sequence *seq; /* NULL after commit: the rows do not count */
  int32_t n_rows;
  bool enters; /* the sequence was waiting until this step */
} yk_scheduled;

/* Counters since creation. */
typedef struct yk_scheduler_counts {
  uint64_t preemptions;
  uint64_t admitted_tokens, reused_tokens; /* tokens of sequences on admission, and those already computed */
} yk_scheduler_counts;

typedef struct yk_scheduler yk_scheduler;

/* yk_scheduler_create - limits: of one step; among max_seqs running sequences at most max_tokens progress in a step.
 *   depth: most steps in flight. pool is not owned and must hold at least one sequence of max_model_tokens.
 *   Errors: YK_E_NOMEM. */
yk_status yk_scheduler_create(const yk_device_limits *limits, int depth, yk_memory_pool *pool, yk_scheduler **out,
                              yk_err *err);
void yk_scheduler_destroy(yk_scheduler *scheduler);

/* yk_scheduler_limit_long_prompts - a sequence that has more than n_rows rows to compute gets n_rows of a step that
 *   also decodes, if it is the only such sequence, running or waiting: several such sequences share the whole step.
 *   n_rows: with recurrent states at least YK_STATE_STEP_ROWS. The default is max_tokens, no limit. */
void yk_scheduler_limit_long_prompts(yk_scheduler *scheduler, int32_t n_rows);

/* yk_scheduler_pace_long_prompts - the same with a number of rows that follows the times of steps (prompt_pace.h), for
 *   a sequence with more than YK_PACE_MOST_ROWS rows to compute, until its last row. fewest_rows: as
 *   yk_prompt_pace_init; with recurrent states at least YK_STATE_STEP_ROWS. */
void yk_scheduler_pace_long_prompts(yk_scheduler *scheduler, int32_t fewest_rows);

/* yk_scheduler_add - queue a sequence (not owned). */
void yk_scheduler_add(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_remove - forget a waiting, running or parked sequence that is not in flight, and release its memory. */
void yk_scheduler_remove(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_park - remove a running, waiting or new sequence from the lists without releasing its memory. The pool
 *   may reclaim the memory, and the rows are then computed again. yk_scheduler_unpark queues the sequence again. */
void yk_scheduler_park(yk_scheduler *scheduler, yk_sequence *seq);
void yk_scheduler_unpark(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_plan - choose the next step, of sequences that are not in flight. *items points to the scheduler's own
 *   array, valid until this step is committed and another one planned. Fewer than depth steps may be in flight.
 *   Returns the number of items; 0 only if no sequence waits or runs, or if those must wait for a step in flight.
 *   Blocks for all rows are reserved. */
int32_t yk_scheduler_plan(yk_scheduler *scheduler, const yk_scheduled **items);

/* yk_scheduler_time_step - the oldest planned step, which is not committed yet, took ns. */
void yk_scheduler_time_step(yk_scheduler *scheduler, int64_t ns);

/* yk_scheduler_commit - the oldest planned step was computed: its rows are in the cache. Call before tokens are
 *   appended. Sequences whose rows must not count (is_void) are preempted, and their items lose the sequence. */
void yk_scheduler_commit(yk_scheduler *scheduler);

/* yk_scheduler_drop_steps - the steps in flight have failed: their rows are not counted as computed. */
void yk_scheduler_drop_steps(yk_scheduler *scheduler);

/* yk_scheduler_mark_sound - the row at this position of a sequence has produced finite logits. */
void yk_scheduler_mark_sound(yk_scheduler *scheduler, yk_sequence *seq, int32_t position);

/* yk_scheduler_withdraw - a row of this sequence has produced non-finite logits: withdraw the sequence's blocks that
 *   are not known to be sound. Other sequences that share such a block are preempted and computed again, those in
 *   flight when their step is committed. The caller must remove the sequence itself, or release its memory. */
void yk_scheduler_withdraw(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_n_waiting - sequences that wait for their first step, or for their next after a preemption. */
int32_t yk_scheduler_n_waiting(const yk_scheduler *scheduler);

/* yk_scheduler_waiting_tokens - tokens still to be computed before every request has its first token: those of waiting
 *   sequences, whose prefix may already be computed, and the remaining tokens of the running prompts. */
int64_t yk_scheduler_waiting_tokens(const yk_scheduler *scheduler);
int32_t yk_scheduler_n_running(const yk_scheduler *scheduler);
yk_scheduler_counts yk_scheduler_count(const yk_scheduler *scheduler);

/* yk_scheduler_any - a sequence still waiting or running, or NULL. */
yk_sequence *yk_scheduler_any(const yk_scheduler *scheduler);

/* yk_scheduler_for_each - call visit for every running, then every waiting sequence; visit must not change the
 *   lists. */
void yk_scheduler_for_each(const yk_scheduler *scheduler, void (*visit)(void *context, yk_sequence *seq),
                           void *context);

#endif
