#define _GNU_SOURCE /* pthread_tryjoin_np, unshare */
/* Processes of a run: roll call, commands, exchange, and the failure of one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/cluster_fixture.h"
#include "each_case.h"
#include "parallel/cluster/door.h"

enum { N = 3 };
static const int ranks_of[N] = {1, 2, 1}; /* uneven on purpose */

/* ---- a run in order ---- */

static void *follow(void *context)
{
  cluster_party *party = context;
  yk_cluster_message message = {0};
  while (yk_cluster_receive(party->cluster, 0, &message, &party->err) == YK_OK && !message.is_end) {
    yk_err result = YK_ERR_INIT;
    if (message.kind == 7) {
      result.rank = 3;
      yk_err_set(&result, YK_E_DEVICE, "kind %u of %zu bytes: %.5s", message.kind, message.n_bytes,
                 (const char *)message.data);
    }
    if (yk_cluster_answer(party->cluster, &result, &party->err) != YK_OK) break;
  }
  party->status = message.is_end ? YK_OK : party->err.code;
  return NULL;
}

static void *leave_after_end(void *context)
{
  follow(context);
  cluster_party *party = context;
  yk_cluster_leave(party->cluster, 0);
  return NULL;
}

/* Two commands in progress at once; the error of a failed answer names its rank; the end reaches every follower. */
static void commands_and_answers(cluster_party *parties)
{
  yk_cluster *c = parties[0].cluster;
  pthread_t threads[N];
  yk_err err = YK_ERR_INIT;
  char large[100000];
  memset(large, 'x', sizeof large);
  for (int p = 1; p < N; p++) assert_int_equal(pthread_create(&threads[p], NULL, leave_after_end, &parties[p]), 0);
  const struct iovec pieces[2] = {{.iov_base = "ab", .iov_len = 2}, {.iov_base = large, .iov_len = sizeof large}};
  assert_int_equal(yk_cluster_send(c, 1, NULL, 0, &err), YK_OK);
  assert_int_equal(yk_cluster_send(c, 7, pieces, 2, &err), YK_OK);
  assert_int_equal(yk_cluster_wait(c, 60, &err), YK_OK);
  assert_int_equal(yk_cluster_wait(c, 60, &err), YK_E_DEVICE);
  assert_int_equal(err.rank, 3);
  assert_non_null(strstr(err.message, "process 1 (host "));
  assert_non_null(strstr(err.message, "ranks 1-2): kind 7 of 100002 bytes: abxxx"));
  yk_cluster_leave(c, 60);
  for (int p = 1; p < N; p++) {
    pthread_join(threads[p], NULL);
    assert_string_equal(parties[p].err.message, "");
    assert_int_equal(parties[p].status, YK_OK);
  }
}

typedef struct gathering {
  yk_cluster *cluster;
  yk_status status;
  int mine[2], all[2 * N];
} gathering;

static void *gather(void *context)
{
  gathering *g = context;
  const yk_exchange exchange = yk_cluster_exchange(g->cluster);
  g->status = exchange.all_gather(&exchange, g->mine, sizeof g->mine, g->all, NULL);
  return NULL;
}

static void exchange_of_all(cluster_party *parties)
{
  gathering gatherings[N];
  pthread_t threads[N];
  for (int p = 0; p < N; p++) {
    gatherings[p] = (gathering){.cluster = parties[p].cluster, .mine = {p, 10 * p}};
    assert_int_equal(pthread_create(&threads[p], NULL, gather, &gatherings[p]), 0);
  }
  for (int p = 0; p < N; p++) pthread_join(threads[p], NULL);
  for (int p = 0; p < N; p++) {
    assert_int_equal(gatherings[p].status, YK_OK);
    for (int q = 0; q < N; q++) assert_int_equal(gatherings[p].all[2 * q + 1], 10 * q);
  }
}

