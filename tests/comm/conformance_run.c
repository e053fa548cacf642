#include "comm/conformance_case.h"
#include "each_case.h"
#include "sanitized.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct thread_start {
  rank_case *c;
  rank_body body;
} thread_start;

static void *run_rank(void *argument)
{
  thread_start *start = argument;
  start->body(start->c);
  return NULL;
}

/* Devices and their ends. */
typedef struct session {
  const comm_fixture *fixture;
  const values *values;
  int n_ranks;
  yk_device *devs[COMM_TESTED_RANKS];
  yk_comm *comms[COMM_TESTED_RANKS];
} session;

static bool open_session(session *s, const comm_fixture *fixture, int n_ranks, const values *v)
{
  *s = (session){.fixture = fixture, .values = v, .n_ranks = n_ranks};
  return fixture->open(n_ranks, v->dtype, s->devs, s->comms);
}

static void close_session(session *s)
{
  s->fixture->close(s->n_ranks, s->devs, s->comms);
}

/* Checks status and tolerances, and that all ranks hold the same bits. */
static bool check_ranks(const rank_case *cases, int n_ranks, const char *name, yk_status expected)
{
  bool good = true;
  for (int rank = 0; rank < n_ranks; rank++) {
    const rank_case *c = &cases[rank];
    bool same = !c->result || (cases[0].result && memcmp(c->result, cases[0].result, c->result_bytes) == 0);
    if (c->status == expected && c->mismatches == 0 && same) continue;
    good = false;
    printf("%s, rank %d of %d, %s [%d, %d]: expected %s, found %s; %d mismatches%s\n", name, rank, n_ranks,
           yk_dtype_name(c->dtype), c->n_rows, c->hidden, yk_status_name(expected), yk_status_name(c->status),
           c->mismatches, same ? "" : "; other bits than rank 0");
  }
  return good;
}

/* Run body on every rank at once. */
static bool run_case(session *s, const char *name, rank_body body, comm_shape shape, yk_status expected,
                     int misbehaving_rank)
{
  rank_case cases[COMM_TESTED_RANKS];
  thread_start starts[COMM_TESTED_RANKS];
  pthread_t threads[COMM_TESTED_RANKS];
  double n_steps = s->fixture->rounding_steps(s->n_ranks, shape);
  for (int rank = 0; rank < s->n_ranks; rank++) {
    cases[rank] = (rank_case){.fixture = s->fixture,
                              .values = s->values,
                              .comm = s->comms[rank],
                              .dtype = s->values->dtype,
                              .n_rows = shape.n_rows,
                              .hidden = shape.hidden,
                              .tolerance = n_steps * case_rounding_step(s->values->dtype) * 1.01,
                              .status = YK_E_INTERNAL,
                              .misbehave = rank == misbehaving_rank,
                              .misbehaving_rank = misbehaving_rank};
    starts[rank] = (thread_start){&cases[rank], body};
    assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &starts[rank]), 0);
  }
  for (int rank = 0; rank < s->n_ranks; rank++) pthread_join(threads[rank], NULL);
  bool good = check_ranks(cases, s->n_ranks, name, expected);
  for (int rank = 0; rank < s->n_ranks; rank++) free(cases[rank].result);
  return good;
}

/* ---- Cases that keep the ends intact, on the same ends for every type ---- */

typedef struct whole_test {
  const comm_fixture *fixture;
  yk_dtype dtype;
  int n_ranks;
  char name[64];
} whole_test;

static bool run_shapes(session *s, const char *name, rank_body body, const comm_shape *shapes, int n_shapes)
{
  bool good = true;
  for (int i = 0; i < n_shapes && good; i++) good = run_case(s, name, body, shapes[i], YK_OK, -1);
  return good;
}

static void all_operations(void **state)
{
  enum { N_SHAPES = 4 }; /* the last one not in whole packets */
  static const comm_shape shapes[N_SHAPES] = {{1, 8}, {5, 96}, {33, 1000}, {3, 1001}};
  static const struct {
    const char *name;
    rank_body body;
    bool takes_large; /* large sums may use another algorithm */
  } operations[] = {{"all_reduce", all_reduce_body, true},
                    {"all_reduce_add_norm", all_reduce_add_norm_body, true},
                    {"all_reduce_add_norm with a norm of the sum", result_norm_body, true},
                    {"combining all_reduce_add_norm", combining_all_reduce_body, true},
                    {"combining all_reduce_add_norm with a gain", combining_with_gain_body, true},
                    {"all_reduce_i32 sum", integer_sums_body, true},
                    {"all_reduce_i32 max", integer_maxima_body, true},
                    {"all_reduce_tree", tree_body, true},
                    {"embedding", embedding_body, true},
                    {"gather", gather_body, false},
                    {"await_writes", await_writes_body, false},
                    {"open_memories", open_memories_body, false},
                    {"gather_host", gather_host_body, false}};
  const whole_test *test = *state;
  const comm_fixture *fixture = test->fixture;
  const comm_shape chain_shape = fixture->n_large_shapes ? (comm_shape){1100, 4096} : (comm_shape){70, 96};
  values *v = case_values_new(test->dtype);
  session s;
  bool opens = open_session(&s, fixture, test->n_ranks, v), good = opens;
  for (size_t i = 0; each_case(i, i < sizeof operations / sizeof *operations && good); i++) {
    int n_large = operations[i].takes_large && test->n_ranks > 1 ? fixture->n_large_shapes : 0;
    good = run_shapes(&s, operations[i].name, operations[i].body, shapes, N_SHAPES - fixture->whole_packets) &&
           run_shapes(&s, operations[i].name, operations[i].body, fixture->large_shapes, n_large);
  }
  if (good) good = run_case(&s, "sums that follow each other", chain_body, chain_shape, YK_OK, -1);
  if (opens) close_session(&s);
  free(v);
  if (!opens) skip();
  assert_true(good);
}

