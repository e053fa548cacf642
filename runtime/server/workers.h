/* workers.h - threads for work that would delay the server thread's streams: parsing bodies, rendering chat templates,
 * tokenising.
 *
 * One thread is reserved for small jobs: a small job waits only for small jobs. Large jobs have an owner, the client:
 * one job of an owner runs at a time, and owners take turns, so that a large job waits for the large jobs of its owner
 * before it, and for at most one of each other owner. */
#ifndef YK_SERVER_WORKERS_H
#define YK_SERVER_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { YK_WORKERS = 4, YK_MAX_LARGE_WAITING = 1024 /* jobs of an owner */ };

typedef struct yk_job {
  struct yk_job *next;
  void (*run)(struct yk_job *job); /* a worker's thread */
  bool is_large;                   /* may take longer than a small job may wait */
  uint64_t owner;                  /* of a large job */
  uint64_t turn;                   /* of a large job: its owner's jobs have one each */
  int64_t added_ns;
} yk_job;

/* First in, first out. */
typedef struct yk_job_queue {
  yk_job *first, **end;
} yk_job_queue;

typedef struct yk_large_place {
  bool is_taken;
  uint64_t owner; /* owner of the job, which may be freed before the slot is free */
} yk_large_place;

typedef struct yk_workers {
  pthread_t threads[YK_WORKERS];
  int n_threads;
  pthread_mutex_t mutex; /* guards all following fields */
  pthread_cond_t cv_job; /* every thread waits here: a job may not be for the thread that is woken */
  yk_job_queue small, large;
  yk_large_place places[YK_WORKERS - 1]; /* of large jobs that run */
  uint64_t turn;                         /* of the large job that began last */
  bool is_started, stopping;
} yk_workers;

/* yk_workers_start - the struct must not move. Errors: YK_E_INTERNAL; yk_workers_stop must be called even then. */
yk_status yk_workers_start(yk_workers *workers, yk_err *err);

/* yk_workers_add - queue the job, whose run, is_large and owner are set. False: too many large jobs of the owner wait.
 *   Any thread. */
bool yk_workers_add(yk_workers *workers, yk_job *job);

/* yk_workers_remove - remove a job from the queue. False: a thread has begun it. Any thread. */
bool yk_workers_remove(yk_workers *workers, yk_job *job);

/* yk_workers_waiting_since - when the oldest waiting job was added; INT64_MAX: none waits. Any thread. */
int64_t yk_workers_waiting_since(yk_workers *workers);

/* yk_workers_stop - finish the queued jobs, then end the threads. */
void yk_workers_stop(yk_workers *workers);

#endif