static void a_run_in_order(void **state)
{
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "::1", "localhost"};
  for (size_t i = 0; each_case(i, i < sizeof hosts / sizeof *hosts); i++) {
    cluster_party parties[N];
    cluster_parties(parties, N, ranks_of, hosts[i]);
    for (int p = 0; p < N; p++) parties[p].options.key = i == 0 ? "a secret" : NULL;
    cluster_join_all(parties, N);
    for (int p = 0; p < N; p++) {
      assert_string_equal(parties[p].err.message, "");
      assert_non_null(parties[p].report);
      assert_string_equal(parties[p].report, parties[0].report);
      assert_int_equal(yk_cluster_process_of(parties[p].cluster, 2), 1);
      assert_int_equal(yk_cluster_world(parties[p].cluster, 2).first_rank, 3);
    }
    for (int p = 0; p < N; p++) free(parties[p].report);
    exchange_of_all(parties);
    commands_and_answers(parties);
  }
}

static void one_process_needs_no_network(void **state)
{
  (void)state;
  cluster_party party = {.err = YK_ERR_INIT};
  party.options = (yk_cluster_options){
      .n_processes = 1, .world = yk_world_of_process(2), .start_timeout_s = 1, .silence_limit_s = 1};
  cluster_join_all(&party, 1);
  assert_string_equal(party.err.message, "");
  assert_int_equal(yk_cluster_send(party.cluster, 0, NULL, 0, NULL), YK_OK);
  assert_int_equal(yk_cluster_wait(party.cluster, 1, NULL), YK_OK);
  cluster_leave_all(&party, 1);
}

/* ---- refusals of the roll call ---- */

/* All parties fail, and each has the same words in its error. */
static void assert_all_fail(cluster_party *parties, int n, yk_status status, const char *words)
{
  for (int p = 0; p < n; p++) {
    assert_int_equal(parties[p].status, status);
    if (!strstr(parties[p].err.message, words)) assert_string_equal(parties[p].err.message, words);
  }
}

static void free_reports(cluster_party *parties, int n)
{
  for (int p = 0; p < n; p++) free(parties[p].report);
}

static void differing_facts_are_named(void **state)
{
  (void)state;
  static const struct {
    yk_fact facts[N];
    const char *part;
  } cases[] = {
      {{{"version", "0.2.0", YK_FACT_EQUAL}, {"version", "0.2.0", YK_FACT_EQUAL}, {"version", "0.3.0", YK_FACT_EQUAL}},
       "version differs: 0.2.0 (processes 0, 1), 0.3.0 (process 2)"},
      {{{"GPUs", "A B", YK_FACT_EXCLUSIVE}, {"GPUs", "BB C", YK_FACT_EXCLUSIVE}, {"GPUs", "D C", YK_FACT_EXCLUSIVE}},
       "GPUs: C is used by processes 1 and 2"},
      {{{"model", "a", YK_FACT_EQUAL}, {"model", "a\033[2J", YK_FACT_EQUAL}, {"model", "a", YK_FACT_EQUAL}},
       "model differs: a (processes 0, 2), a?[2J (process 1)"},
      {{{"version", "1", YK_FACT_EQUAL}, {"kind", "1", YK_FACT_EQUAL}, {"version", "1", YK_FACT_EQUAL}},
       "kind differs: (not reported) (processes 0, 2), 1 (process 1)"}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    cluster_party parties[N];
    cluster_parties(parties, N, ranks_of, "127.0.0.1");
    for (int p = 0; p < N; p++) {
      parties[p].options.facts = &cases[i].facts[p];
      parties[p].options.n_facts = 1;
    }
    cluster_join_all(parties, N);
    assert_all_fail(parties, N, YK_E_COMM, cases[i].part);
    free_reports(parties, N);
  }
}

/* Ranks that do not tile, a process's own problem. */
static void unfit_processes_are_named(void **state)
{
  (void)state;
  static const struct {
    int first_rank, n_ranks; /* of process 2 */
    const char *problem;     /* of process 0 */
    const char *part;
  } cases[] = {{2, 4, NULL, "process 2: expected ranks from 3 on, found 2"},
               {3, 5, NULL, "ranks differs: 4 (processes 0, 1), 5 (process 2)"},
               {3, 4, "no GPU is left", "process 0 on "},
               {3, 4, "no GPU is left", ": no GPU is left"}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    cluster_party parties[N];
    cluster_parties(parties, N, ranks_of, "127.0.0.1");
    parties[2].options.world.first_rank = cases[i].first_rank;
    parties[2].options.world.n_ranks = cases[i].n_ranks;
    parties[0].options.problem = cases[i].problem;
    cluster_join_all(parties, N);
    assert_all_fail(parties, N, YK_E_COMM, cases[i].part);
    free_reports(parties, N);
  }
}

