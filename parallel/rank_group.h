/* rank_group.h - N worker threads, one per rank, that all run the same commands in the same order.
 *
 * Handoff: one mutex, two condition variables and a counter of commands. begin() publishes a command under the mutex,
 * increments the counter and signals cv_start; each worker waits for its next command, runs the command outside the
 * lock, and counts itself done; the last one signals cv_done, for which wait() waits. Several commands may be begun
 * before the first is waited for: a rank starts its next command without waiting for the other ranks. A command is
 * immutable from the moment it is published until wait() returns, so workers read it without the lock. A thread spins
 * for spin_s seconds before it sleeps: a sleeping thread wakes some 100 us late, which is significant in a step of 3
 * ms.
 *
 * Failure: the first rank to fail records its error and, from its thread, calls on_failure once and aborts every end of
 * the communicator, so that pending communication of the other ranks fails too. Each failed rank then settles its
 * device: the rank counts as returned once none of its operations still runs. wait() returns when all ranks have
 * returned, with the first error. If a rank does not return in time, the error names that rank, and the waiting thread
 * calls on_failure and aborts the ends in its place. After any failure the group is broken: the ranks' states may
 * differ, so no further command runs, and wait() returns the failure. */
#ifndef YK_PARALLEL_RANK_GROUP_H
#define YK_PARALLEL_RANK_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parallel/comm.h"

typedef struct yk_rank_group yk_rank_group;

enum { YK_RANK_GROUP_COMMANDS = YK_MAX_RANKS + 1 /* a step in each pipeline stage, and one other command */ };

typedef struct yk_rank_group_ops {
  int first_rank; /* number of the group's first rank, in calls and messages */
  /* Runs command on rank, on the rank's own thread. Sets err on failure; sets err->rank if the failure is another
   * rank's. */
  yk_status (*run)(void *context, int rank, const void *command, yk_err *err);
  /* Must make every rank's run return soon, together with the abort of all ends, which follows. error: the first one.
   * Called once, from any thread, without locks held. May be NULL. */
  void (*on_failure)(void *context, const yk_err *error);
  /* Writes the rank's current operation, such as "layer 3, attention on GPU 1", or "". Called from any thread, while
   * run runs. May be NULL. */
  void (*describe)(void *context, int rank, char *text, size_t n_bytes);
  /* Progress of a rank in its command, rising: among ranks that wait for each other, the rank with the least progress
   * delays the others. Called from any thread, while run runs. May be NULL. */
  int (*progress)(void *context, int rank);
  void *context;
  yk_comm *const *comms; /* [n_ranks] the ranks' ends, not owned, the array is copied; NULL: ranks do not communicate */
  /* Seconds that a thread spins before it sleeps; 0 if the ranks' work needs the processors that spinning would
   * occupy. */
  double spin_s;
} yk_rank_group_ops;

/* yk_rank_group_create - starts n_ranks threads that wait for commands, for ranks ops->first_rank and following.
 *   Errors: YK_E_INVAL (number of ranks), YK_E_NOMEM, YK_E_DEVICE if a thread cannot start (no thread is then left
 *   running). */
yk_status yk_rank_group_create(int n_ranks, const yk_rank_group_ops *ops, yk_rank_group **out, yk_err *err);

/* yk_rank_group_begin - starts a command on all ranks, each of which runs it after those begun before. Returns its
 *   number for yk_rank_group_wait, which must follow and reports every error; the command must stay unchanged until
 *   that call has returned. At most YK_RANK_GROUP_COMMANDS may be begun and not finished. Thread: one at a time. */
uint64_t yk_rank_group_begin(yk_rank_group *group, const void *command);

/* yk_rank_group_wait - waits until all ranks have run command number n; after a failure until no rank runs any command.
 *   timeout_s: time limit of a rank from now on; <= 0 waits for ever. Errors: the first rank's own, naming it;
 *   YK_E_TIMEOUT naming the ranks that have not returned and the current operation of each (err->rank: the rank that is
 *   furthest behind, else the first); the first error if the group is broken. Thread: one at a time. */
yk_status yk_rank_group_wait(yk_rank_group *group, uint64_t n, double timeout_s, yk_err *err);

/* yk_rank_group_run - begin and wait. */
yk_status yk_rank_group_run(yk_rank_group *group, const void *command, double timeout_s, yk_err *err);

/* yk_rank_group_fail - a failure outside of the ranks: breaks the group as the failure of a rank does, and ends the
 *   current command. No effect on a broken group. Thread: any, but not one that on_failure waits for. */
void yk_rank_group_fail(yk_rank_group *group, const yk_err *error);

/* yk_rank_group_destroy - stops and joins the threads. A rank that still has not returned from a timed-out command gets
 *   grace_s more; after that the function returns false, and group, context and everything a rank may touch must be
 *   leaked for the life of the process. NULL is allowed. */
bool yk_rank_group_destroy(yk_rank_group *group, double grace_s);

#endif
