/* scheduler.h - which sequences run in the next step, and how many rows each brings.
 *
 * First come, first served, with continuous batching: running sequences get their rows first (one when decoding, a
 * chunk when part of the prompt is still to be computed), then waiting ones are admitted while row budget, slots and KV
 * blocks last. When a running sequence finds no block, the youngest running one is preempted: its blocks are freed, and
 * it waits at the front to be computed again. So the oldest always makes progress.
 *
 * A sequence that enters starts from the longest prefix that others have published. Blocks are published when their
 * rows are planned, not when they are done: within a step every layer writes all rows' K and V before any row attends,
 * so a sequence of the same step may already read them. Parked sequences (held by a caller, with nothing to compute)
 * keep their blocks only while nobody needs them. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SCHEDULER_H
#define YK_ENGINE_LOOP_SCHEDULER_H

#include "engine/loop/sequence.h"
#include "model/step.h"

/* One sequence's part of a step: rows memory.n_computed .. memory.n_computed + n_rows - 1 of it. */
typedef struct yk_scheduled {
  yk_sequence *seq;
  int32_t n_rows;
  bool enters; /* it was waiting until this step */
} yk_scheduled;

/* Counters since creation. */
typedef struct yk_scheduler_counts {
  uint64_t preemptions;
  uint64_t admitted_tokens,
      reused_tokens; /* tokens that sequences held on entering, and those found already computed */
} yk_scheduler_counts;

typedef struct yk_scheduler yk_scheduler;

/* yk_scheduler_create - limits: of one step; of max_seqs running sequences at most max_tokens progress in it.
 *   pool is not owned and must hold at least one sequence of max_model_tokens. Errors: YK_E_NOMEM. */
yk_status yk_scheduler_create(const yk_device_limits *limits, yk_memory_pool *pool, yk_scheduler **out, yk_err *err);
void yk_scheduler_destroy(yk_scheduler *scheduler);

/* yk_scheduler_add - queue a sequence (not owned). */
void yk_scheduler_add(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_remove - forget a waiting, running or parked sequence and release its memory. Not between plan and
 *   commit. */
void yk_scheduler_remove(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_park - take a running, a waiting or a new sequence out without releasing its memory; that may be
 *   reclaimed, and its rows then computed again. yk_scheduler_unpark queues it again. */
void yk_scheduler_park(yk_scheduler *scheduler, yk_sequence *seq);
void yk_scheduler_unpark(yk_scheduler *scheduler, yk_sequence *seq);

/* yk_scheduler_plan - choose the next step. *items points to the scheduler's own array, valid until the next plan.
 *   Returns how many items there are; 0 only when nothing waits or runs. Blocks for all rows are reserved. */
int32_t yk_scheduler_plan(yk_scheduler *scheduler, const yk_scheduled **items);

/* yk_scheduler_commit - the planned step was computed: its rows are in the cache. Call before tokens are appended. */
void yk_scheduler_commit(yk_scheduler *scheduler);

/* yk_scheduler_mark_sound - the row at this position of a sequence has given finite logits. */
void yk_scheduler_mark_sound(yk_scheduler *scheduler, yk_sequence *seq, int32_t position);

/* yk_scheduler_withdraw - a row of this sequence has given logits that are not finite: nobody is to read blocks of it
 *   that are not known to be sound. Sequences that share one of those wait to be computed again, each as if preempted;
 *   the sequence itself must be removed, or released, by the caller. Not between plan and commit. */
void yk_scheduler_withdraw(yk_scheduler *scheduler, yk_sequence *seq);

int32_t yk_scheduler_n_waiting(const yk_scheduler *scheduler);
int32_t yk_scheduler_n_running(const yk_scheduler *scheduler);
yk_scheduler_counts yk_scheduler_count(const yk_scheduler *scheduler);

/* yk_scheduler_any - a sequence still waiting or running, or NULL. */
yk_sequence *yk_scheduler_any(const yk_scheduler *scheduler);

/* yk_scheduler_for_each - call visit for every running, then every waiting sequence; visit must not change the
 *   lists. */
void yk_scheduler_for_each(const yk_scheduler *scheduler, void (*visit)(void *context, yk_sequence *seq),
                           void *context);

#endif
