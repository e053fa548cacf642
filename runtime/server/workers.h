/* workers.h - threads for work that would delay the server thread's streams: parsing bodies, rendering chat templates,
 * tokenising.
 *
 * One thread takes the oldest job of any size, the other threads only small jobs: a large job waits for the large jobs
 * before it, a small one only for small jobs. */
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
  bool is_large;                   /* may take longer than a small job may wait */
  int64_t added_ns;
} yk_job;

/* First in, first out. */
typedef struct yk_job_queue {
  yk_job *first, **end;
} yk_job_queue;

typedef struct yk_workers {
  pthread_t threads[YK_WORKERS];
  int n_threads;
  pthread_mutex_t mutex; /* guards all following fields */
  pthread_cond_t cv_job; /* every thread waits here: a job may not be for the thread that is woken */
  yk_job_queue small, large;
  bool takes_large; /* a thread has claimed the large jobs */
  bool is_started, stopping;
} yk_workers;

/* yk_workers_start - the struct must not move. Errors: YK_E_INTERNAL; yk_workers_stop must be called even then. */
yk_status yk_workers_start(yk_workers *workers, yk_err *err);

/* yk_workers_add - queue the job, whose run and is_large are set. Any thread. */
void yk_workers_add(yk_workers *workers, yk_job *job);

/* yk_workers_remove - remove a job from the queue. False: a thread has begun it. Any thread. */
bool yk_workers_remove(yk_workers *workers, yk_job *job);

/* yk_workers_waiting_since - when the oldest waiting job was added; INT64_MAX: none waits. Any thread. */
int64_t yk_workers_waiting_since(yk_workers *workers);

/* yk_workers_stop - finish the queued jobs, then end the threads. */
void yk_workers_stop(yk_workers *workers);

#endif