static void the_missing_are_named(void **state)
{
  (void)state;
  cluster_party parties[N];
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  parties[0].options.start_timeout_s = 0.5;
  cluster_join_all(parties, 2);
  assert_all_fail(parties, 2, YK_E_TIMEOUT, "process 2 of 3 is missing");
  assert_non_null(strstr(parties[1].report, "2       MISSING"));
  free_reports(parties, 2);
}

static void an_absent_process_0_is_named(void **state)
{
  (void)state;
  cluster_party parties[2];
  cluster_parties(parties, 2, ranks_of, "127.0.0.1");
  yk_listener_close(&parties[0].listener);
  parties[1].options.start_timeout_s = 0.3;
  cluster_join_all(&parties[1], 1);
  assert_int_equal(parties[1].status, YK_E_TIMEOUT);
  assert_non_null(strstr(parties[1].err.message, "no process 0 within"));
}

/* A stranger of the test, connected to process 0. */
static int connect_stranger(const cluster_party *parties)
{
  int fd = -1;
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)60 * 1000000000;
  assert_int_equal(yk_connect("127.0.0.1", parties[0].listener.port, deadline_ns, &fd, NULL), YK_OK);
  return fd;
}

/* Sends bytes and returns the refusal's text. */
static void refusal_of(int fd, const void *bytes, size_t n_bytes, char text[513])
{
  yk_frame head = {0};
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)60 * 1000000000;
  if (n_bytes > 0) assert_int_equal(send(fd, bytes, n_bytes, MSG_NOSIGNAL), n_bytes);
  memset(text, 0, 513);
  assert_int_equal(yk_receive_all(fd, &head, sizeof head, deadline_ns, NULL), YK_OK);
  assert_int_equal(head.type, YK_FRAME_REFUSE);
  assert_int_equal(yk_receive_all(fd, text, head.n_bytes, deadline_ns, NULL), YK_OK);
  close(fd);
}

static void refuse_strangers(const cluster_party *parties)
{
  char text[513], garbage[64];
  memset(garbage, 'G', sizeof garbage);
  refusal_of(connect_stranger(parties), garbage, sizeof garbage, text);
  assert_non_null(strstr(text, "expected a message of Yoke, found other bytes"));
  yk_frame head = yk_frame_of(YK_FRAME_HELLO, (uint64_t)1 << 40);
  refusal_of(connect_stranger(parties), &head, sizeof head, text);
  assert_non_null(strstr(text, "expected a message of at most 32 bytes"));
  head.version = 99;
  refusal_of(connect_stranger(parties), &head, sizeof head, text);
  assert_non_null(strstr(text, "run the same version of Yoke"));
  head = yk_frame_of(YK_FRAME_COMMAND, 0);
  refusal_of(connect_stranger(parties), &head, sizeof head, text);
  assert_non_null(strstr(text, "found type"));
}

/* A knock with the right key and a body that is none. */
static void refuse_bad_bodies(const cluster_party *parties)
{
  static const char body[] = "no entry";
  const yk_secret secret = {.bytes = "a secret", .n_bytes = 8};
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)60 * 1000000000;
  int fd = connect_stranger(parties);
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_knock(fd, secret, body, sizeof body, deadline_ns, &err), YK_E_COMM);
  assert_non_null(strstr(err.message, "its message is malformed"));
  close(fd);
}

static void *join_party(void *context)
{
  cluster_join_all(context, 1);
  return NULL;
}

