/* rank_group.h - N worker threads, one per rank, that all run the same commands in lockstep.
 *
 * Handoff: one mutex, two condition variables and a generation counter. begin() publishes a command under the mutex,
 * increments the generation and signals cv_start; each worker waits for a generation it has not seen, runs the command
 * outside the lock, and counts itself done; the last one signals cv_done, for which wait() waits. A command is
 * immutable from the moment it is published until wait() returns, so workers read it without the lock. A thread spins
 * for spin_s seconds before it sleeps: a sleeper wakes some 100 us late, which is much in a step of 3 ms.
 *
 * Failure: the first rank to fail records its error and, from its thread, on_failure is called once and every end of
 * the communicator aborted, so that the others' pending communication fails too. Each failed rank then settles its
 * device: the rank counts as returned once nothing that it began still runs. wait() returns when all ranks have, with
 * the first error. A rank that does not return in time is named; the waiting thread does for it what a failing rank
 * does. After any failure the group is broken: the ranks no longer agree on what has happened, so no further command
 * runs, and wait() gives the failure. */
#ifndef YK_PARALLEL_RANK_GROUP_H
#define YK_PARALLEL_RANK_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "parallel/comm.h"

typedef struct yk_rank_group yk_rank_group;

typedef struct yk_rank_group_ops {
  int first_rank; /* number of the group's first rank, in calls and messages */
  /* Runs command on rank, on the rank's own thread. Sets err on failure; err->rank where that is another's. */
  yk_status (*run)(void *context, int rank, const void *command, yk_err *err);
  /* Must make every rank's run return soon, together with the abort of all ends, which follows. Called once, from any
   * thread, without locks held. May be NULL. */
  void (*on_failure)(void *context);
  /* Writes what a rank is at, such as "layer 3, attention on GPU 1", or "". From any thread, while run runs. May be
   * NULL. */
  void (*describe)(void *context, int rank, char *text, size_t n_bytes);
  /* How far a rank is in its command, more being further: of ranks that wait for each other the one that is furthest
   * behind holds the others up. From any thread, while run runs. May be NULL. */
  int (*progress)(void *context, int rank);
  void *context;
  yk_comm *const *comms; /* [n_ranks] the ranks' ends, not owned, the array copied; NULL: ranks do not communicate */
  /* Seconds that a thread spins before it sleeps; 0 where the ranks' work needs the processors that it would occupy. */
  double spin_s;
} yk_rank_group_ops;

/* yk_rank_group_create - start n_ranks threads that wait, of ranks ops->first_rank and following. Errors: YK_E_INVAL
 *   (number of ranks), YK_E_NOMEM, YK_E_DEVICE when a thread cannot start (none is left running then). */
yk_status yk_rank_group_create(int n_ranks, const yk_rank_group_ops *ops, yk_rank_group **out, yk_err *err);

/* yk_rank_group_begin - let all ranks run a command, which must stay as it is until yk_rank_group_wait has returned:
 *   that call must follow, and tells of every error. Thread: one at a time. */
void yk_rank_group_begin(yk_rank_group *group, const void *command);

/* yk_rank_group_wait - wait for all ranks to have run the command.
 *   timeout_s: how long a rank may take from now on; <= 0 waits for ever. Errors: the first rank's own, naming it;
 *   YK_E_TIMEOUT naming the ranks that have not returned and what each is at (err->rank: the one that is furthest
 *   behind, else the first); the earlier error when the group is broken. Thread: one at a time. */
yk_status yk_rank_group_wait(yk_rank_group *group, double timeout_s, yk_err *err);

/* yk_rank_group_run - begin and wait. */
yk_status yk_rank_group_run(yk_rank_group *group, const void *command, double timeout_s, yk_err *err);

/* yk_rank_group_destroy - stop and join the threads. A rank that still has not returned from a timed-out command gets
 *   grace_s more; after that false is returned and group, context and everything a rank may touch must be left alone
 *   for the life of the process. NULL is allowed. */
bool yk_rank_group_destroy(yk_rank_group *group, double grace_s);

#endif
