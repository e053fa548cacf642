/* yoke plan - the memory that a model needs on 1 to 8 ranks, without loading it, and the links between the GPUs. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/options/model_options.h"
#include "cli/options/vllm_options.h"
#include "cli/plan/plan_layouts.h"
#include "cli/plan/plan_links.h"

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const format_names[] = {"text", "json", NULL};

/* Options of commands that open a model on which sizes depend. */
static const char *const model_option_names[] = {"model",
                                                 "revision",
                                                 "download-dir",
                                                 "hf-overrides",
                                                 "tensor-parallel-size",
                                                 "pipeline-parallel-size",
                                                 "enable-expert-parallel",
                                                 "disable-custom-all-reduce",
                                                 "batch-invariant",
                                                 "device",
                                                 "devices",
                                                 "dtype",
                                                 "weights",
                                                 "activations",
                                                 "lm-head",
                                                 "kv-cache-dtype",
                                                 "max-model-len",
                                                 "dense-attention-beyond-index",
                                                 "max-num-seqs",
                                                 "max-num-batched-tokens",
                                                 "gpu-memory-utilization",
                                                 "kv-cache-bytes",
                                                 "state-cache-bytes",
                                                 "enable-lora",
                                                 "max-loras",
                                                 "max-lora-rank",
                                                 "log-level"};

typedef struct plan_options {
  yk_model_options model;
  int64_t device_memory_bytes;
  bool no_link_test;
  int format;
  yk_plan_layouts_options layouts;
} plan_options;

static const char examples[] = "  yoke plan -m Qwen3-8B-AWQ\n"
                               "  yoke plan -m Qwen3-8B-AWQ --device-memory 24GiB --max-model-len 8192\n"
                               "  yoke plan -m DIR_WITH_CONFIG_JSON --device cuda --device-memory 80GiB --tp 4\n"
                               "  yoke plan -m Qwen3-8B-AWQ --tp 4 --format json\n"
                               "  yoke plan -m Qwen3-8B-AWQ --no-link-test\n"
                               "  yoke plan -m Qwen3-8B-AWQ --goal throughput --gpu \"RTX 4090\" --gpus 4\n"
                               "  yoke plan -m Qwen3-32B-AWQ --nodes 2 --link 400Gb --gpu H200\n";
static const char *const goal_names[] = {"none", "latency", "throughput", NULL};

static yk_option_group model_group(const yk_model_options *options, yk_option *table)
{
  yk_option_group group = yk_model_options_group(options);
  size_t n = 0;
  for (size_t i = 0; i < group.n_options; i++)
    for (size_t j = 0; j < sizeof model_option_names / sizeof *model_option_names; j++)
      if (strcmp(group.options[i].name, model_option_names[j]) == 0) table[n++] = group.options[i];
  return (yk_option_group){group.title, table, n};
}

static bool ranks_layouts(const plan_options *options)
{
  return options->layouts.goal != YK_GOAL_NONE || options->layouts.hosts.hosts_given;
}

