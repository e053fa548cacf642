/* workers.h - threads for work that would keep the server thread from its streams: reading bodies, rendering chat
 * templates, tokenising.
 *
 * One thread takes whatever has waited longest, the others small jobs alone: a large job waits for the large ones
 * before it, a small one for small ones. */
#ifndef YK_SERVER_WORKERS_H
#define YK_SERVER_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { YK_WORKERS = 2 };

typedef struct yk_job {
  struct yk_job *next;
  void (*run)(struct yk_job *job); /* a worker's thread */
  bool is_large;                   /* may take longer than a small one may wait */
  int64_t added_ns;
} yk_job;

/* First in, first out. */
typedef struct yk_job_queue {
  yk_job *first, **end;
} yk_job_queue;

typedef struct yk_workers {
  pthread_t threads[YK_WORKERS];
  int n_threads;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t cv_job; /* every thread waits here: a job may be another one's to take */
  yk_job_queue small, large;
  bool takes_large; /* a thread has made itself the one that takes large jobs */
  bool is_started, stopping;
} yk_workers;

/* yk_workers_start - the struct must not move. Errors: YK_E_INTERNAL, after which yk_workers_stop is still owed. */
yk_status yk_workers_start(yk_workers *workers, yk_err *err);

/* yk_workers_add - run the job, whose run and is_large are set, soon. Any thread. */
void yk_workers_add(yk_workers *workers, yk_job *job);

/* yk_workers_remove - take a job back that no thread has begun. False: one has. Any thread. */
bool yk_workers_remove(yk_workers *workers, yk_job *job);

/* yk_workers_waiting_since - when the job that has waited longest was added; INT64_MAX: none waits. Any thread. */
int64_t yk_workers_waiting_since(yk_workers *workers);

/* yk_workers_stop - do what was added, then end the threads. */
void yk_workers_stop(yk_workers *workers);

#endif