static void messages_pass_through_the_stages(void **state)
{
  static const struct {
    int n_stages, n_ranks;
  } worlds[] = {{2, 2}, {2, 4}, {3, 3}, {4, 4}};
  const comm_fixture *fixture = *state;
  bool has_stages = fixture->open_stages;
  if (!has_stages) skip();
  for (size_t i = 0; has_stages && i < sizeof worlds / sizeof *worlds && worlds[i].n_ranks <= fixture->max_ranks; i++) {
    values *v = case_values_new(YK_F16);
    session s = {.fixture = fixture, .values = v, .n_ranks = worlds[i].n_ranks};
    assert_true(fixture->open_stages(worlds[i].n_stages, s.n_ranks, v->dtype, s.devs, s.comms));
    bool good = run_case(&s, "messages between stages", stages_body, (comm_shape){1, 96}, YK_OK, -1);
    close_session(&s);
    free(v);
    assert_true(good);
  }
}

/* ---- Cases that break the ends ---- */

/* New ends each time: an abort is permanent for its ends and does not affect later ends. */
static void with_one_rank_misbehaving(const comm_fixture *fixture, const char *name, comm_shape shape, rank_body body)
{
  values *v = case_values_new(YK_F16);
  bool good = true;
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= fixture->max_ranks && good); n_ranks++) {
    session s;
    if (fixture->opens_slowly && n_ranks > 2 && n_ranks < fixture->max_ranks) continue;
    if (!open_session(&s, fixture, n_ranks, v)) continue;
    good = run_case(&s, name, body, shape, YK_E_COMM, n_ranks - 1);
    close_session(&s);
  }
  free(v);
  assert_true(good);
}

static void abort_releases_waiting_ranks_and_sticks(void **state)
{
  with_one_rank_misbehaving(*state, "barrier", (comm_shape){1, 8}, abort_body);
}

static void abort_releases_a_sum_that_waits(void **state)
{
  const comm_fixture *fixture = *state;
  with_one_rank_misbehaving(fixture, "aborted sum", (comm_shape){1, 4096}, abort_sum_body);
  if (!fixture->whole_packets) with_one_rank_misbehaving(fixture, "aborted sum", (comm_shape){3, 1001}, abort_sum_body);
  if (fixture->n_large_shapes)
    with_one_rank_misbehaving(fixture, "aborted sum", fixture->large_shapes[fixture->n_large_shapes - 2],
                              abort_sum_body);
}

static void a_rank_that_does_not_come_is_named(void **state)
{
  const comm_fixture *fixture = *state;
  if (fixture->step_limit_s == 0) skip();
  with_one_rank_misbehaving(fixture, "missing rank", (comm_shape){1, 4096}, missing_body);
  with_one_rank_misbehaving(fixture, "missing rank", (comm_shape){321, 4096}, missing_body);
}

int comm_conformance_run(const comm_fixture *fixture)
{
  enum { N_DTYPES = 3, N_SINGLE = 4 };
  static const yk_dtype dtypes[N_DTYPES] = {YK_F16, YK_BF16, YK_F32};
  static const struct {
    const char *name;
    CMUnitTestFunction run;
  } single[N_SINGLE] = {
      {"abort_releases_waiting_ranks_and_sticks", abort_releases_waiting_ranks_and_sticks},
      {"abort_releases_a_sum_that_waits", abort_releases_a_sum_that_waits},
      {"a_rank_that_does_not_come_is_named", a_rank_that_does_not_come_is_named},
      {"messages_pass_through_the_stages", messages_pass_through_the_stages},
  };
  whole_test whole[COMM_TESTED_RANKS * N_DTYPES];
  struct CMUnitTest tests[COMM_TESTED_RANKS * N_DTYPES + N_SINGLE];
  size_t n = 0;
  for (int n_ranks = 1; n_ranks <= fixture->max_ranks; n_ranks++)
    for (int d = 0; d < N_DTYPES; d++) {
      /* How ranks wait for each other does not depend on the type: one for each number of ranks. */
      if (TEST_WATCHES_THREADS && d != n_ranks % N_DTYPES) continue;
      whole_test *test = &whole[n];
      *test = (whole_test){.fixture = fixture, .dtype = dtypes[d], .n_ranks = n_ranks};
      snprintf(test->name, sizeof test->name, "all_operations: %d ranks, %s", n_ranks, yk_dtype_name(dtypes[d]));
      tests[n++] = (struct CMUnitTest){test->name, all_operations, NULL, NULL, test};
    }
  for (int i = 0; i < N_SINGLE; i++)
    tests[n++] = (struct CMUnitTest){single[i].name, single[i].run, NULL, NULL, (void *)(uintptr_t)fixture};
  return _cmocka_run_group_tests(fixture->name, tests, n, NULL, NULL);
}