/* Foreign connections arrive while processes are missing, and again during the run. */
static void strangers_disturb_nothing(void **state)
{
  (void)state;
  cluster_party parties[N], wrong, again;
  pthread_t first[2];
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  for (int p = 0; p < 2; p++) assert_int_equal(pthread_create(&first[p], NULL, join_party, &parties[p]), 0);
  refuse_strangers(parties);
  refuse_bad_bodies(parties);
  wrong = parties[2];
  wrong.options.key = "another secret";
  cluster_join_all(&wrong, 1);
  assert_int_equal(wrong.status, YK_E_COMM);
  assert_non_null(strstr(wrong.err.message, "the keys differ"));
  again = (cluster_party){.options = parties[2].options, .err = YK_ERR_INIT};
  again.options.n_processes = 9;
  again.options.process = 8;
  cluster_join_all(&again, 1);
  assert_non_null(strstr(again.err.message, "this run has processes 0 to 2"));
  cluster_join_all(&parties[2], 1);
  for (int p = 0; p < 2; p++) pthread_join(first[p], NULL);
  for (int p = 0; p < N; p++) assert_int_equal(parties[p].status, YK_OK);
  assert_non_null(strstr(parties[1].report, "the keys differ"));
  refuse_strangers(parties);
  again = (cluster_party){.options = parties[2].options, .err = YK_ERR_INIT};
  cluster_join_all(&again, 1);
  assert_non_null(strstr(again.err.message, "the run has already started"));
  exchange_of_all(parties);
  for (int p = 0; p < N; p++) free(parties[p].report);
  commands_and_answers(parties);
}

/* Process 1 may connect while an earlier run of process 0 still listens, and ends without an answer. */
static void a_connection_without_an_answer_is_tried_again(void **state)
{
  (void)state;
  cluster_party parties[N];
  pthread_t thread;
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  assert_int_equal(pthread_create(&thread, NULL, join_party, &parties[1]), 0);
  int fd = -1;
  for (struct pollfd polled = {.fd = parties[0].listener.fd, .events = POLLIN}; fd < 0; poll(&polled, 1, 1000))
    fd = accept(polled.fd, NULL, NULL);
  close(fd);
  cluster_party others[] = {parties[0], parties[2]};
  cluster_join_all(others, 2);
  pthread_join(thread, NULL);
  assert_int_equal(parties[1].status, YK_OK);
  parties[0] = others[0];
  parties[2] = others[1];
  exchange_of_all(parties);
  for (int p = 0; p < N; p++) free(parties[p].report);
  commands_and_answers(parties);
}

/* One of two processes with the same number is refused by name, and the run starts with the other process. */
static void a_second_process_of_a_number_is_refused(void **state)
{
  (void)state;
  cluster_party parties[N + 1];
  pthread_t threads[N + 1];
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  parties[N] = (cluster_party){.options = parties[1].options, .err = YK_ERR_INIT};
  for (int p = 0; p <= N; p++)
    if (p != 2) assert_int_equal(pthread_create(&threads[p], NULL, join_party, &parties[p]), 0);
  int refused = -1;
  while (refused < 0) { /* one of the two returns at once, the other waits for process 2 */
    poll(NULL, 0, 5);
    for (int p = 1; p <= N; p += N - 1)
      if (pthread_tryjoin_np(threads[p], NULL) == 0) refused = p;
  }
  assert_non_null(strstr(parties[refused].err.message, "the number is taken by"));
  threads[2] = pthread_self();
  cluster_join_all(&parties[2], 1);
  for (int p = 0; p <= N; p++)
    if (p != 2 && p != refused) pthread_join(threads[p], NULL);
  if (refused == 1) parties[1] = parties[N];
  for (int p = 0; p < N; p++) assert_int_equal(parties[p].status, YK_OK);
  cluster_leave_all(parties, N);
}

/* ---- failures ---- */

static void *abort_later(void *context)
{
  yk_err failure = YK_ERR_INIT;
  failure.rank = 2;
  yk_err_set(&failure, YK_E_DEVICE, "layer 3: attention failed");
  yk_cluster_abort(context, &failure);
  return NULL;
}

static void count_failure(void *context, const yk_err *failure)
{
  int *n_calls = context;
  *n_calls += failure->code == YK_E_DEVICE;
}

