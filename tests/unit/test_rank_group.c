/* The handoff: every rank runs every command once; the first failure is named, releases the others and persists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_case.h"
#include "parallel/rank_group.h"

/* A rank's end and device, which a group aborts and settles. */
typedef struct end {
  yk_comm comm;
  yk_device dev;
  struct bench *b;
} end;

typedef struct bench {
  end ends[8];
  atomic_int runs[8];
  atomic_int failures_signalled;
  atomic_bool released;                         /* set by on_failure: stalled ranks return */
  yk_err signalled;                             /* the error that on_failure got */
  atomic_int aborted, settled;                  /* bits of the ranks whose ends were aborted, devices settled */
  int failing_rank, stalling_rank, blamed_rank; /* blamed_rank: the rank named by the failing one, or 0 */
  const int *progress;                          /* [n_ranks], or NULL: equal; if given, all ranks but 0 stall */
} bench;

static void sleep_ms(long ms)
{
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static yk_status run(void *context, int rank, const void *command, yk_err *err)
{
  bench *b = context;
  atomic_fetch_add(&b->runs[rank], *(const int *)command);
  if (rank == b->failing_rank) {
    if (b->blamed_rank) err->rank = b->blamed_rank;
    return yk_err_set(err, YK_E_DEVICE, "made to fail");
  }
  if (b->failing_rank >= 0 || rank == b->stalling_rank || (b->progress && rank > 0)) {
    while (!atomic_load(&b->released)) sleep_ms(1);
    return yk_err_set(err, YK_E_COMM, "released");
  }
  return YK_OK;
}

static void release(void *context, const yk_err *error)
{
  bench *b = context;
  b->signalled = *error;
  atomic_fetch_add(&b->failures_signalled, 1);
  atomic_store(&b->released, true);
}

static void count_abort(yk_comm *comm)
{
  bench *b = ((end *)comm)->b;
  if (atomic_load(&b->released)) atomic_fetch_or(&b->aborted, 1 << comm->rank);
}

/* After every end was aborted, and before the rank counts as returned. */
static void settle(yk_device *dev)
{
  end *e = (end *)((char *)dev - offsetof(end, dev));
  sleep_ms(20);
  if (atomic_load(&e->b->aborted)) atomic_fetch_or(&e->b->settled, 1 << e->comm.rank);
}

static void describe(void *context, int rank, char *text, size_t n_bytes)
{
  (void)context;
  snprintf(text, n_bytes, "place %d", rank);
}

static int progress(void *context, int rank)
{
  const bench *b = context;
  return b->progress ? b->progress[rank] : 0;
}

static const yk_comm_ops comm_ops = {.abort = count_abort};
static const yk_device_ops device_ops = {.settle = settle};

/* state: the time that threads spin before they sleep, in seconds. */
static yk_rank_group *start(void **state, bench *b, int n_ranks)
{
  yk_comm *comms[8];
  for (int rank = 0; rank < n_ranks; rank++) {
    end *e = &b->ends[rank];
    *e = (end){.comm = {.ops = &comm_ops, .dev = &e->dev, .rank = rank}, .dev = {.ops = &device_ops}, .b = b};
    comms[rank] = &e->comm;
  }
  yk_rank_group *group;
  yk_rank_group_ops ops = {.run = run,
                           .on_failure = release,
                           .describe = describe,
                           .progress = progress,
                           .context = b,
                           .comms = comms,
                           .spin_s = *(const double *)*state};
  assert_int_equal(yk_rank_group_create(n_ranks, &ops, &group, NULL), YK_OK);
  return group;
}

static void every_rank_runs_every_command_once(void **state)
{
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks++) {
    bench b = {.failing_rank = -1, .stalling_rank = -1};
    yk_rank_group *group = start(state, &b, n_ranks);
    for (int i = 1; i <= 100; i++) assert_int_equal(yk_rank_group_run(group, &i, i % 2 ? 10 : 0, NULL), YK_OK);
    assert_true(yk_rank_group_destroy(group, 1));
    for (int rank = 0; rank < n_ranks; rank++) assert_int_equal(atomic_load(&b.runs[rank]), 5050);
    assert_int_equal(atomic_load(&b.settled), 0);
  }
}

