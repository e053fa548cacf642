/* workers.h - threads for work that would keep the server thread from its streams: reading bodies, rendering chat
 * templates, tokenising. */
#ifndef YK_SERVER_WORKERS_H
#define YK_SERVER_WORKERS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

enum { YK_WORKERS = 2 };

typedef struct yk_job {
  struct yk_job *next;
  void (*run)(struct yk_job *job); /* a worker's thread */
} yk_job;

typedef struct yk_workers {
  pthread_t threads[YK_WORKERS];
  int n_threads;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t cv_job;
  yk_job *first, **end;
  bool stopping;
} yk_workers;

/* yk_workers_start - the struct must not move. Errors: YK_E_INTERNAL, after which yk_workers_stop is still owed. */
yk_status yk_workers_start(yk_workers *workers, yk_err *err);

/* yk_workers_add - run the job soon; jobs begin in the order in which they came. Any thread. */
void yk_workers_add(yk_workers *workers, yk_job *job);

/* yk_workers_stop - do what was added, then end the threads. */
void yk_workers_stop(yk_workers *workers);

#endif
