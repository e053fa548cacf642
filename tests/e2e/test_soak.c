/* Many mixed requests at once with too little memory for them: random lengths, shared beginnings, every sampling parameter,
 * cancellations, callers that walk away, held sequences, preemptions. Nothing may leak or hang, and every answer must be
 * the one its request gets alone.                                                                                    */
#include <getopt.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "e2e/soak_callers.h"

static const char USAGE[] =
    "usage: test_soak [--model DIR] [--tp N] [--requests N] [--seed N] [--kv-tokens N] [--threads N] [--time-limit S]\n"
    "Runs N mixed requests (default 200) on the demo model and compares them with the same requests run alone.\n"
    "  --kv-tokens   tokens that the KV cache holds (default 480): few, so that running requests are preempted\n"
    "  --threads     callers, each with 4 requests at once (default 16)\n"
    "  --time-limit  seconds after which it hangs (default 240)\n"
    "Device: YOKE_TEST_DEVICE=cpu|cuda; ranks: YOKE_TEST_RANKS unless --tp is given.\n\n"
    "example: YOKE_TEST_DEVICE=cuda test_soak --tp 4 --requests 10000\n";

typedef struct soak_options {
  char model[512];
  int n_ranks, n_requests, seed, kv_tokens, n_threads, time_limit_s;
} soak_options;

/* In use by the process, and free on each GPU. */
typedef struct memory {
  int64_t heap_bytes, resident_bytes;
  int n_devices;
  yk_device_info devices[1 + YOKE_MAX_RANKS];
} memory;

/* How much more may be in use after the last request than after the first quarter of them. GPUs and their drivers keep
 * graphs of step sizes that come late; sanitizers keep what is freed.                                                 */
enum {
  MAX_HEAP_GROWTH = 128 << 10,
  MAX_HEAP_GROWTH_BESIDE_GPUS = 8 << 20,
  MAX_RESIDENT_GROWTH = 64 << 20,
  MAX_GPU_GROWTH = 64 << 20
};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HOST_MEMORY_IS_TELLING = 0 };
#else
enum { HOST_MEMORY_IS_TELLING = 1 };
#endif

static memory measure(void)
{
  memory out = {0};
  long n_pages = 0;
  /* First: the driver keeps memory of the host for each GPU that it has been asked about. */
  assert_int_equal(yk_device_list(out.devices, 1 + YOKE_MAX_RANKS, &out.n_devices, NULL), YK_OK);
  malloc_trim(0);
  out.heap_bytes = (int64_t)mallinfo2().uordblks + (int64_t)mallinfo2().hblkhd;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%*d %ld", &n_pages), 1);
  fclose(file);
  out.resident_bytes = n_pages * sysconf(_SC_PAGESIZE);
  return out;
}

static double mb(int64_t n_bytes)
{
  return (double)n_bytes * 1e-6;
}

static void print_memory(const char *when, const memory *m)
{
  printf("  %s: heap %.2f MB, resident %.1f MB", when, mb(m->heap_bytes), mb(m->resident_bytes));
  for (int i = 1; i < m->n_devices; i++) printf(", GPU %d free %.1f MB", i - 1, mb(m->devices[i].free_bytes));
  printf("\n");
}

static void check_growth(const memory *before, const memory *after)
{
  bool on_gpus = test_backend_chosen().kind == YK_DEVICE_CUDA;
  int64_t heap = after->heap_bytes - before->heap_bytes, resident = after->resident_bytes - before->resident_bytes;
  if (HOST_MEMORY_IS_TELLING && heap > (on_gpus ? MAX_HEAP_GROWTH_BESIDE_GPUS : MAX_HEAP_GROWTH))
    fail_msg("the heap grew by %.2f MB", mb(heap));
  if (HOST_MEMORY_IS_TELLING && resident > MAX_RESIDENT_GROWTH)
    fail_msg("resident memory grew by %.1f MB", mb(resident));
  for (int i = 1; i < after->n_devices && on_gpus; i++) {
    int64_t lost = before->devices[i].free_bytes - after->devices[i].free_bytes;
    if (lost > MAX_GPU_GROWTH) fail_msg("GPU %d lost %.1f MB", i - 1, mb(lost));
  }
}

