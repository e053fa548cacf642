#include "server/workers.h"

#include <string.h>

#include "base/checked.h"
#include "base/clock.h"

static void append(yk_job_queue *queue, yk_job *job)
{
  job->next = NULL;
  *queue->end = job;
  queue->end = &job->next;
}

static void take_out(yk_job_queue *queue, yk_job **at)
{
  yk_job *job = *at;
  *at = job->next;
  if (queue->end == &job->next) queue->end = at;
}

static bool owner_runs(const yk_workers *workers, uint64_t owner)
{
  for (int i = 0; i < YK_WORKERS - 1; i++)
    if (workers->places[i].is_taken && workers->places[i].owner == owner) return true;
  return false;
}

/* The large job that is next; NULL: none may begin. */
static yk_job **next_large(yk_workers *workers)
{
  yk_job **found = NULL;
  for (yk_job **at = &workers->large.first; *at; at = &(*at)->next)
    if ((!found || (*at)->turn < (*found)->turn) && !owner_runs(workers, (*at)->owner)) found = at;
  return found;
}

/* NULL: all threads but one have large jobs. */
static yk_large_place *free_place(yk_workers *workers)
{
  for (int i = 0; i < YK_WORKERS - 1; i++)
    if (!workers->places[i].is_taken) return &workers->places[i];
  return NULL;
}

/* Returns the next job; NULL: none may begin. *place: slot of a large job while it runs. */
static yk_job *take_next(yk_workers *workers, yk_large_place **place)
{
  *place = free_place(workers);
  yk_job *small = workers->small.first, **at = *place ? next_large(workers) : NULL;
  if (at && (!small || (*at)->added_ns <= small->added_ns)) {
    yk_job *large = *at;
    take_out(&workers->large, at);
    workers->turn = large->turn;
    **place = (yk_large_place){.is_taken = true, .owner = large->owner};
    return large;
  }
  *place = NULL;
  if (small) take_out(&workers->small, &workers->small.first);
  return small;
}

static void *work(void *user)
{
  yk_workers *workers = user;
  yk_large_place *place;
  pthread_mutex_lock(&workers->mutex);
  for (;;) {
    yk_job *job = take_next(workers, &place);
    if (!job && workers->stopping && !workers->large.first) break;
    if (!job) {
      pthread_cond_wait(&workers->cv_job, &workers->mutex);
      continue;
    }
    pthread_mutex_unlock(&workers->mutex);
    job->run(job);
    pthread_mutex_lock(&workers->mutex);
    if (!place) continue;
    place->is_taken = false;
    pthread_cond_broadcast(&workers->cv_job);
  }
  pthread_mutex_unlock(&workers->mutex);
  return NULL;
}

yk_status yk_workers_start(yk_workers *workers, yk_err *err)
{
  memset(workers, 0, sizeof *workers);
  workers->small.end = &workers->small.first;
  workers->large.end = &workers->large.first;
  workers->is_started = true;
  pthread_mutex_init(&workers->mutex, NULL);
  pthread_cond_init(&workers->cv_job, NULL);
  while (workers->n_threads < YK_WORKERS) {
    int error = pthread_create(&workers->threads[workers->n_threads], NULL, work, workers);
    if (error) return yk_err_set(err, YK_E_INTERNAL, "cannot start a thread: %s", strerror(error));
    workers->n_threads++;
  }
  return YK_OK;
}

/* Sets the job's turn, after its owner's jobs. Returns the number of the owner's waiting jobs. */
static int set_turn(yk_workers *workers, yk_job *job)
{
  int n = 0;
  job->turn = workers->turn + owner_runs(workers, job->owner);
  for (const yk_job *other = workers->large.first; other; other = other->next) {
    if (other->owner != job->owner) continue;
    n++;
    if (other->turn >= job->turn) job->turn = other->turn + 1;
  }
  return n;
}

bool yk_workers_add(yk_workers *workers, yk_job *job)
{
  pthread_mutex_lock(&workers->mutex);
  bool fits = !job->is_large || set_turn(workers, job) < YK_MAX_LARGE_WAITING;
  job->added_ns = yk_clock_now_ns();
  if (fits) append(job->is_large ? &workers->large : &workers->small, job);
  /* Not every thread may take a large job. */
  if (fits) (job->is_large ? pthread_cond_broadcast : pthread_cond_signal)(&workers->cv_job);
  pthread_mutex_unlock(&workers->mutex);
  return fits;
}

bool yk_workers_remove(yk_workers *workers, yk_job *job)
{
  yk_job_queue *queue = job->is_large ? &workers->large : &workers->small;
  pthread_mutex_lock(&workers->mutex);
  yk_job **at = &queue->first;
  while (*at && *at != job) at = &(*at)->next;
  bool is_there = *at == job;
  if (is_there) take_out(queue, at);
  pthread_mutex_unlock(&workers->mutex);
  return is_there;
}

int64_t yk_workers_waiting_since(yk_workers *workers)
{
  pthread_mutex_lock(&workers->mutex);
  int64_t since_ns = INT64_MAX;
  if (workers->small.first) since_ns = workers->small.first->added_ns;
  if (workers->large.first) since_ns = yk_min_i64(since_ns, workers->large.first->added_ns);
  pthread_mutex_unlock(&workers->mutex);
  return since_ns;
}

void yk_workers_stop(yk_workers *workers)
{
  if (!workers->is_started) return;
  pthread_mutex_lock(&workers->mutex);
  workers->stopping = true;
  pthread_cond_broadcast(&workers->cv_job);
  pthread_mutex_unlock(&workers->mutex);
  for (int i = 0; i < workers->n_threads; i++) pthread_join(workers->threads[i], NULL);
  pthread_cond_destroy(&workers->cv_job);
  pthread_mutex_destroy(&workers->mutex);
}
