#include "fault/hook/failure_cases.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "e2e/backend.h"
#include "fault/hook/fault_hook.h"

/* ---- In the case's process --------------------------------------------------------------------------------------- */

enum { N_REQUESTS = 6, N_TOKENS = 16, N_ANSWERS = 2 };

static const double create_limit_s = 30, refusal_limit_s = 5, destroy_limit_s = 15;

typedef struct answers {
  int32_t ids[N_ANSWERS][N_TOKENS];
} answers;

#define require(condition, ...)                                                                                        \
  do {                                                                                                                 \
    if (condition) break;                                                                                              \
    printf("not so: %s: ", #condition);                                                                                \
    printf(__VA_ARGS__);                                                                                               \
    printf("\n");                                                                                                      \
    fflush(NULL);                                                                                                      \
    _exit(1);                                                                                                          \
  } while (0)

static void report(const char *what, int64_t start_ns, const char *words)
{
  printf("%-28s %6.2f s  %s\n", what, yk_clock_seconds_since(start_ns), words);
  fflush(stdout);
}

static void sleep_ms(long ms)
{
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static yk_status create(const failure_case *c, yk_device_kind kind, double step_timeout_s, yk_engine **out, yk_err *err)
{
  char dir[512];
  yk_engine_options options;
  yk_engine_options_init(&options);
  snprintf(dir, sizeof dir, "%s/golden/families/qwen3", test_data_dir());
  options.model_dir = dir;
  options.device = kind;
  options.n_ranks = c->n_ranks;
  options.disable_custom_all_reduce = c->nccl_only;
  options.n_cpu_threads = 1;
  options.max_model_tokens = 64;
  options.max_batched_tokens = 32;
  options.max_seqs = 2; /* so that most requests still wait when it fails */
  options.step_timeout_s = step_timeout_s;
  options.log.level = YK_LOG_ERROR;
  return yk_engine_create(&options, out, err);
}

static yk_status submit(yk_engine *engine, int index, yk_request **out, yk_err *err)
{
  static const int32_t ids[] = {1, 17, 93, 5, 44, 120, 8, 61, 30, 11};
  const yk_logit_bias bias = {3, 0.5f};
  yk_request_options options;
  yk_request_options_init(engine, &options);
  options.ids = ids;
  options.n_ids = (size_t)(4 + index);
  options.sampling.temperature = 0;
  options.sampling.max_tokens = N_TOKENS;
  options.sampling.ignore_eos = true;
  options.sampling.biases = &bias; /* read by the sampling rank, never after the request is freed */
  options.sampling.n_biases = 1;
  options.sampling.presence_penalty = 0.1f;
  return yk_engine_submit(engine, &options, out, err);
}

/* Reads to the end and frees. */
static yk_finish_reason read_request(yk_request *request, int32_t *ids, yk_err *err)
{
  yk_finish_reason reason = YK_FINISH_NONE;
  for (int32_t n = 0; reason == YK_FINISH_NONE;) {
    const yk_output *output;
    yk_status status = yk_request_next(request, 60, &output, err);
    require(status != YK_E_AGAIN, "no output for a minute");
    reason = status == YK_OK ? output->finish : YK_FINISH_ERROR;
    if (status == YK_OK && output->has_token && ids && n < N_TOKENS) ids[n++] = output->token_id;
  }
  yk_request_free(request);
  return reason;
}

/* The requests that later fail; run once before, so that CUDA has loaded everything they need. */
static void serve_all(yk_engine *engine)
{
  yk_request *requests[N_REQUESTS];
  yk_err err = YK_ERR_INIT;
  for (int i = 0; i < N_REQUESTS; i++) require(submit(engine, i, &requests[i], &err) == YK_OK, "%s", err.message);
  for (int i = 0; i < N_REQUESTS; i++) {
    yk_finish_reason reason = read_request(requests[i], NULL, &err);
    require(reason == YK_FINISH_LENGTH, "%s: %s", yk_finish_reason_name(reason), err.message);
  }
}

/* An engine without a fault, from creation to destruction. */
static void live(const failure_case *c, yk_device_kind kind, answers *out)
{
  yk_engine *engine;
  yk_err err = YK_ERR_INIT;
  int64_t start_ns = yk_clock_now_ns();
  require(create(c, kind, 0, &engine, &err) == YK_OK, "%s", err.message);
  require(yk_clock_seconds_since(start_ns) < create_limit_s, "after %.1f s", yk_clock_seconds_since(start_ns));
  for (int i = 0; i < N_ANSWERS; i++) {
    yk_request *request;
    require(submit(engine, i, &request, &err) == YK_OK, "%s", err.message);
    yk_finish_reason reason = read_request(request, out->ids[i], &err);
    require(reason == YK_FINISH_LENGTH, "%s: %s", yk_finish_reason_name(reason), err.message);
  }
  serve_all(engine);
  yk_engine_destroy(engine);
  report("an engine without fault", start_ns, "");
}

/* Free bytes of every GPU in use. */
static void measure(const failure_case *c, yk_device_kind kind, int64_t *free_bytes)
{
  yk_device_info devices[YK_MAX_RANKS + 1];
  int n = 0;
  memset(free_bytes, 0, YK_MAX_RANKS * sizeof *free_bytes);
  if (kind != YK_DEVICE_CUDA) return;
  yk_device_list(devices, c->n_ranks + 1, &n, NULL);
  for (int rank = 0; rank < c->n_ranks && rank + 1 < n; rank++) free_bytes[rank] = devices[rank + 1].free_bytes;
}

static void check_error(const failure_case *c, const yk_err *err)
{
  require(c->code == YK_OK || err->code == c->code, "%s: %s", yk_status_name(err->code), err->message);
  require(c->rank < 0 || err->rank == c->rank, "rank %d: %s", err->rank, err->message);
  for (int i = 0; i < 6 && c->parts[i]; i++)
    require(strstr(err->message, c->parts[i]), "expected \"%s\" in: %s", c->parts[i], err->message);
}

/* Every request, running or waiting, ends with the same error, and a new one is refused with it. */
static void fail_requests(const failure_case *c, yk_engine *engine)
{
  yk_request *requests[N_REQUESTS], *refused;
  yk_err first = YK_ERR_INIT, refusal = YK_ERR_INIT;
  int64_t start_ns = yk_clock_now_ns();
  for (int i = 0; i < N_REQUESTS; i++) require(submit(engine, i, &requests[i], &first) == YK_OK, "%s", first.message);
  for (int i = 0; i < N_REQUESTS; i++) {
    yk_err err = YK_ERR_INIT;
    yk_finish_reason reason = read_request(requests[i], NULL, &err);
    if (reason == YK_FINISH_LENGTH) { /* before it happened */
      require(!first.code, "request %d was answered after another had failed", i);
      continue;
    }
    require(reason == YK_FINISH_ERROR, "request %d: %s", i, yk_finish_reason_name(reason));
    if (!first.code) first = err;
    require(strcmp(first.message, err.message) == 0, "request %d: %s; another: %s", i, err.message, first.message);
  }
  report("requests ended", start_ns, first.message);
  require(fault_hook_happened(), "the fault did not come about");
  require(first.code != YK_OK, "no request failed");
  require(yk_clock_seconds_since(start_ns) < c->within_s, "after %.1f s", yk_clock_seconds_since(start_ns));
  check_error(c, &first);
  require(submit(engine, 0, &refused, &refusal) == first.code, "%s", refusal.message);
  require(strcmp(first.message, refusal.message) == 0, "%s", refusal.message);
}

static void fail_engine(const failure_case *c, yk_device_kind kind)
{
  yk_engine *engine = NULL;
  yk_err err = YK_ERR_INIT;
  setenv("YOKE_FAULT", c->fault, 1);
  fault_hook_arm();
  int64_t start_ns = yk_clock_now_ns();
  yk_status status = create(c, kind, c->step_timeout_s, &engine, &err);
  report(c->fails_at_load ? "create refused" : "created", start_ns, err.message);
  if (c->fails_at_load) {
    require(fault_hook_happened(), "the fault did not come about");
    require(status != YK_OK, "create works");
    check_error(c, &err);
  } else {
    require(status == YK_OK, "%s", err.message);
    fail_requests(c, engine);
    start_ns = yk_clock_now_ns();
    bool all_freed = yk_engine_destroy(engine);
    report(all_freed ? "destroyed" : "left alone", start_ns, "");
    require(all_freed == (c->end < LEFT_ALONE), "destroy says %s", all_freed ? "all freed" : "a rank hangs");
    require(yk_clock_seconds_since(start_ns) < destroy_limit_s, "after %.1f s", yk_clock_seconds_since(start_ns));
  }
  if (c->end == LEFT_ALONE) return; /* its rank may still read the fault, which occurs about once */
  unsetenv("YOKE_FAULT");
  fault_hook_arm();
}

static void expect_refusal(const failure_case *c, yk_device_kind kind, double limit_s)
{
  yk_engine *engine = NULL;
  yk_err err = YK_ERR_INIT;
  int64_t start_ns = yk_clock_now_ns();
  yk_status status = create(c, kind, 0, &engine, &err);
  report("create again", start_ns, err.message);
  require(status == YK_E_DEVICE, "%s", yk_status_name(status));
  require(strstr(err.message, "a new process is needed"), "%s", err.message);
  require(strstr(err.message, "GPU "), "%s", err.message);
  require(yk_clock_seconds_since(start_ns) < limit_s, "after %.1f s", yk_clock_seconds_since(start_ns));
}

static void check_memory(const failure_case *c, yk_device_kind kind, const int64_t *before)
{
  if (kind != YK_DEVICE_CUDA) return;
  const int64_t slack_bytes = INT64_C(16) << 20;
  int64_t after[YK_MAX_RANKS];
  measure(c, kind, after);
  for (int rank = 0; rank < c->n_ranks; rank++) {
    printf("GPU %d: %.1f MB free, %.1f MB before\n", rank, (double)after[rank] * 1e-6, (double)before[rank] * 1e-6);
    if (c->runs_alone) require(after[rank] >= before[rank] - slack_bytes, "memory of GPU %d is lost", rank);
  }
}

static void run_case(const failure_case *c, yk_device_kind kind)
{
  static answers before, after;
  int64_t free_bytes[YK_MAX_RANKS];
  live(c, kind, &before);
  measure(c, kind, free_bytes);
  fail_engine(c, kind);
  if (c->end == NEW_PROCESS) {
    expect_refusal(c, kind, refusal_limit_s);
    expect_refusal(c, kind, refusal_limit_s);
    return;
  }
  if (c->end == STILL_HANGS) {
    expect_refusal(c, kind, create_limit_s);
    expect_refusal(c, kind, create_limit_s);
    fault_hook_release();
    sleep_ms(500);
  } else if (c->end == AGAIN_WORKS) {
    check_memory(c, kind, free_bytes);
  }
  live(c, kind, &after);
  require(memcmp(&before, &after, sizeof before) == 0, "the new engine answers differently");
}

/* ---- In the test's process --------------------------------------------------------------------------------------- */

/* The cases and their processes; a case that has not started has none. */
typedef struct suite {
  yk_device_kind kind;
  const failure_case *cases;
  int n_cases, n_parallel, n_started;
  pid_t pids[64];
  FILE *logs[64];
} suite;

typedef struct one_test {
  suite *all;
  int index;
} one_test;

static bool can_run(const suite *s, int index)
{
  return test_backend_gate(s->kind, s->cases[index].n_ranks) == 0;
}

static void start_case(suite *s, int index)
{
  char name[128];
  s->n_started = index + 1;
  s->pids[index] = -1;
  if (!can_run(s, index)) return;
  snprintf(name, sizeof name, "%s", s->cases[index].name);
  s->logs[index] = tmpfile();
  assert_non_null(s->logs[index]);
  fflush(NULL);
  s->pids[index] = fork();
  assert_int_not_equal(s->pids[index], -1);
  if (s->pids[index] != 0) return;
  dup2(fileno(s->logs[index]), STDOUT_FILENO);
  dup2(fileno(s->logs[index]), STDERR_FILENO);
  execl("/proc/self/exe", "test_failures", "--case", name, (char *)NULL);
  _exit(127);
}

/* This case, and the following ones that may run at the same time. */
static void start_cases(suite *s, int index)
{
  if (s->n_started <= index) start_case(s, index);
  if (s->cases[index].runs_alone) return;
  while (s->n_started < s->n_cases && s->n_started < index + s->n_parallel && !s->cases[s->n_started].runs_alone)
    start_case(s, s->n_started);
}

/* Its exit status, or -1 if it was killed. */
static int wait_for_case(pid_t pid)
{
  enum { LIMIT_S = 90 };
  int64_t start_ns = yk_clock_now_ns();
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (yk_clock_seconds_since(start_ns) > LIMIT_S) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    sleep_ms(10);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_log(FILE *log)
{
  char line[1024];
  rewind(log);
  while (fgets(line, sizeof line, log)) printf("  %s", line);
  fclose(log);
}

static void a_case(void **state)
{
  const one_test *test = *state;
  suite *s = test->all;
  start_cases(s, test->index);
  if (s->pids[test->index] < 0) skip();
  int code = wait_for_case(s->pids[test->index]);
  print_log(s->logs[test->index]);
  if (code != 0) fail_msg("%s: exit code %d", s->cases[test->index].name, code);
}

int failure_cases_main(int argc, char **argv, yk_device_kind kind, const failure_case *cases, int n_cases,
                       int n_parallel)
{
  static suite all;
  static one_test tests[64];
  static struct CMUnitTest units[64];
  for (int i = 0; argc == 3 && i < n_cases; i++)
    if (strcmp(argv[2], cases[i].name) == 0) {
      run_case(&cases[i], kind);
      fflush(NULL);
      _exit(0); /* no cleanup in a process whose CUDA context may be lost */
    }
  if (argc > 1) {
    printf("%s: expected --case and a name\n", argv[0]);
    return 2;
  }
  int gate = test_backend_gate(kind, cases[0].n_ranks);
  if (gate) return gate;
  all = (suite){.kind = kind, .cases = cases, .n_cases = n_cases, .n_parallel = n_parallel};
  for (int i = 0; i < n_cases; i++) {
    tests[i] = (one_test){&all, i};
    units[i] = (struct CMUnitTest){cases[i].name, a_case, NULL, NULL, &tests[i]};
  }
  return _cmocka_run_group_tests("failures", units, (size_t)n_cases, NULL, NULL);
}
