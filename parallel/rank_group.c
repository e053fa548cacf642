#include "parallel/rank_group.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

typedef struct worker {
  yk_rank_group *group;
  int index; /* among the group's ranks */
  pthread_t thread;
  bool started;
  uint64_t n_run; /* commands that the rank has run, or left out because the group is broken; under mutex */
} worker;

/* Owner: its creator. All members below mutex are written under it; the two atomics are also read without it. */
struct yk_rank_group {
  yk_rank_group_ops ops;
  int n_ranks;
  yk_comm *comms[YK_MAX_RANKS]; /* NULL if ranks do not communicate */
  worker workers[YK_MAX_RANKS];
  pthread_mutex_t mutex;
  pthread_cond_t cv_start;                      /* n_begun grew, or stopping */
  pthread_cond_t cv_done;                       /* n_finished grew */
  _Atomic uint64_t n_begun, n_finished;         /* commands; finished: by all ranks. Each rank runs them in order */
  const void *commands[YK_RANK_GROUP_COMMANDS]; /* command n at n % YK_RANK_GROUP_COMMANDS, like n_left */
  int n_left[YK_RANK_GROUP_COMMANDS];           /* ranks that have not finished the command */
  bool stopping;
  bool failure_signalled;
  uint64_t n_runnable; /* of a broken group: later commands are not run */
  bool has_stalled;    /* a rank exceeded its time limit: only destroy waits for it again */
  yk_err error;        /* first error of any rank; code YK_OK while the group is whole */
};

/* The rank number in calls and messages. */
static int number_of(const yk_rank_group *group, int index)
{
  return group->ops.first_rank + index;
}

/* Records an error if it is the first; commands up to number n_runnable still run, and end soon. Returns whether the
 * caller must call signal_failure (without the lock). */
static bool record_failure(yk_rank_group *group, const yk_err *error, uint64_t n_runnable)
{
  if (group->error.code == YK_OK) {
    group->error = *error;
    group->n_runnable = n_runnable;
  }
  bool first = !group->failure_signalled;
  group->failure_signalled = true;
  return first;
}

/* error: the recorded error. */
static void signal_failure(yk_rank_group *group, const yk_err *error)
{
  if (group->ops.on_failure) group->ops.on_failure(group->ops.context, error);
  for (int rank = 0; rank < group->n_ranks; rank++)
    if (group->comms[rank]) group->comms[rank]->ops->abort(group->comms[rank]);
}

/* Waits, on the thread of a failed rank, until its device is idle. */
static void settle(const yk_comm *comm)
{
  if (comm && comm->dev->ops->settle) comm->dev->ops->settle(comm->dev);
}

static void run_command(worker *self, const void *command)
{
  yk_rank_group *group = self->group;
  yk_err err = YK_ERR_INIT;
  int rank = number_of(group, self->index);
  yk_status status = group->ops.run(group->ops.context, rank, command, &err);
  bool must_signal = false;
  if (status != YK_OK) {
    yk_err_set(&err, status, "rank %d failed: %s", rank, yk_status_name(status));
    if (err.rank < 0) err.rank = rank; /* otherwise the error names another rank, which is missing */
    pthread_mutex_lock(&group->mutex);
    must_signal = record_failure(group, &err, self->n_run + 1);
    pthread_mutex_unlock(&group->mutex);
  }
  if (must_signal) signal_failure(group, &err);
  if (status != YK_OK) settle(group->comms[self->index]);
}

/* Under the mutex: the rank has run its next command, or left it out. */
static void finish_command(worker *self)
{
  yk_rank_group *group = self->group;
  int *n_left = &group->n_left[self->n_run++ % YK_RANK_GROUP_COMMANDS];
  if (--*n_left > 0) return;
  group->n_finished = self->n_run;
  pthread_cond_signal(&group->cv_done);
}

/* Spins, for ops.spin_s at most, until a counter of commands reaches n. */
static void look_for(const yk_rank_group *group, const _Atomic uint64_t *counter, uint64_t n)
{
  int64_t start_ns = yk_clock_now_ns();
  while (atomic_load(counter) < n && yk_clock_seconds_since(start_ns) < group->ops.spin_s) continue;
}