/* Requests that were left are dropped by the engine in its own time. */
static yk_engine_stats wait_until_idle(yk_engine *engine)
{
  enum { LIMIT_S = 30 };
  yk_engine_stats stats;
  int64_t started_ns = yk_clock_now_ns();
  for (;;) {
    yk_engine_get_stats(engine, &stats);
    if (stats.running + stats.waiting == 0) break;
    if (yk_clock_seconds_since(started_ns) > LIMIT_S)
      fail_msg("%d requests still run and %d wait, with nobody left to read them", stats.running, stats.waiting);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
  return stats;
}

static yk_engine_options engine_options(const soak_options *o)
{
  yk_engine_options options = fixture_options("", o->n_ranks);
  options.model_dir = o->model;
  options.n_ranks = o->n_ranks;
  options.n_cpu_threads = 0;
  options.max_model_tokens = SOAK_MAX_PROMPT + SOAK_MAX_OUTPUT;
  options.max_batched_tokens = 256;
  options.max_seqs = 48;
  options.kv_cache_bytes = fixture_kv_bytes(&options, o->kv_tokens);
  return options;
}

static void answer_alone(const soak_options *o, soak_cases *cases)
{
  enum { MIN_CASES = 40, MAX_CASES = 400 };
  int n_cases = o->n_requests / 5;
  yk_engine_options options = engine_options(o);
  options.no_prefix_reuse = true;
  yk_engine *engine = fixture_open(&options);
  soak_cases_create(cases, engine, o->model,
                    n_cases < MIN_CASES   ? MIN_CASES
                    : n_cases > MAX_CASES ? MAX_CASES
                                          : n_cases,
                    (uint64_t)o->seed);
  soak_cases_answer(cases, engine);
  fixture_close(engine);
}

static void print_counts(const soak_counts *c, const yk_engine_stats *stats)
{
  printf("  finished %lld, cancelled %lld, left unread %lld; %lld held sequences; %llu preemptions; %.0f %% of tokens "
         "found computed\n",
         (long long)c->finished, (long long)c->cancelled, (long long)c->left, (long long)c->sequences,
         (unsigned long long)stats->preemptions,
         100.0 * (double)stats->prefix_reused_tokens / (double)stats->prefix_tokens);
  printf("  greedy: %lld as alone, %lld parted at a near tie; others: %lld as alone, %lld parted; %lld wrong\n",
         (long long)c->greedy_equal, (long long)c->greedy_near_tie, (long long)c->other_equal,
         (long long)c->other_parted, (long long)c->wrong);
  printf("  log-probabilities differ by at most %g, of drawn and prompt tokens %g\n", (double)c->worst_logprob,
         (double)c->worst_rare_logprob);
}

static void run_round(const soak_options *o, yk_engine *engine, const soak_cases *cases, int first, int end,
                      soak_counts *counts)
{
  yk_engine_stats stats;
  /* Cases and what is done with them are drawn apart. */
  if (soak_callers_run(engine, cases, ~(uint64_t)o->seed, first, end, o->n_threads, o->time_limit_s, counts)) return;
  yk_engine_get_stats(engine, &stats);
  fail_msg("not done within %d s: %d requests run, %d wait, %llu steps", o->time_limit_s, stats.running, stats.waiting,
           (unsigned long long)stats.steps);
}

static void nothing_leaks_and_every_answer_is_as_alone(void **state)
{
  const soak_options *o = *state;
  soak_cases cases;
  soak_counts counts = {0};
  int64_t started_ns = yk_clock_now_ns();
  answer_alone(o, &cases);
  double alone_s = yk_clock_seconds_since(started_ns);
  yk_engine_options options = engine_options(o);
  yk_engine *engine = fixture_open(&options);
  started_ns = yk_clock_now_ns();
  run_round(o, engine, &cases, 0, o->n_requests / 4, &counts);
  wait_until_idle(engine);
  memory warm = measure();
  run_round(o, engine, &cases, o->n_requests / 4, o->n_requests, &counts);
  yk_engine_stats stats = wait_until_idle(engine);
  memory end = measure();
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  printf("%s, %d ranks: %d requests in %.1f s; %d distinct ones alone in %.1f s\n", info.device, info.n_ranks,
         o->n_requests, yk_clock_seconds_since(started_ns), cases.n_cases, alone_s);
  print_counts(&counts, &stats);
  print_memory("after a quarter", &warm);
  print_memory("at the end", &end);
  fixture_close(engine);
  soak_cases_destroy(&cases);
  assert_int_equal(counts.wrong, 0);
  assert_int_equal(counts.submitted, o->n_requests);
  assert_int_equal(counts.finished + counts.cancelled + counts.left, o->n_requests);
  assert_true(counts.cancelled > o->n_requests / 50 && counts.sequences > o->n_requests / 50);
  assert_true((int64_t)stats.preemptions > o->n_requests / 100);
  assert_true(5 * counts.other_parted <= counts.other_equal); /* draws near a border, on GPUs only */
  check_growth(&warm, &end);
}

static bool parse_number(const char *text, int max, int *out)
{
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || *end || value < 1 || value > max) return false;
  *out = (int)value;
  return true;
}

static bool parse_options(int argc, char **argv, soak_options *o)
{
  static const struct option names[] = {
      {"model", 1, 0, 'm'},   {"tp", 1, 0, 't'},        {"requests", 1, 0, 'r'},   {"seed", 1, 0, 's'},
      {"threads", 1, 0, 'c'}, {"kv-tokens", 1, 0, 'k'}, {"time-limit", 1, 0, 'l'}, {0}};
  test_backend backend = test_backend_chosen();
  *o = (soak_options){.n_ranks = backend.n_ranks ? backend.n_ranks : 3,
                      .n_requests = 200,
                      .seed = 1,
                      .kv_tokens = 480,
                      .n_threads = 16,
                      .time_limit_s = 240};
  snprintf(o->model, sizeof o->model, "%s/models/demo", test_data_dir());
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    bool ok = option != '?';
    if (option == 'm') snprintf(o->model, sizeof o->model, "%s", optarg);
    if (option == 't') ok = parse_number(optarg, YOKE_MAX_RANKS, &o->n_ranks);
    if (option == 'r') ok = parse_number(optarg, 10000000, &o->n_requests);
    if (option == 's') ok = parse_number(optarg, 1 << 30, &o->seed);
    if (option == 'c') ok = parse_number(optarg, 256, &o->n_threads);
    if (option == 'k') ok = parse_number(optarg, 1 << 30, &o->kv_tokens);
    if (option == 'l') ok = parse_number(optarg, 1 << 20, &o->time_limit_s);
    if (!ok) return false;
  }
  return optind == argc;
}

int main(int argc, char **argv)
{
  static soak_options options;
  if (!parse_options(argc, argv, &options)) return fputs(USAGE, stderr), 2;
  int status = test_backend_gate(test_backend_chosen().kind, options.n_ranks);
  if (status) return status;
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(nothing_leaks_and_every_answer_is_as_alone, &options)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