/* Refuses options that the plan would not use. */
static yk_status check(const plan_options *options, yk_err *err)
{
  const yk_plan_layouts_options *layouts = &options->layouts;
  const yk_model_options *model = &options->model;
  const bool ranks = ranks_layouts(options);
  YK_TRY(yk_plan_hosts_check(&layouts->hosts, ranks, err));
  if (!ranks && (layouts->load_given || layouts->n_users))
    return yk_err_set(err, YK_E_INVAL, "%s: expected --goal or --nodes with it, which rank layouts",
                      layouts->n_users ? "--users" : "--input-len, --output-len");
  if (ranks && (model->ranks_given || model->n_stages > 1 || model->devices.n))
    return yk_err_set(err, YK_E_INVAL,
                      "%s: layouts have every number of ranks and stages; leave it out, or --goal and --nodes",
                      model->devices.n     ? "--devices"
                      : model->ranks_given ? "--tensor-parallel-size"
                                           : "--pipeline-parallel-size");
  if (ranks && model->device == YK_DEVICE_CPU)
    return yk_err_set(err, YK_E_INVAL, "--goal: layouts are for GPUs, found --device cpu");
  if (ranks && model->batch_invariant)
    return yk_err_set(err, YK_E_INVAL, "--batch-invariant: rates of layouts are without it; leave it out");
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(plan_options *options, int argc, char **argv, int *exit_code)
{
  const yk_option own[] = {
      {"device-memory", NULL, YK_OPTION_BYTES, &options->device_memory_bytes, "SIZE",
       .help = "for another machine: memory of each GPU (of CPU ranks with --device cpu), as 80GiB",
       .fallback = "this machine's", .min = 1 << 16},
      {"no-link-test", NULL, YK_OPTION_FLAG, &options->no_link_test,
       .help = "do not test links, some seconds and 200 MB a GPU"},
      {"format", NULL, YK_OPTION_CHOICE, &options->format, NULL,
       .help = "json: a line a rank count, then GPUs and links", .choices = format_names},
  };
  yk_plan_layouts_options *layouts = &options->layouts;
  yk_option layout_table[4 + YK_PLAN_HOSTS_OPTIONS] = {
      {"goal", NULL, YK_OPTION_CHOICE, &layouts->goal, NULL,
       .help = "rank tp x pp x replicas: tokens/s of one request, or of all", .choices = goal_names},
      {"input-len", NULL, YK_OPTION_TOKENS, &layouts->input_len, "N", .help = "tokens of a prompt", .min = 1,
       .max = 1 << 24, .given = &layouts->load_given},
      {"output-len", NULL, YK_OPTION_TOKENS, &layouts->output_len, "N", .help = "tokens of an answer", .min = 1,
       .max = 1 << 24, .given = &layouts->load_given},
      {"users", NULL, YK_OPTION_INT, &layouts->n_users, "N", .help = "requests at a time, over all replicas",
       .fallback = "latency: 1; throughput: as many as fit", .min = 1, .max = 1 << 20},
  };
  yk_plan_hosts_table(&layouts->hosts, layout_table + 4);
  yk_option table[YK_MODEL_OPTIONS];
  const yk_option_group groups[] = {{"Plan", own, 3},
                                    {"Layouts", layout_table, sizeof layout_table / sizeof *layout_table},
                                    model_group(&options->model, table)};
  const yk_command command = {
      "yoke plan",
      "MODEL [options]",
      "Show for 1 to 8 ranks (or the one count of --tensor-parallel-size) whether a model fits, the bytes of each "
      "rank, and how many tokens of KV fit; then the GPUs of this machine, and tests of each link between them and "
      "of all-reduces over them. Loads no weights: config.json alone is enough, and formats are then those that it "
      "names. Exits with 1 where nothing fits. With --goal, or with --nodes, rank instead how to use all GPUs: "
      "replicas "
      "of tp x pp ranks each, with the speed to expect of each layout; runtime/study/layouts.h has the formula and its "
      "errors.",
      examples,
      groups,
      .n_groups = 3,
      .model = &options->model.checkpoint,
      .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  yk_engine_options engine;
  if (yk_model_options_apply(&options->model, &engine, &err) == YK_OK && check(options, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

/* The maximum over ranks: devices are equal, so the largest rank must fit. */
static yk_rank_memory largest(const yk_plan *plan)
{
  yk_rank_memory most = {0};
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    const yk_rank_memory *memory = &plan->memory[rank];
    if (memory->weight_bytes > most.weight_bytes) most.weight_bytes = memory->weight_bytes;
    if (memory->kv_bytes > most.kv_bytes) most.kv_bytes = memory->kv_bytes;
    if (memory->workspace_bytes > most.workspace_bytes) most.workspace_bytes = memory->workspace_bytes;
  }
  return most;
}

static void print_head(const plan_options *options, const yk_plan *plan)
{
  char memory[YK_BYTES_TEXT];
  const char *devices = plan->device == YK_DEVICE_CUDA ? "GPU" : "CPU";
  if (options->device_memory_bytes)
    printf("For %s ranks with %s each", devices, yk_bytes_format(options->device_memory_bytes, memory));
  else
    printf("For %s ranks of this machine", devices);
  if (plan->n_stages > 1) printf(", in %d pipeline stages", plan->n_stages);
  printf(": ");
  puts("bytes of the largest one; tokens of KV that all can hold.");
  if (plan->assumes_formats)
    puts("There are no weights: their formats and types are assumed to be those of config.json.");
  printf("%5s  %-4s  %10s  %10s  %10s  %10s\n", "ranks", "fits", "weights", "KV", "workspace", "KV tokens");
}

/* Maximum over ranks. */
static int64_t largest_of(const int64_t *bytes, int n_ranks)
{
  int64_t most = 0;
  for (int rank = 0; rank < n_ranks; rank++)
    if (bytes[rank] > most) most = bytes[rank];
  return most;
}

static void print_experts(const yk_plan *plan)
{
  char experts[YK_BYTES_TEXT], active[YK_BYTES_TEXT];
  int32_t least = plan->n_experts, most = 0;
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    int32_t n = plan->rank_experts[rank];
    least = n < least ? n : least;
    most = n > most ? n : most;
  }
  printf("%5s  experts take %s of the weights, and a token uses %s of all weights; ", "",
         yk_bytes_format(largest_of(plan->expert_bytes, plan->n_ranks), experts),
         yk_bytes_format(largest_of(plan->active_bytes, plan->n_ranks), active));
  if (!plan->expert_parallel && plan->n_ranks > 1)
    printf("a rank holds a share of each of %d experts\n", plan->n_experts);
  else if (least == most)
    printf("a rank holds %d of %d experts\n", most, plan->n_experts);
  else
    printf("a rank holds %d or %d of %d experts\n", least, most, plan->n_experts);
}

static void print_row(const yk_plan *plan)
{
  yk_rank_memory memory = largest(plan);
  char weights[YK_BYTES_TEXT], kv[YK_BYTES_TEXT], workspace[YK_BYTES_TEXT];
  const char *reason, *option = yk_cli_option_named(plan->reason, &reason);
  printf("%5d  %-4s  %10s  %10s  %10s  %10lld%s%s%s\n", plan->n_ranks, plan->fits ? "yes" : "no",
         yk_bytes_format(memory.weight_bytes, weights), yk_bytes_format(memory.kv_bytes, kv),
         yk_bytes_format(memory.workspace_bytes, workspace), (long long)plan->kv_tokens, plan->reason[0] ? "  " : "",
         option, reason);
  if (plan->n_experts > 0) print_experts(plan);
  int64_t state_bytes = largest_of(plan->state_bytes, plan->n_ranks);
  if (state_bytes > 0)
    printf("%5s  recurrent states of %d sequences take %s; their snapshots %s\n", "", plan->max_seqs,
           yk_bytes_format(state_bytes, workspace),
           yk_bytes_format(largest_of(plan->state_cache_bytes, plan->n_ranks), kv));
}

static yk_status print_json(const yk_plan *plan, yk_err *err)
{
  json_t *ranks = json_array();
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    const yk_rank_memory *memory = &plan->memory[rank];
    json_array_append_new(
        ranks,
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I}", "stage",
                  rank / (plan->n_ranks / plan->n_stages), "weight_bytes", (json_int_t)memory->weight_bytes, "kv_bytes",
                  (json_int_t)memory->kv_bytes, "state_bytes", (json_int_t)plan->state_bytes[rank], "state_cache_bytes",
                  (json_int_t)plan->state_cache_bytes[rank], "workspace_bytes", (json_int_t)memory->workspace_bytes,
                  "kv_bytes_per_token", (json_int_t)plan->kv_bytes_per_token[rank], "n_experts",
                  plan->rank_experts[rank], "expert_bytes", (json_int_t)plan->expert_bytes[rank], "active_bytes",
                  (json_int_t)plan->active_bytes[rank]));
  }
  json_t *object =
      json_pack("{s:s, s:i, s:i, s:b, s:s, s:b, s:s*, s:I, s:i, s:i, s:b, s:o}", "device",
                plan->device == YK_DEVICE_CUDA ? "cuda" : "cpu", "n_ranks", plan->n_ranks, "n_stages", plan->n_stages,
                "fits", plan->fits, "reason", plan->reason, "assumes_formats", plan->assumes_formats, "kv_cache_dtype",
                plan->kv_cache_dtype, "kv_tokens", (json_int_t)plan->kv_tokens, "max_seqs", plan->max_seqs, "n_experts",
                plan->n_experts, "expert_parallel", plan->expert_parallel, "ranks", ranks);
  int failed = object ? json_dumpf(object, stdout, JSON_COMPACT) : -1;
  json_decref(object);
  if (failed) return yk_err_set(err, YK_E_NOMEM, "no memory to print a plan");
  putchar('\n');
  return YK_OK;
}