static void *worker_main(void *argument)
{
  worker *self = argument;
  yk_rank_group *group = self->group;
  uint64_t n_run = 0;
  pthread_mutex_lock(&group->mutex);
  for (;; n_run++) {
    pthread_mutex_unlock(&group->mutex);
    look_for(group, &group->n_begun, n_run + 1);
    pthread_mutex_lock(&group->mutex);
    while (group->n_begun == n_run && !group->stopping) pthread_cond_wait(&group->cv_start, &group->mutex);
    if (group->n_begun == n_run) break;
    const void *command = group->commands[n_run % YK_RANK_GROUP_COMMANDS];
    bool is_left_out = group->error.code != YK_OK && n_run >= group->n_runnable;
    pthread_mutex_unlock(&group->mutex);
    if (!is_left_out) run_command(self, command);
    pthread_mutex_lock(&group->mutex);
    finish_command(self);
  }
  pthread_mutex_unlock(&group->mutex);
  return NULL;
}

/* Under the mutex: whether command number n is over on every rank; on a broken group, whether every command is. */
static bool is_over(const yk_rank_group *group, uint64_t n)
{
  return group->n_finished >= (group->error.code == YK_OK ? n : group->n_begun);
}

/* Waits under the mutex until that is so. Returns false if the time limit passed first. */
static bool wait_for(yk_rank_group *group, uint64_t n, double timeout_s)
{
  if (timeout_s <= 0) {
    while (!is_over(group, n)) pthread_cond_wait(&group->cv_done, &group->mutex);
    return true;
  }
  struct timespec deadline = yk_wait_deadline(timeout_s);
  while (!is_over(group, n))
    if (pthread_cond_timedwait(&group->cv_done, &group->mutex, &deadline) == ETIMEDOUT) return is_over(group, n);
  return true;
}

/* Under the mutex: returns the rank that is further behind than all others, in an earlier command or with less progress
 * in the same one, or -1. */
static int furthest_behind(const yk_rank_group *group)
{
  int last = -1, least = INT_MAX;
  uint64_t fewest = UINT64_MAX;
  for (int i = 0; i < group->n_ranks && group->ops.progress; i++)
    if (group->workers[i].n_run < fewest) fewest = group->workers[i].n_run;
  for (int i = 0; i < group->n_ranks && group->ops.progress; i++) {
    if (group->workers[i].n_run > fewest) continue;
    int progress = group->ops.progress(group->ops.context, number_of(group, i));
    if (progress <= least) last = progress < least ? number_of(group, i) : -1;
    if (progress < least) least = progress;
  }
  return last;
}

/* Under the mutex: returns an error that names every rank that has not run command number n, and its operation. */
static yk_err stall_error(const yk_rank_group *group, uint64_t n, double timeout_s)
{
  char ranks[4 * YK_MAX_RANKS] = "", places[YK_ERR_MESSAGE_BYTES] = "", culprit[48] = "";
  int first = -1, n_busy = 0, behind = furthest_behind(group);
  for (int i = 0; i < group->n_ranks; i++) {
    if (group->workers[i].n_run >= n) continue;
    int rank = number_of(group, i);
    char place[64] = "";
    size_t used = strlen(ranks);
    snprintf(ranks + used, sizeof ranks - used, "%s%d", first < 0 ? "" : ", ", rank);
    if (first < 0) first = rank;
    n_busy++;
    if (group->ops.describe) group->ops.describe(group->ops.context, rank, place, sizeof place);
    used = strlen(places);
    if (place[0]) snprintf(places + used, sizeof places - used, "; rank %d is at %s", rank, place);
  }
  yk_err error = YK_ERR_INIT;
  if (n_busy > 1 && behind >= 0) snprintf(culprit, sizeof culprit, "; rank %d is furthest behind", behind);
  yk_err_set(&error, YK_E_TIMEOUT, "rank %s did not finish a step within %g s%s%s", ranks, timeout_s, culprit, places);
  error.rank = behind >= 0 ? behind : first;
  return error;
}

uint64_t yk_rank_group_begin(yk_rank_group *group, const void *command)
{
  pthread_mutex_lock(&group->mutex);
  if (group->error.code == YK_OK) {
    uint64_t place = group->n_begun % YK_RANK_GROUP_COMMANDS;
    group->commands[place] = command;
    group->n_left[place] = group->n_ranks;
    group->n_begun++;
    pthread_cond_broadcast(&group->cv_start);
  }
  uint64_t n = group->n_begun;
  pthread_mutex_unlock(&group->mutex);
  return n;
}

