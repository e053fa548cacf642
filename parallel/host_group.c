#include "parallel/host_group.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "parallel/host_gather.h"

/* generation, n_arrived, published and is_moving under mutex. */
struct yk_host_group {
  int n_ranks, n_local;
  yk_remote *remote; /* host data to and from other processes, or NULL */
  yk_host_gather *gather;
  atomic_bool is_aborted;
  yk_err failure; /* of other processes: written once, before is_aborted; else YK_OK */
  pthread_mutex_t mutex;
  pthread_cond_t cv_passed; /* generation grew, or aborted */
  uint64_t generation;      /* completed barriers */
  int n_arrived;
  bool is_moving; /* the last rank to arrive exchanges published host data with other processes */
  const void *published[YK_MAX_RANKS];
};

/* Exchanges host data with other processes before a barrier ends. */
typedef yk_status move_function(yk_host_group *group, size_t n_bytes, yk_err *err);

yk_status yk_host_group_create(int n_ranks, int n_local, yk_host_group **out, yk_err *err)
{
  yk_host_group *group = calloc(1, sizeof *group);
  if (!group) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  pthread_mutex_init(&group->mutex, NULL);
  yk_cond_init(&group->cv_passed);
  group->failure = YK_ERR_INIT;
  group->n_ranks = n_ranks;
  group->n_local = n_local;
  yk_status status = yk_host_gather_create(n_ranks, &group->gather, err);
  if (status == YK_OK)
    *out = group;
  else
    yk_host_group_destroy(group);
  return status;
}

void yk_host_group_destroy(yk_host_group *group)
{
  if (!group) return;
  yk_host_gather_destroy(group->gather);
  yk_remote_destroy(group->remote);
  pthread_cond_destroy(&group->cv_passed);
  pthread_mutex_destroy(&group->mutex);
  free(group);
}

void yk_host_group_connect(yk_host_group *group, yk_remote *remote)
{
  group->remote = remote;
}

void yk_host_group_abort(yk_host_group *group)
{
  pthread_mutex_lock(&group->mutex);
  atomic_store(&group->is_aborted, true);
  pthread_cond_broadcast(&group->cv_passed);
  pthread_mutex_unlock(&group->mutex);
  yk_host_gather_abort(group->gather);
  if (group->remote) yk_remote_abort(group->remote);
}

bool yk_host_group_is_aborted(const yk_host_group *group, const yk_err **failure)
{
  const bool is_aborted = atomic_load(&group->is_aborted);
  if (is_aborted && failure) *failure = &group->failure;
  return is_aborted;
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */

/* For the last rank to arrive, which holds the mutex. */
static void move_data(yk_host_group *group, move_function *move, size_t n_bytes)
{
  yk_err failure = YK_ERR_INIT;
  group->is_moving = true;
  pthread_mutex_unlock(&group->mutex);
  yk_status status = move(group, n_bytes, &failure);
  pthread_mutex_lock(&group->mutex);
  group->is_moving = false;
  if (status == YK_OK || atomic_load(&group->is_aborted)) return;
  group->failure = failure;
  atomic_store(&group->is_aborted, true);
}

/* Under the mutex. */
static void arrive(yk_host_group *group, move_function *move, size_t n_bytes)
{
  if (atomic_load(&group->is_aborted) || ++group->n_arrived < group->n_local) return;
  group->n_arrived = 0;
  if (group->remote && move) move_data(group, move, n_bytes);
  if (!atomic_load(&group->is_aborted)) group->generation++;
  pthread_cond_broadcast(&group->cv_passed);
}

static yk_status look(const yk_mailbox_watch *watch, yk_err *err)
{
  return watch->check ? watch->check(watch->context, err) : YK_OK;
}

/* Publishes a pointer (NULL: none) and waits for every rank of this process; the last one moves data of n_bytes a rank
 * between the processes (NULL: nothing). No rank returns during the move, which reads the ranks' published data; an
 * abort soon ends the move. */
static yk_status pass_barrier(const yk_host_member *member, const void *pointer, move_function *move, size_t n_bytes,
                              yk_err *err)
{
  const double watch_every_s = 0.02;
  yk_host_group *group = member->group;
  yk_status status = YK_OK;
  pthread_mutex_lock(&group->mutex);
  uint64_t generation = group->generation;
  if (pointer) group->published[member->rank] = pointer;
  arrive(group, move, n_bytes);
  while (group->generation == generation &&
         (group->is_moving || (!atomic_load(&group->is_aborted) && status == YK_OK))) {
    struct timespec deadline = yk_wait_deadline(watch_every_s);
    if (pthread_cond_timedwait(&group->cv_passed, &group->mutex, &deadline) != ETIMEDOUT || status != YK_OK) continue;
    pthread_mutex_unlock(&group->mutex);
    status = look(&member->watch, err);
    pthread_mutex_lock(&group->mutex);
  }
  bool has_passed = group->generation != generation;
  pthread_mutex_unlock(&group->mutex);
  if (has_passed) return YK_OK;
  return status == YK_OK ? YK_E_COMM : status;
}

static yk_status move_nothing(yk_host_group *group, size_t n_bytes, yk_err *err)
{
  (void)n_bytes;
  return yk_remote_barrier(group->remote, err);
}

yk_status yk_host_group_barrier(const yk_host_member *member, yk_err *err)
{
  return pass_barrier(member, NULL, move_nothing, 0, err);
}

/* ---- Host data --------------------------------------------------------------------------------------------------- */

static yk_status move_to_rank_0(yk_host_group *group, size_t n_bytes, yk_err *err)
{
  return yk_remote_gather(group->remote, group->published, n_bytes, (void *)(uintptr_t)group->published[0], err);
}

/* With ranks of other processes: rank 0 publishes the destination of all data. */
static yk_status gather_from_processes(const yk_host_member *member, const void *data, size_t n_bytes, void *all,
                                       yk_err *err)
{
  const yk_host_group *group = member->group;
  const bool is_first = member->rank == 0;
  if (is_first && all != data && n_bytes > 0) memmove(all, data, n_bytes);
  YK_TRY(pass_barrier(member, is_first ? all : data, move_to_rank_0, n_bytes, err));
  for (int rank = 1; is_first && rank < group->n_local && n_bytes > 0; rank++)
    memcpy((char *)all + (size_t)rank * n_bytes, group->published[rank], n_bytes);
  return pass_barrier(member, NULL, NULL, 0, err);
}

yk_status yk_host_group_gather(const yk_host_member *member, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  if (member->group->remote) return gather_from_processes(member, data, n_bytes, all, err);
  return yk_host_gather_run(member->group->gather, member->rank, data, n_bytes, all, &member->watch, err);
}

static yk_status move_to_all(yk_host_group *group, size_t n_bytes, yk_err *err)
{
  yk_moved data = {.n_rows = 1, .row_bytes = n_bytes};
  memcpy(data.bases, group->published, sizeof data.bases);
  YK_TRY(yk_remote_move(group->remote, YK_MOVE_ALL, &data, 1, err));
  memcpy(group->published, data.bases, sizeof data.bases);
  return YK_OK;
}

yk_status yk_host_group_share(const yk_host_member *member, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  const yk_host_group *group = member->group;
  YK_TRY(pass_barrier(member, data, move_to_all, n_bytes, err));
  for (int rank = 0; rank < group->n_ranks; rank++)
    memcpy((char *)all + (size_t)rank * n_bytes, group->published[rank], n_bytes);
  return pass_barrier(member, NULL, NULL, 0, err);
}