/* Prints the rows from first to last, with equally many ranks in each stage; returns the number of rows that fit, and
 * the last one. */
static yk_status print_plans(const plan_options *options, yk_engine_options *engine, int first, int last,
                             int *n_fitting, yk_plan *plan, yk_err *err)
{
  *n_fitting = 0;
  for (int n_ranks = first; n_ranks <= last; n_ranks += engine->n_stages) {
    engine->n_ranks = n_ranks;
    yk_plan made;
    const yk_status status = yk_plan_make(engine, options->device_memory_bytes, &made, err);
    if (status == YK_E_UNSUPPORTED && engine->batch_invariant && n_ranks > first) { /* a number of ranks */
      *err = (yk_err)YK_ERR_INIT;
      continue;
    }
    YK_TRY(status);
    *plan = made;
    *n_fitting += plan->fits;
    engine->log = (yk_log){0}; /* warnings about the checkpoint have been logged */
    if (options->format == FORMAT_JSON) {
      YK_TRY(print_json(plan, err));
      continue;
    }
    if (n_ranks == first) print_head(options, plan);
    print_row(plan);
  }
  return YK_OK;
}

static yk_status print_links(const plan_options *options, const yk_engine_options *engine, int n_devices, yk_err *err)
{
  bool is_elsewhere = options->device_memory_bytes > 0;
  const yk_links_options links = {.wants_gpus = engine->device != YK_DEVICE_CPU && !is_elsewhere,
                                  .device_ids = engine->device_ids,
                                  .n_devices = n_devices,
                                  .measures = !options->no_link_test,
                                  .as_json = options->format == FORMAT_JSON};
  if (is_elsewhere && !links.as_json) return YK_OK;
  return yk_plan_links_print(&links, err);
}