/* Ranks that stall in a command return, an idle group runs no further command, and a second failure changes nothing. */
static void failure_from_outside_ends_commands(void **state)
{
  for (int is_idle = 0; each_case(is_idle, is_idle < 2); is_idle++) {
    bench b = {.failing_rank = -1, .stalling_rank = 1};
    yk_rank_group *group = start(state, &b, 3);
    yk_err lost = YK_ERR_INIT, later = YK_ERR_INIT, err = YK_ERR_INIT;
    yk_err_set(&lost, YK_E_COMM, "a process is gone");
    yk_err_set(&later, YK_E_DEVICE, "later");
    int command = 1;
    uint64_t number = is_idle ? 0 : yk_rank_group_begin(group, &command);
    yk_rank_group_fail(group, &lost);
    yk_rank_group_fail(group, &later);
    if (is_idle) number = yk_rank_group_begin(group, &command);
    assert_int_equal(yk_rank_group_wait(group, number, 0, &err), YK_E_COMM);
    assert_string_equal(err.message, "a process is gone");
    assert_string_equal(b.signalled.message, "a process is gone");
    assert_int_equal(atomic_load(&b.failures_signalled), 1);
    assert_int_equal(atomic_load(&b.runs[0]), is_idle ? 0 : 1);
    assert_true(yk_rank_group_destroy(group, 1));
  }
}

/* A rank that is delayed by its first command does not delay the others, and runs its commands in order. */
typedef struct pipeline {
  atomic_int done[2][3]; /* [rank][command] */
  atomic_int order[2];   /* commands as decimal digits */
} pipeline;

static yk_status run_in_pipeline(void *context, int rank, const void *command_ptr, yk_err *err)
{
  pipeline *p = context;
  int command = *(const int *)command_ptr;
  (void)err;
  if (rank == 1 && command == 0)
    while (!atomic_load(&p->done[0][2])) sleep_ms(1);
  atomic_store(&p->order[rank], atomic_load(&p->order[rank]) * 10 + command + 1);
  atomic_store(&p->done[rank][command], 1);
  return YK_OK;
}

static void ranks_run_ahead_of_each_other(void **state)
{
  pipeline p = {0};
  static const int commands[3] = {0, 1, 2};
  uint64_t numbers[3];
  yk_rank_group *group;
  const yk_rank_group_ops ops = {.run = run_in_pipeline, .context = &p, .spin_s = *(const double *)*state};
  assert_int_equal(yk_rank_group_create(2, &ops, &group, NULL), YK_OK);
  for (int i = 0; i < 3; i++) numbers[i] = yk_rank_group_begin(group, &commands[i]);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(yk_rank_group_wait(group, numbers[i], i % 2 ? 10 : 0, NULL), YK_OK);
    assert_true(atomic_load(&p.done[0][i]) && atomic_load(&p.done[1][i]));
  }
  for (int rank = 0; rank < 2; rank++) assert_int_equal(atomic_load(&p.order[rank]), 123);
  assert_true(yk_rank_group_destroy(group, 1));
}

/* The commands after a failed one are left out, and each wait returns the first failure. */
static void commands_behind_a_failure_do_not_run(void **state)
{
  bench b = {.failing_rank = 1, .stalling_rank = -1};
  yk_rank_group *group = start(state, &b, 3);
  static const int commands[3] = {1, 10, 100};
  uint64_t numbers[3];
  for (int i = 0; i < 3; i++) numbers[i] = yk_rank_group_begin(group, &commands[i]);
  for (int i = 0; i < 3; i++) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_rank_group_wait(group, numbers[i], 0, &err), YK_E_DEVICE);
    assert_int_equal(err.rank, 1);
  }
  for (int rank = 0; rank < 3; rank++) assert_true(atomic_load(&b.runs[rank]) <= 1);
  assert_true(yk_rank_group_destroy(group, 1));
}

static void first_failure_is_named_releases_others_and_sticks(void **state)
{
  bench b = {.failing_rank = 2, .stalling_rank = -1};
  yk_rank_group *group = start(state, &b, 4);
  int command = 1;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_run(group, &command, 0, &err), YK_E_DEVICE);
  assert_int_equal(err.rank, 2);
  assert_string_equal(err.message, "made to fail");
  assert_string_equal(b.signalled.message, "made to fail");
  assert_int_equal(atomic_load(&b.failures_signalled), 1);
  assert_int_equal(atomic_load(&b.aborted), 0xf);
  assert_int_equal(atomic_load(&b.settled), 0xf);
  yk_err again = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_run(group, &command, 0, &again), YK_E_DEVICE);
  assert_int_equal(again.rank, 2);
  assert_int_equal(atomic_load(&b.runs[0]), 1); /* the refused command did not run */
  assert_true(yk_rank_group_destroy(group, 1));
}

static void a_rank_may_blame_another(void **state)
{
  bench b = {.failing_rank = 0, .stalling_rank = -1, .blamed_rank = 3};
  yk_rank_group *group = start(state, &b, 4);
  int command = 1;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_run(group, &command, 0, &err), YK_E_DEVICE);
  assert_int_equal(err.rank, 3);
  assert_true(yk_rank_group_destroy(group, 1));
}

