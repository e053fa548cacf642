#include "comm/conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "sanitized.h"
#include "yoke/process.h"

static bool open_stages(int n_stages, int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cpu_device_create(dtype, 1, &limits, &devs[rank], NULL) != YK_OK) return false;
  yk_world world = yk_world_of_process(n_ranks);
  world.n_stages = n_stages;
  return yk_comm_local_create(&world, devs, comms, NULL) == YK_OK;
}

static bool open_local(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  return open_stages(1, n_ranks, dtype, devs, comms);
}

static void close_local(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) {
    comms[rank]->ops->destroy(comms[rank]);
    devs[rank]->ops->destroy(devs[rank]);
  }
}

static double round_once(int n_ranks, comm_shape shape)
{
  (void)n_ranks, (void)shape;
  return 1;
}

/* Ranks in other processes need other communicators. */
static void other_worlds_are_refused(void **state)
{
  (void)state;
  static const struct {
    yk_world world;
    yk_status status;
    const char *message;
  } cases[] = {{{0, 0, 0, 1}, YK_E_INVAL, "number of ranks: expected 1 to 64, found 0"},
               {{4, 2, 2, 1}, YK_E_UNSUPPORTED, "expected 4 ranks of one process, found 2"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_comm *comms[1];
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_comm_local_create(&cases[i].world, NULL, comms, &err), cases[i].status);
    assert_non_null(strstr(err.message, cases[i].message));
  }
}

/* More ranks than any GPU kernel supports, and than a machine has GPUs. */
static void many_ranks_gather(void **state)
{
  enum { MANY = 12, N = 3 };
  (void)state;
  yk_device *devs[MANY];
  yk_comm *comms[MANY];
  int32_t all[MANY][N] = {{0}};
  bool opens = open_local(MANY, YK_F32, devs, comms);
  assert_true(opens);
  if (!opens) return;
  for (int rank = MANY - 1; rank >= 0; rank--) { /* rank 0 last: no rank waits for it */
    int32_t mine[N] = {rank, 10 * rank, 100 * rank};
    assert_int_equal(comms[rank]->ops->gather_host(comms[rank], mine, sizeof mine, rank ? NULL : all, NULL), YK_OK);
  }
  for (int rank = 0; rank < MANY; rank++) assert_int_equal(all[rank][2], 100 * rank);
  close_local(MANY, devs, comms);
}

static void another_type_is_refused(void **state)
{
  (void)state;
  yk_device *devs[1];
  yk_comm *comms[1];
  float data[1] = {0};
  yk_err err = YK_ERR_INIT;
  bool opens = open_local(1, YK_F16, devs, comms);
  assert_true(opens);
  if (!opens) return;
  assert_int_equal(comms[0]->ops->all_reduce(comms[0], data, 1, YK_F32, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "float16"));
  close_local(1, devs, comms);
}

static void *receive(void *comm)
{
  char data[4];
  yk_comm *end = comm;
  return (void *)(intptr_t)end->ops->receive_previous(end, data, sizeof data, NULL);
}

/* The receiver may wait before or after the abort. */
static void abort_releases_both_ends_of_a_message(void **state)
{
  (void)state;
  yk_device *devs[2];
  yk_comm *comms[2] = {NULL};
  void *received = NULL;
  pthread_t receiver;
  bool opens = open_stages(2, 2, YK_F32, devs, comms);
  assert_true(opens);
  if (!opens) return;
  assert_int_equal(pthread_create(&receiver, NULL, receive, comms[1]), 0);
  comms[1]->ops->abort(comms[1]);
  pthread_join(receiver, &received);
  assert_int_equal((intptr_t)received, YK_E_COMM);
  assert_int_equal(comms[0]->ops->send_next(comms[0], "abc", 4, NULL), YK_E_COMM);
  close_local(2, devs, comms);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest own[] = {cmocka_unit_test(another_type_is_refused),
                                   cmocka_unit_test(other_worlds_are_refused), cmocka_unit_test(many_ranks_gather),

                                   cmocka_unit_test(abort_releases_both_ends_of_a_message)};
  comm_fixture fixture = {.name = "local",
                          .open = open_local,
                          .open_stages = open_stages,
                          .close = close_local,
                          .max_ranks = TEST_IS_SANITIZED ? 4 : COMM_TESTED_RANKS,
                          .rounding_steps = round_once,
                          .opens_memories = true};
  int n_failed = comm_conformance_run(&fixture);
  return n_failed + cmocka_run_group_tests(own, NULL, NULL);
}
