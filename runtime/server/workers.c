#include "server/workers.h"

#include <string.h>

static void *work(void *user)
{
  yk_workers *workers = user;
  pthread_mutex_lock(&workers->mutex);
  for (;;) {
    while (!workers->first && !workers->stopping) pthread_cond_wait(&workers->cv_job, &workers->mutex);
    yk_job *job = workers->first;
    if (!job) break;
    workers->first = job->next;
    if (!workers->first) workers->end = &workers->first;
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
  workers->end = &workers->first;
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
  job->next = NULL;
  *workers->end = job;
  workers->end = &job->next;
  pthread_cond_signal(&workers->cv_job);
  pthread_mutex_unlock(&workers->mutex);
}

void yk_workers_stop(yk_workers *workers)
{
  if (!workers->end) return; /* never started */
  pthread_mutex_lock(&workers->mutex);
  workers->stopping = true;
  pthread_cond_broadcast(&workers->cv_job);
  pthread_mutex_unlock(&workers->mutex);
  for (int i = 0; i < workers->n_threads; i++) pthread_join(workers->threads[i], NULL);
  pthread_cond_destroy(&workers->cv_job);
  pthread_mutex_destroy(&workers->mutex);
}
