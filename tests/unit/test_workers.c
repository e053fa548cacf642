/* Order of the server's jobs: small ones never wait for large ones, and owners of large ones take turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <semaphore.h>
#include <stdatomic.h>

#include "server/workers.h"

enum { N_OTHERS = 3, N_OWN = 3 };

/* A job that runs until it is released. */
typedef struct held_job {
  yk_job job;
  sem_t *begun; /* counts jobs that have begun */
  sem_t may_end;
  atomic_bool has_begun;
} held_job;

static void run(yk_job *job)
{
  held_job *held = (held_job *)job; /* the first member */
  atomic_store(&held->has_begun, true);
  sem_post(held->begun);
  sem_wait(&held->may_end);
}

static void add(yk_workers *workers, held_job *held, sem_t *begun, bool is_large, uint64_t owner)
{
  *held = (held_job){.job = {.run = run, .is_large = is_large, .owner = owner}, .begun = begun};
  sem_init(&held->may_end, 0, 0);
  assert_true(yk_workers_add(workers, &held->job));
}

static void await(sem_t *begun, const held_job *held)
{
  sem_wait(begun);
  assert_true(atomic_load(&held->has_begun));
}

static void owners_take_turns(void **state)
{
  static yk_workers workers;
  static held_job own[N_OWN], others[N_OTHERS], small;
  sem_t begun;
  (void)state;
  sem_init(&begun, 0, 0);
  assert_int_equal(yk_workers_start(&workers, NULL), YK_OK);
  for (int i = 0; i < N_OWN; i++) add(&workers, &own[i], &begun, true, 1);
  await(&begun, &own[0]);
  for (uint64_t i = 0; i < N_OTHERS; i++) {
    add(&workers, &others[i], &begun, true, 2 + i);
    if (i + 2 < YK_WORKERS) await(&begun, &others[i]); /* while the first owner's job runs */
  }
  add(&workers, &small, &begun, false, 0);
  await(&begun, &small); /* although every large job has begun that may */
  assert_false(atomic_load(&own[1].has_begun));

  sem_post(&own[0].may_end);
  await(&begun, &others[N_OTHERS - 1]); /* the first owner has had a turn */
  assert_false(atomic_load(&own[1].has_begun));
  sem_post(&others[0].may_end);
  await(&begun, &own[1]);
  sem_post(&others[1].may_end); /* a place for the third job, whose owner runs */
  add(&workers, &others[0], &begun, true, 2);
  await(&begun, &others[0]);
  assert_false(atomic_load(&own[2].has_begun));
  sem_post(&own[1].may_end);
  await(&begun, &own[2]);

  sem_post(&own[2].may_end);
  sem_post(&small.may_end);
  sem_post(&others[0].may_end);
  sem_post(&others[N_OTHERS - 1].may_end);
  yk_workers_stop(&workers);
}

static void an_owner_may_queue_so_many(void **state)
{
  static yk_workers workers;
  static held_job own[YK_MAX_LARGE_WAITING + 2], other;
  sem_t begun;
  (void)state;
  sem_init(&begun, 0, 0);
  assert_int_equal(yk_workers_start(&workers, NULL), YK_OK);
  add(&workers, &own[0], &begun, true, 1);
  await(&begun, &own[0]);
  for (int i = 1; i <= YK_MAX_LARGE_WAITING; i++) add(&workers, &own[i], &begun, true, 1);
  own[YK_MAX_LARGE_WAITING + 1].job = (yk_job){.run = run, .is_large = true, .owner = 1};
  assert_false(yk_workers_add(&workers, &own[YK_MAX_LARGE_WAITING + 1].job));
  add(&workers, &other, &begun, true, 2);
  await(&begun, &other);
  for (int i = 1; i <= YK_MAX_LARGE_WAITING; i++) assert_true(yk_workers_remove(&workers, &own[i].job));
  sem_post(&own[0].may_end);
  sem_post(&other.may_end);
  yk_workers_stop(&workers);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(owners_take_turns), cmocka_unit_test(an_owner_may_queue_so_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