/* The failure of process 1 ends blocked calls of the others with its rank and text. */
static void a_failure_reaches_all(void **state)
{
  (void)state;
  cluster_party parties[N];
  pthread_t threads[N];
  int n_calls = 0;
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  cluster_join_all(parties, N);
  yk_cluster_watch(parties[2].cluster, count_failure, &n_calls);
  assert_int_equal(pthread_create(&threads[2], NULL, follow, &parties[2]), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, abort_later, parties[1].cluster), 0);
  yk_cluster_send(parties[0].cluster, 1, NULL, 0, NULL);
  yk_err err = YK_ERR_INIT;
  while (yk_cluster_wait(parties[0].cluster, 60, &err) == YK_OK) continue; /* process 2 answers, process 1 never */
  assert_int_equal(err.code, YK_E_DEVICE);
  assert_int_equal(err.rank, 2);
  assert_non_null(strstr(err.message, "ranks 1-2): layer 3: attention failed"));
  for (int p = 1; p < N; p++) pthread_join(threads[p], NULL);
  assert_int_equal(parties[2].err.code, YK_E_DEVICE);
  assert_string_equal(parties[2].err.message, err.message);
  yk_cluster_watch(parties[2].cluster, NULL, NULL);
  assert_int_equal(n_calls, 1);
  cluster_leave_all(parties, N);
}

/* A separate process that follows, and exits with 0 if its final error names process 1. */
static pid_t start_follower(cluster_party *party)
{
  pid_t pid = fork();
  if (pid != 0) return pid;
  cluster_join_all(party, 1);
  if (!party->cluster) _exit(2);
  follow(party);
  _exit(strstr(party->err.message, "process 1 (host ") ? 0 : 3);
}

/* Process 1 is killed or stopped while process 0 waits for its answer: both others name it. */
static void a_lost_process_is_named(void **state)
{
  (void)state;
  static const int signals[] = {SIGKILL, SIGSTOP};
  static const char *const part[] = {"has ended: its connection was closed", "has been silent for 1.0 s"};
  for (size_t i = 0; each_case(i, i < sizeof signals / sizeof *signals); i++) {
    cluster_party parties[N];
    pid_t pids[N];
    int exit_status;
    cluster_parties(parties, N, ranks_of, "127.0.0.1");
    for (int p = 0; p < N; p++) parties[p].options.silence_limit_s = i == 0 ? 60 : 1;
    for (int p = 1; p < N; p++) pids[p] = start_follower(&parties[p]);
    cluster_join_all(parties, 1);
    assert_string_equal(parties[0].err.message, "");
    yk_err err = YK_ERR_INIT;
    assert_int_equal(kill(pids[1], signals[i]), 0);
    while (yk_cluster_send(parties[0].cluster, 1, NULL, 0, &err) == YK_OK &&
           yk_cluster_wait(parties[0].cluster, 0, &err) == YK_OK)
      continue;
    assert_non_null(strstr(err.message, "process 1 (host "));
    assert_non_null(strstr(err.message, part[i]));
    kill(pids[1], SIGKILL);
    assert_int_equal(waitpid(pids[2], &exit_status, 0), pids[2]);
    assert_int_equal(exit_status, 0);
    waitpid(pids[1], NULL, 0);
    cluster_leave_all(parties, 1);
  }
}

typedef struct roll_log {
  atomic_int n_here, n_gone;
} roll_log;

static void count_messages(void *user, yk_log_level level, const char *message)
{
  roll_log *log = user;
  (void)level;
  if (strstr(message, "process 1 of 3 is here")) atomic_fetch_add(&log->n_here, 1);
  if (strstr(message, "process 1 on ") && strstr(message, " is gone")) atomic_fetch_add(&log->n_gone, 1);
}

static void wait_for(atomic_int *count)
{
  while (atomic_load(count) == 0) poll(NULL, 0, 5);
}

/* A process that is killed during the roll call frees its number, so that a new process may use the number; the table
 * shows the new process. */
