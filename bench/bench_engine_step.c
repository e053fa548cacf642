/* bench_engine_step.c - the engine thread's own work for a decode step, by parts. There are no ranks and no model;
 * tokens are made up. Parts are timed in processor time of the thread, so that other programs affect the figures
 * through the caches only. Caches are flushed between steps, as a model's step on the same processors would do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "engine/engine_internal.h"
#include "engine/engine_stats.h"
#include "engine/hand_out.h"
#include "engine/request.h"
#include "engine/request_owner.h"
#include "yoke/process.h"

/* The parts. The ranks would wait for the engine during all but the delivery. */
enum { PLAN, SCHEDULED, BUILD, COUNT, COMMIT, HAND_OUT, DELIVER, PARTS };

static const char *const part_names[PARTS] = {"plan", "scheduled", "build", "count", "commit", "hand out", "deliver"};

typedef struct options {
  int32_t n_seqs, n_input, n_output, cache_mib, repeats;
} options;

typedef struct bench {
  options o;
  yk_engine engine;
  yk_request **requests; /* [n_seqs] */
  char *cache;           /* [cache_mib << 20] */
  double *seconds;       /* [PARTS][n_steps] of one repeat */
  int32_t n_steps;
} bench;

static double thread_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static yk_status create(bench *b, yk_err *err)
{
  const options *o = &b->o;
  int32_t longest = o->n_input + o->n_output + 1;
  const yk_device_limits limits = {
      .max_tokens = o->n_seqs * o->n_input, .max_seqs = o->n_seqs, .max_model_tokens = longest, .vocab = 1000};
  const yk_memory_rules rules = {.reuses_prefixes = true};
  yk_engine *e = &b->engine;
  pthread_mutex_init(&e->mutex, NULL);
  e->settings.world = yk_world_of_process(1);
  YK_TRY(yk_memory_pool_create(o->n_seqs * yk_kv_blocks_for(longest), o->n_seqs, &rules, &e->pool, err));
  YK_TRY(yk_scheduler_create(&limits, 1, e->pool, &e->scheduler, err));
  YK_TRY(yk_step_builder_create(&limits, 0, 1, &e->builder, err));
  b->n_steps = o->n_output - 2;
  b->requests = calloc((size_t)o->n_seqs, sizeof *b->requests);
  b->cache = calloc((size_t)o->cache_mib + 1, 1 << 20);
  b->seconds = calloc((size_t)PARTS * (size_t)b->n_steps, sizeof *b->seconds);
  return b->requests && b->cache && b->seconds ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a benchmark");
}

static void destroy(bench *b)
{
  yk_step_builder_destroy(b->engine.builder);
  yk_scheduler_destroy(b->engine.scheduler);
  yk_memory_pool_destroy(b->engine.pool);
  free(b->requests);
  free(b->cache);
  free(b->seconds);
}

static yk_status submit(bench *b, int32_t i, yk_err *err)
{
  yk_sampling sampling = {.top_p = 1, .repetition_penalty = 1, .max_tokens = b->o.n_output, .n_logprobs = -1};
  int32_t *prompt = malloc((size_t)b->o.n_input * sizeof *prompt);
  if (!prompt) return yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  for (int32_t k = 0; k < b->o.n_input; k++) prompt[k] = (i * 7919 + k * 31) % 1000;
  sampling.n_prompt_logprobs = -1;
  yk_status status = yk_request_create(&yk_request_owner, prompt, b->o.n_input, b->o.n_input + b->o.n_output, &sampling,
                                       NULL, 0, NULL, &b->engine.n_cancels, &b->requests[i], err);
  free(prompt);
  if (status == YK_OK) yk_scheduler_add(b->engine.scheduler, &b->requests[i]->seq);
  return status;
}

/* Writes the tokens that rank 0 would have written, and drains them like a reader. */
static void sample(const yk_step *step, uint32_t *state)
{
  for (int32_t i = 0; i < step->counts.n_wanted; i++) {
    *state = *state * 1664525u + 1013904223u;
    step->answer.sampled[i] = (yk_sampled){.state = YK_ROW_SAMPLED, .token_id = (int32_t)(*state >> 8) % 1000};
  }
}

static void read_all(bench *b)
{
  const yk_output *output;
  for (int32_t i = 0; i < b->o.n_seqs; i++)
    while (yk_request_next(b->requests[i], 0, &output, NULL) == YK_OK && output->finish == YK_FINISH_NONE) {
    }
}

static void empty_caches(bench *b)
{
  size_t n_bytes = (size_t)b->o.cache_mib << 20;
  for (size_t i = 0; i < n_bytes; i += 64) b->cache[i]++;
}