/* Called under the mutex, which it releases meanwhile: handles a rank that has not returned in time. */
static void give_up(yk_rank_group *group, uint64_t n, double timeout_s)
{
  const double release_s = 2; /* time for released ranks to return before the group stops waiting for them */
  yk_err stalled = stall_error(group, n, timeout_s);
  group->has_stalled = true;
  bool must_signal = record_failure(group, &stalled, group->n_begun);
  pthread_mutex_unlock(&group->mutex);
  if (must_signal) signal_failure(group, &stalled);
  pthread_mutex_lock(&group->mutex);
  wait_for(group, n, release_s);
}

yk_status yk_rank_group_wait(yk_rank_group *group, uint64_t n, double timeout_s, yk_err *err)
{
  look_for(group, &group->n_finished, n);
  pthread_mutex_lock(&group->mutex);
  if (!group->has_stalled && !wait_for(group, n, timeout_s)) give_up(group, n, timeout_s);
  yk_err error = group->error;
  pthread_mutex_unlock(&group->mutex);
  if (error.code != YK_OK && err && err->code == YK_OK) *err = error;
  return error.code;
}

yk_status yk_rank_group_run(yk_rank_group *group, const void *command, double timeout_s, yk_err *err)
{
  return yk_rank_group_wait(group, yk_rank_group_begin(group, command), timeout_s, err);
}

void yk_rank_group_fail(yk_rank_group *group, const yk_err *error)
{
  pthread_mutex_lock(&group->mutex);
  bool must_signal = record_failure(group, error, group->n_begun);
  pthread_mutex_unlock(&group->mutex);
  if (must_signal) signal_failure(group, error);
}

static void destroy_primitives(yk_rank_group *group)
{
  pthread_cond_destroy(&group->cv_start);
  pthread_cond_destroy(&group->cv_done);
  pthread_mutex_destroy(&group->mutex);
}

bool yk_rank_group_destroy(yk_rank_group *group, double grace_s)
{
  if (!group) return true;
  pthread_mutex_lock(&group->mutex);
  bool idle = wait_for(group, group->n_begun, grace_s > 0 ? grace_s : 0.001);
  if (idle) {
    group->stopping = true;
    pthread_cond_broadcast(&group->cv_start);
  }
  pthread_mutex_unlock(&group->mutex);
  if (!idle) return false; /* its thread may still access the group: leaked on purpose */
  for (int rank = 0; rank < group->n_ranks; rank++)
    if (group->workers[rank].started) pthread_join(group->workers[rank].thread, NULL);
  destroy_primitives(group);
  free(group);
  return true;
}

yk_status yk_rank_group_create(int n_ranks, const yk_rank_group_ops *ops, yk_rank_group **out, yk_err *err)
{
  if (n_ranks < 1 || n_ranks > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "number of ranks: expected 1 to %d, found %d", YK_MAX_RANKS, n_ranks);
  yk_rank_group *group = calloc(1, sizeof *group);
  if (!group) return yk_err_set(err, YK_E_NOMEM, "no memory for a rank group");
  group->ops = *ops;
  group->n_ranks = n_ranks;
  for (int rank = 0; rank < n_ranks && ops->comms; rank++) group->comms[rank] = ops->comms[rank];
  group->error = YK_ERR_INIT;
  pthread_mutex_init(&group->mutex, NULL);
  yk_cond_init(&group->cv_start);
  yk_cond_init(&group->cv_done);
  for (int rank = 0; rank < n_ranks; rank++) {
    worker *w = &group->workers[rank];
    *w = (worker){.group = group, .index = rank};
    int failed = pthread_create(&w->thread, NULL, worker_main, w);
    if (failed) {
      yk_err_set(err, YK_E_DEVICE, "cannot start the thread of rank %d: %s", number_of(group, rank), strerror(failed));
      yk_rank_group_destroy(group, 0);
      return YK_E_DEVICE;
    }
    w->started = true;
  }
  *out = group;
  return YK_OK;
}