static void a_process_may_come_back(void **state)
{
  (void)state;
  cluster_party parties[N];
  pthread_t first;
  roll_log counts = {0};
  const yk_log log = {.level = YK_LOG_INFO, .write = count_messages, .user = &counts};
  cluster_parties(parties, N, ranks_of, "127.0.0.1");
  parties[0].options.log = &log;
  pid_t pid = start_follower(&parties[1]);
  assert_int_equal(pthread_create(&first, NULL, join_party, &parties[0]), 0);
  wait_for(&counts.n_here);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  wait_for(&counts.n_gone);
  pthread_t second;
  assert_int_equal(pthread_create(&second, NULL, join_party, &parties[1]), 0);
  cluster_join_all(&parties[2], 1);
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  for (int p = 0; p < N; p++) assert_int_equal(parties[p].status, YK_OK);
  assert_non_null(strstr(parties[2].report, "came and ended before the run started"));
  cluster_leave_all(parties, N);
}

/* ---- addresses ---- */

static bool set_address(int fd, const char *interface, const char *text)
{
  struct ifreq request = {0};
  struct sockaddr_in address = {.sin_family = AF_INET};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
  inet_pton(AF_INET, text, &address.sin_addr);
  memcpy(&request.ifr_addr, &address, sizeof address);
  return ioctl(fd, SIOCSIFADDR, &request) == 0;
}

/* Two hosts' addresses on the loopback interface of a network namespace of this process. */
static bool make_network(void)
{
  struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  bool is_made = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &up) == 0 && set_address(fd, "lo:1", "10.9.8.1") &&
                 set_address(fd, "lo:2", "10.9.8.2");
  close(fd);
  return is_made;
}

/* A knock without a key from the address of the other host. */
static void knock_from_other_host(const cluster_party *parties, const char *refusal)
{
  struct sockaddr_in own = {.sin_family = AF_INET}, master = {.sin_family = AF_INET};
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)60 * 1000000000;
  yk_err err = YK_ERR_INIT;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  inet_pton(AF_INET, "10.9.8.2", &own.sin_addr);
  inet_pton(AF_INET, "10.9.8.1", &master.sin_addr);
  master.sin_port = htons((uint16_t)parties[0].listener.port);
  assert_int_equal(bind(fd, (const struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&master, sizeof master), 0);
  yk_knock(fd, (yk_secret){0}, "no entry", 8, deadline_ns, &err);
  close(fd);
  if (!strstr(err.message, refusal)) assert_string_equal(err.message, refusal);
}

/* Without a key a host must be named; then only its message counts. */
static void other_hosts_need_a_key_or_a_name(void **state)
{
  (void)state;
  static const int one_each[2] = {1, 1};
  static const char *const named[] = {"10.9.8.2"};
  static const char *const refusals[] = {"without a key only this machine and the hosts named may connect",
                                         "its message is malformed"};
  if (!make_network()) skip();
  for (int n_named = 0; each_case(n_named, n_named <= 1); n_named++) {
    cluster_party parties[2];
    pthread_t first;
    cluster_parties(parties, 2, one_each, "10.9.8.1");
    for (int p = 0; p < 2; p++) parties[p].options.key = NULL;
    parties[0].options.allowed_hosts = named;
    parties[0].options.n_allowed = n_named;
    assert_int_equal(pthread_create(&first, NULL, join_party, &parties[0]), 0);
    knock_from_other_host(parties, refusals[n_named]);
    cluster_join_all(&parties[1], 1); /* from the address of process 0 itself */
    pthread_join(first, NULL);
    for (int p = 0; p < 2; p++) assert_int_equal(parties[p].status, YK_OK);
    cluster_leave_all(parties, 2);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lost_process_is_named), /* first: it forks, and no thread runs yet */
      cmocka_unit_test(a_run_in_order),
      cmocka_unit_test(one_process_needs_no_network),
      cmocka_unit_test(differing_facts_are_named),
      cmocka_unit_test(unfit_processes_are_named),
      cmocka_unit_test(the_missing_are_named),
      cmocka_unit_test(an_absent_process_0_is_named),
      cmocka_unit_test(strangers_disturb_nothing),
      cmocka_unit_test(a_connection_without_an_answer_is_tried_again),
      cmocka_unit_test(a_second_process_of_a_number_is_refused),
      cmocka_unit_test(a_failure_reaches_all),
      cmocka_unit_test(a_process_may_come_back),
      cmocka_unit_test(other_hosts_need_a_key_or_a_name), /* last: it leaves the network */
  };
  return cmocka_run_group_tests_name("cluster", tests, NULL, NULL);
}
