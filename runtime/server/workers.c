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

static yk_job *take_first(yk_job_queue *queue)
{
  yk_job *job = queue->first;
  queue->first = job->next;
  if (!queue->first) queue->end = &queue->first;
  return job;
}

/* The next job for a thread that takes large ones (takes_large), or that does not; NULL: none. */
static yk_job *take_next(yk_workers *workers, bool takes_large)
{
  yk_job *small = workers->small.first, *large = takes_large ? workers->large.first : NULL;
  if (large && (!small || large->added_ns <= small->added_ns)) return take_first(&workers->large);
  return small ? take_first(&workers->small) : NULL;
}

static void *work(void *user)
{
  yk_workers *workers = user;
  pthread_mutex_lock(&workers->mutex);
  bool takes_large = !workers->takes_large;
  workers->takes_large = true;
  for (;;) {
    yk_job *job = take_next(workers, takes_large);
    if (!job && workers->stopping) break;
    if (!job) {
      pthread_cond_wait(&workers->cv_job, &workers->mutex);
      continue;
    }
    pthread_mutex_unlock(&workers->mutex);
    job->run(job);
    pthread_mutex_lock(&workers->mutex);
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

void yk_workers_add(yk_workers *workers, yk_job *job)
{
  pthread_mutex_lock(&workers->mutex);
  job->added_ns = yk_clock_now_ns();
  append(job->is_large ? &workers->large : &workers->small, job);
  /* A large job wakes all threads, since only one of them takes large jobs. */
  (job->is_large ? pthread_cond_broadcast : pthread_cond_signal)(&workers->cv_job);
  pthread_mutex_unlock(&workers->mutex);
}

bool yk_workers_remove(yk_workers *workers, yk_job *job)
{
  yk_job_queue *queue = job->is_large ? &workers->large : &workers->small;
  pthread_mutex_lock(&workers->mutex);
  yk_job **at = &queue->first;
  while (*at && *at != job) at = &(*at)->next;
  bool is_there = *at == job;
  if (is_there) *at = job->next;
  if (is_there && queue->end == &job->next) queue->end = at;
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