/* The parts of one iteration of the engine's loop, in its order (engine_loop.c). */
static void step(bench *b, double seconds[PARTS], uint32_t *state)
{
  yk_engine *e = &b->engine;
  const yk_scheduled *items;
  double at[PARTS + 1];
  at[PLAN] = thread_seconds();
  int32_t n_items = yk_scheduler_plan(e->scheduler, &items);
  at[SCHEDULED] = thread_seconds();
  for (int32_t i = 0; i < n_items; i++)
    if (items[i].enters) items[i].seq->owner->scheduled(items[i].seq);
  at[BUILD] = thread_seconds();
  const yk_step *built = yk_step_builder_build(e->builder, items, n_items, e->pool, false);
  at[COUNT] = thread_seconds();
  double deliver_s = at[COUNT];
  yk_requests_deliver(e);
  int32_t n_prompt = yk_engine_prompt_rows(items, n_items);
  deliver_s = thread_seconds() - deliver_s;
  sample(built, state);
  empty_caches(b);
  double counting_s = thread_seconds();
  yk_engine_count_step(e, built, n_prompt, 0);
  at[COMMIT] = thread_seconds();
  yk_scheduler_commit(e->scheduler);
  at[HAND_OUT] = thread_seconds();
  yk_hand_out(e, items, n_items, built);
  at[DELIVER] = thread_seconds();
  for (int part = 0; part < DELIVER; part++) seconds[part] = at[part + 1] - (part == COUNT ? counting_s : at[part]);
  seconds[DELIVER] = deliver_s;
  read_all(b);
  empty_caches(b);
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median microseconds of the decode steps' parts. */
static yk_status run_repeat(bench *b, double us[PARTS], yk_err *err)
{
  double seconds[PARTS];
  uint32_t state = 1;
  for (int32_t i = 0; i < b->o.n_seqs; i++) YK_TRY(submit(b, i, err));
  step(b, seconds, &state); /* the step of the prompts */
  for (int32_t i = 0; i < b->n_steps; i++) {
    step(b, seconds, &state);
    for (int part = 0; part < PARTS; part++) b->seconds[part * b->n_steps + i] = seconds[part];
  }
  step(b, seconds, &state); /* the step in which sequences end */
  for (int part = 0; part < PARTS; part++) {
    double *of_part = b->seconds + (size_t)part * (size_t)b->n_steps;
    qsort(of_part, (size_t)b->n_steps, sizeof *of_part, compare_doubles);
    us[part] = 1e6 * of_part[b->n_steps / 2];
  }
  for (int32_t i = 0; i < b->o.n_seqs; i++) yk_request_free(b->requests[i]);
  return YK_OK;
}

static yk_status run(bench *b, yk_err *err)
{
  YK_TRY(create(b, err));
  for (int part = 0; part < PARTS; part++) printf("%10s", part_names[part]);
  printf("%14s\n", "all but last");
  for (int32_t i = 0; i < b->o.repeats; i++) {
    double us[PARTS], sum = 0;
    YK_TRY(run_repeat(b, us, err));
    for (int part = 0; part < PARTS; part++) {
      printf("%10.1f", us[part]);
      if (part != DELIVER) sum += us[part];
    }
    printf("%14.1f\n", sum);
    fflush(stdout);
  }
  return YK_OK;
}

int main(int argc, char **argv)
{
  yk_process_init();
  static const char about[] =
      "Microseconds that the engine's thread takes for the parts of a decode step: median over the steps of a run. The "
      "ranks wait for all of them but the delivery of tokens, which is done while they compute.";
  bench b = {.o = {.n_seqs = 1024, .n_input = 128, .n_output = 256, .cache_mib = 64, .repeats = 3}};
  const yk_option own[] = {
      {"sequences", NULL, YK_OPTION_INT, &b.o.n_seqs, "N", .help = "that run at once", .min = 1, .max = 65536},
      {"input-len", NULL, YK_OPTION_INT, &b.o.n_input, "N", .help = "tokens of each prompt", .min = 1, .max = 4096},
      {"output-len", NULL, YK_OPTION_INT, &b.o.n_output, "N", .help = "tokens of each output", .min = 3, .max = 65536},
      {"cache", NULL, YK_OPTION_INT, &b.o.cache_mib, "MIB", .help = "written between steps; 0: caches stay as they are",
       .max = 4096},
      {"repeats", NULL, YK_OPTION_INT, &b.o.repeats, "N", .help = "runs, a line each", .min = 1, .max = 1000},
  };
  const yk_option_group groups[] = {{"Work", own, sizeof own / sizeof own[0]}};
  const yk_command command = {"bench_engine_step", "[options]", about, NULL, groups, .n_groups = 1};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  if (!yk_cli_begin(&command, argc - 1, argv + 1, &arguments, &exit_code)) return exit_code;
  if (run(&b, &err) != YK_OK) exit_code = yk_cli_failure(&err);
  destroy(&b);
  return exit_code;
}