enum { DEFAULT_MOST_RANKS = 8 /* GPUs of most machines */ }; /* of all stages */

static yk_status run(plan_options *options, const yk_console *console, yk_err *err)
{
  yk_engine_options engine;
  yk_plan plan = {0};
  int n_fitting;
  YK_TRY(yk_model_options_find(&options->model, false, err));
  YK_TRY(yk_model_options_apply(&options->model, &engine, err));
  engine.log = console->log;
  if (ranks_layouts(options)) {
    options->layouts.as_json = options->format == FORMAT_JSON;
    options->layouts.device_memory_bytes = options->device_memory_bytes;
    YK_TRY(yk_plan_layouts_print(&options->layouts, &engine, err));
    return yk_cli_flush(err);
  }
  bool one = options->model.ranks_given || options->model.devices.n > 0;
  int first = engine.n_ranks, last = engine.n_ranks;
  if (!one) last = engine.n_stages > DEFAULT_MOST_RANKS ? engine.n_stages : DEFAULT_MOST_RANKS;
  YK_TRY(print_plans(options, &engine, first, last, &n_fitting, &plan, err));
  YK_TRY(print_links(options, &engine, last, err));
  YK_TRY(yk_cli_flush(err));
  if (n_fitting) return YK_OK;
  return yk_err_set(err, YK_E_CAPACITY, "%son %d rank%s: %s", one ? "" : "nothing fits; ", plan.n_ranks,
                    plan.n_ranks == 1 ? "" : "s", plan.reason);
}

int yk_cli_plan(int argc, char **argv)
{
  plan_options options = {0};
  int exit_code;
  yk_model_options_init(&options.model);
  yk_plan_hosts_init(&options.layouts.hosts);
  options.layouts.input_len = options.layouts.output_len = 1000;
  if (parse(&options, argc, argv, &exit_code)) {
    yk_console console;
    yk_err err = YK_ERR_INIT;
    yk_console_init(&console, (yk_log_level)options.model.log_level);
    exit_code = run(&options, &console, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  }
  yk_model_options_free(&options.model);
  return exit_code;
}
