#include "cli/plan/plan_layouts.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"

enum { MAX_LAYOUTS = 256, SHOWN = 10 };

typedef struct candidate {
  yk_layout layout;
  yk_layout_speed speed;
  bool fits;
  double running;                       /* requests that run in a replica */
  double user_rate, all_rate, gpu_rate; /* tokens/s: of a request, of all GPUs, of one */
  int64_t weight_bytes, kv_tokens;      /* of the fullest GPU; of a replica */
} candidate;

typedef struct ranking {
  const yk_plan_layouts_options *options;
  const yk_engine_options *engine;
  yk_model_shapes shapes;
  yk_layout_hosts hosts;
  int64_t memory_bytes;
  yk_plan plan; /* of the present candidate */
  candidate candidates[MAX_LAYOUTS];
  int n;
} ranking;

static int n_gpus_of(const ranking *r)
{
  return r->hosts.n_hosts * r->hosts.gpus_per_host;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The fullest GPU, and the tokens of KV that every one has room for. */
static void size_ranks(const ranking *r, candidate *c)
{
  const yk_plan *plan = &r->plan;
  double kv_tokens = INFINITY;
  c->weight_bytes = 0;
  for (int i = 0; i < plan->n_ranks; i++) {
    const yk_rank_memory *memory = &plan->memory[i];
    double left = r->engine->gpu_memory_utilization * (double)r->memory_bytes - (double)memory->weight_bytes -
                  (double)(plan->state_bytes[i] + memory->workspace_bytes);
    if (plan->kv_bytes_per_token[i]) kv_tokens = fmin(kv_tokens, left / (double)plan->kv_bytes_per_token[i]);
    if (left < 0) kv_tokens = 0;
    if (memory->weight_bytes > c->weight_bytes) c->weight_bytes = memory->weight_bytes;
  }
  c->kv_tokens = kv_tokens < 1e15 ? (int64_t)fmax(kv_tokens, 0) : 0;
}

/* ---- Candidates -------------------------------------------------------------------------------------------------- */

static double wanted_users(const ranking *r)
{
  if (r->options->n_users) return r->options->n_users;
  return r->options->goal == YK_GOAL_LATENCY ? 1 : INFINITY;
}

static void rate(const ranking *r, candidate *c)
{
  double tokens = r->options->input_len + r->options->output_len, users = wanted_users(r);
  size_ranks(r, c);
  double capacity = fmin(floor((double)c->kv_tokens / tokens), (double)r->plan.max_seqs);
  c->fits = capacity >= 1;
  if (!c->fits) return;
  c->running = fmin(capacity, ceil(users / c->layout.replicas));
  const yk_layout_load load = {c->running, r->options->input_len, r->options->output_len,
                               r->engine->kv_cache_dtype != YK_KV_CACHE_AUTO, r->engine->lm_head == YK_LM_HEAD_INT8};
  c->speed = yk_layout_compute(&r->shapes, &r->hosts, &c->layout, &load);
  c->user_rate = 1 / c->speed.step_s;
  c->all_rate = c->speed.replica_rate * fmin(c->layout.replicas, users);
  c->gpu_rate = c->all_rate / n_gpus_of(r);
}

static yk_status add(ranking *r, int tp, int pp, yk_err *err)
{
  candidate *c = &r->candidates[r->n];
  yk_engine_options engine = *r->engine;
  *c = (candidate){.layout = {tp, pp, n_gpus_of(r) / (tp * pp)}};
  if (!yk_layout_is_placed(&r->hosts, &c->layout)) return YK_OK;
  engine.device = YK_DEVICE_CUDA;
  engine.device_ids = NULL;
  engine.n_ranks = tp * pp;
  engine.n_stages = pp;
  YK_TRY(yk_plan_make(&engine, r->memory_bytes, &r->plan, err));
  rate(r, c);
  r->n++;
  return YK_OK;
}

static yk_status add_all(ranking *r, yk_err *err)
{
  int n_gpus = n_gpus_of(r);
  for (int ranks = 1; ranks <= n_gpus && ranks <= YK_MAX_RANKS; ranks++)
    for (int pp = 1; pp <= ranks && pp <= r->shapes.n_layers && n_gpus % ranks == 0; pp++)
      if (ranks % pp == 0 && r->n < MAX_LAYOUTS) YK_TRY(add(r, ranks / pp, pp, err));
  return YK_OK;
}

static double score(const candidate *c, int goal)
{
  return !c->fits ? 0 : goal == YK_GOAL_LATENCY ? c->user_rate : c->all_rate;
}

/* By the goal, the best first; equal ones with fewer GPUs a replica first. */
static void sort(ranking *r)
{
  for (int i = 1; i < r->n; i++)
    for (int j = i; j > 0; j--) {
      candidate *a = &r->candidates[j - 1], *b = &r->candidates[j], moved = *a;
      if (score(a, r->options->goal) >= score(b, r->options->goal)) break;
      *a = *b;
      *b = moved;
    }
}

/* ---- Output ------------------------------------------------------------------------------------------------------ */

static void print_head(const ranking *r)
{
  const yk_layout_hosts *hosts = &r->hosts;
  char memory[YK_BYTES_TEXT];
  printf("For %d x %d %s with %s each, %s", hosts->n_hosts, hosts->gpus_per_host, hosts->gpu.name,
         yk_bytes_format(r->memory_bytes, memory), hosts->gpu.has_nvlink ? "NVLink" : "PCIe");
  if (hosts->n_hosts > 1)
    printf(", %g Gb/s and %g us between hosts", hosts->link_bytes_per_s * 8e-9, hosts->link_latency_s * 1e6);
  printf("; rates %s.\n%d tokens in, %d out; goal: %s.\n",
         r->options->hosts.machine_path ? "of --machine"
         : hosts->gpu.is_measured       ? "as measured on such GPUs"
                                        : "from the datasheet",
         r->options->input_len, r->options->output_len, r->options->goal == YK_GOAL_LATENCY ? "latency" : "throughput");
  printf("%-24s %8s %10s %10s %10s %9s %11s %11s\n", "", "running", "tokens/s", "tokens/s", "tokens/s", "first", "",
         hosts->n_hosts > 1 ? "sent a host" : "");
  printf("%-24s %8s %10s %10s %10s %9s %11s %11s\n", "replicas x tp x pp", "each", "a request", "in all", "a GPU",
         "token ms", "all-reduces", hosts->n_hosts > 1 ? "and token" : "");
}

static void print_row(const ranking *r, const candidate *c)
{
  char layout[64], bytes[YK_BYTES_TEXT], have[YK_BYTES_TEXT];
  snprintf(layout, sizeof layout, "%d x %d x %d", c->layout.replicas, c->layout.tp, c->layout.pp);
  if (!c->fits) {
    printf("%-24s does not fit: %s of weights a GPU of %s\n", layout, yk_bytes_format(c->weight_bytes, bytes),
           yk_bytes_format(r->memory_bytes, have));
    return;
  }
  printf("%-24s %8.0f %10.1f %10.0f %10.0f %9.1f %9.0f %% %11s\n", layout, c->running, c->user_rate, c->all_rate,
         c->gpu_rate, 1e3 * c->speed.first_token_s, 100 * c->speed.all_reduce_s / c->speed.step_s,
         r->hosts.n_hosts == 1 ? "" : yk_bytes_format((int64_t)c->speed.sent_bytes, bytes));
}

static const candidate *find(const ranking *r, int replicas, int pp)
{
  for (int i = 0; i < r->n; i++)
    if (r->candidates[i].layout.replicas == replicas && r->candidates[i].layout.pp == pp) return &r->candidates[i];
  return NULL;
}

/* How to start the best one, and why it is not all GPUs in one group. */
static void print_advice(const ranking *r)
{
  const candidate *best = &r->candidates[0], *wide = find(r, 1, 1);
  const yk_layout *layout = &best->layout;
  printf("\nBest: %d server%s of --tensor-parallel-size %d", layout->replicas, layout->replicas > 1 ? "s" : "",
         layout->tp);
  if (layout->pp > 1) printf(" --pipeline-parallel-size %d", layout->pp);
  puts(layout->replicas > 1 ? ", behind a router (scripts/deploy)." : ".");
  if (wide && wide != best && wide->fits && r->options->goal != YK_GOAL_LATENCY)
    printf("One group of all %d GPUs gives %.2f of its tokens/s: all-reduces are %.0f %% of a step%s.\n", n_gpus_of(r),
           wide->all_rate / best->all_rate, 100 * wide->speed.all_reduce_s / wide->speed.step_s,
           r->hosts.n_hosts > 1      ? ", most of them over the network"
           : r->hosts.gpu.has_nvlink ? ""
                                     : ", over PCIe, where replicas win");
}

static yk_status print_json(const candidate *c, yk_err *err)
{
  const yk_layout_speed *s = &c->speed;
  json_t *object = json_pack(
      "{s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "replicas", c->layout.replicas, "tp",
      c->layout.tp, "pp", c->layout.pp, "fits", c->fits, "running", c->running, "tokens_per_s_request", c->user_rate,
      "tokens_per_s", c->all_rate, "tokens_per_s_gpu", c->gpu_rate, "step_ms", 1e3 * s->step_s, "all_reduce_ms",
      1e3 * s->all_reduce_s, "first_token_ms", 1e3 * s->first_token_s, "sent_bytes_per_token",
      (json_int_t)s->sent_bytes, "weight_bytes", (json_int_t)c->weight_bytes, "kv_tokens", (json_int_t)c->kv_tokens);
  int failed = object ? json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) : -1;
  json_decref(object);
  if (failed) return yk_err_set(err, YK_E_NOMEM, "no memory to print a layout");
  putchar('\n');
  return YK_OK;
}