static void a_stalled_rank_is_named_and_released(void **state)
{
  bench b = {.failing_rank = -1, .stalling_rank = 1};
  yk_rank_group *group = start(state, &b, 3);
  int command = 1;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_run(group, &command, 1, &err), YK_E_TIMEOUT);
  assert_int_equal(err.rank, 1);
  assert_string_equal(err.message, "rank 1 did not finish a step within 1 s; rank 1 is at place 1");
  assert_int_equal(atomic_load(&b.aborted), 0x7);
  assert_int_equal(atomic_load(&b.settled), 1 << 1);
  assert_int_equal(atomic_load(&b.failures_signalled), 1);
  assert_true(yk_rank_group_destroy(group, 1));
}

/* Among the ranks that wait for each other; rank 0 has returned and counts with no progress. */
static void the_rank_furthest_behind_is_blamed(void **state)
{
  static const struct {
    int progress[4], rank;
    const char *message;
  } cases[] = {
      {{0, 9, 5, 7}, 2, "rank 1, 2, 3 did not finish a step within 1 s; rank 2 is furthest behind; rank 1 is at"},
      {{0, 9, 5, 5}, 1, "rank 1, 2, 3 did not finish a step within 1 s; rank 1 is at"},
      {{0, 5, 5, 4}, 3, "rank 1, 2, 3 did not finish a step within 1 s; rank 3 is furthest behind; rank 1 is at"}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    bench b = {.failing_rank = -1, .stalling_rank = -1, .progress = cases[i].progress};
    yk_rank_group *group = start(state, &b, 4);
    int command = 1;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_rank_group_run(group, &command, 1, &err), YK_E_TIMEOUT);
    assert_int_equal(err.rank, cases[i].rank);
    assert_memory_equal(err.message, cases[i].message, strlen(cases[i].message));
    assert_true(yk_rank_group_destroy(group, 1));
  }
}

/* The ranks of a later process: calls and messages use their numbers in the whole run. */
static yk_status fail_on_5(void *context, int rank, const void *command, yk_err *err)
{
  (void)command;
  atomic_fetch_or((atomic_int *)context, 1 << rank);
  return rank == 5 ? yk_err_set(err, YK_E_DEVICE, "rank %d: made to fail", rank) : YK_OK;
}

static void ranks_of_a_later_process_keep_their_numbers(void **state)
{
  (void)state;
  atomic_int ran = 0;
  yk_rank_group *group = NULL;
  yk_rank_group_ops ops = {.first_rank = 4, .run = fail_on_5, .context = &ran};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_create(3, &ops, &group, NULL), YK_OK);
  assert_int_equal(yk_rank_group_run(group, "", 10, &err), YK_E_DEVICE);
  assert_int_equal(err.rank, 5);
  assert_string_equal(err.message, "rank 5: made to fail");
  assert_true(yk_rank_group_destroy(group, 1));
  assert_int_equal(atomic_load(&ran), 0x70);
}

static void rank_counts_out_of_range_are_refused(void **state)
{
  (void)state;
  yk_rank_group *group = NULL;
  yk_rank_group_ops ops = {.run = run};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_rank_group_create(0, &ops, &group, &err), YK_E_INVAL);
  assert_string_equal(err.message, "number of ranks: expected 1 to 64, found 0");
  assert_int_equal(yk_rank_group_create(YK_MAX_RANKS + 1, &ops, &group, NULL), YK_E_INVAL);
  assert_null(group);
  assert_true(yk_rank_group_destroy(NULL, 1));
}

int main(void)
{
  static double none = 0, some = 0.002;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(every_rank_runs_every_command_once, &none),
      cmocka_unit_test_prestate(every_rank_runs_every_command_once, &some),
      cmocka_unit_test_prestate(failure_from_outside_ends_commands, &none),
      cmocka_unit_test_prestate(failure_from_outside_ends_commands, &some),
      cmocka_unit_test_prestate(ranks_run_ahead_of_each_other, &none),
      cmocka_unit_test_prestate(ranks_run_ahead_of_each_other, &some),
      cmocka_unit_test_prestate(commands_behind_a_failure_do_not_run, &none),
      cmocka_unit_test_prestate(first_failure_is_named_releases_others_and_sticks, &none),
      cmocka_unit_test_prestate(first_failure_is_named_releases_others_and_sticks, &some),
      cmocka_unit_test_prestate(a_rank_may_blame_another, &none),
      cmocka_unit_test_prestate(a_stalled_rank_is_named_and_released, &none),
      cmocka_unit_test_prestate(a_stalled_rank_is_named_and_released, &some),
      cmocka_unit_test_prestate(the_rank_furthest_behind_is_blamed, &none),
      cmocka_unit_test(ranks_of_a_later_process_keep_their_numbers),
      cmocka_unit_test(rank_counts_out_of_range_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