static yk_status print_all(const ranking *r, yk_err *err)
{
  if (!r->options->as_json) print_head(r);
  for (int i = 0; i < r->n; i++) {
    if (r->options->as_json)
      YK_TRY(print_json(&r->candidates[i], err));
    else if (i < SHOWN)
      print_row(r, &r->candidates[i]);
  }
  if (r->n > SHOWN && !r->options->as_json) printf("and %d more (--format json has all)\n", r->n - SHOWN);
  if (r->n == 0 || !r->candidates[0].fits)
    return yk_err_set(err, YK_E_CAPACITY, "no layout fits on %d GPU%s", n_gpus_of(r), n_gpus_of(r) == 1 ? "" : "s");
  if (!r->options->as_json) print_advice(r);
  return YK_OK;
}

static yk_status make(ranking *r, yk_err *err)
{
  YK_TRY(yk_plan_hosts_find(&r->options->hosts, &r->hosts, &r->memory_bytes, err));
  if (r->options->device_memory_bytes) r->memory_bytes = r->options->device_memory_bytes;
  YK_TRY(yk_model_shapes_read(r->engine->model_dir, &r->shapes, err));
  YK_TRY(add_all(r, err));
  sort(r);
  return print_all(r, err);
}

yk_status yk_plan_layouts_print(const yk_plan_layouts_options *options, const yk_engine_options *engine, yk_err *err)
{
  ranking *r = calloc(1, sizeof *r);
  if (!r) return yk_err_set(err, YK_E_NOMEM, "no memory for layouts");
  r->options = options;
  r->engine = engine;
  yk_status status = make(r, err);
  free(r);
  return status;
}
