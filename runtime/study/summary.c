#include "study/summary.h"

#include <string.h>
#include <time.h>

#include "study/figures.h"
#include "study/scaling.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the summary of a study");
}

double yk_study_element_bytes(const char *dtype)
{
  return dtype && strcmp(dtype, "float32") == 0 ? 4 : 2;
}

/* ---- A point ----------------------------------------------------------------------------------------------------- */

/* The figures of a run with its start and repeat, without its warnings. */
static json_t *flat_run(const json_t *record)
{
  json_t *run =
      json_pack("{s:O, s:O}", "start", json_object_get(record, "engine"), "repeat", json_object_get(record, "repeat"));
  if (!run || json_object_update(run, json_object_get(record, "figures")) != 0) {
    json_decref(run);
    return NULL;
  }
  json_object_del(run, "warnings");
  return run;
}

static bool has_text(const json_t *texts, const json_t *text)
{
  size_t i;
  json_t *other;
  json_array_foreach(texts, i, other)
  {
    if (json_equal(other, text)) return true;
  }
  return false;
}

/* The warnings of all runs, each once. */
static json_t *collect_warnings(const json_t *records)
{
  json_t *all = json_array(), *record, *text;
  size_t i, j;
  json_array_foreach(records, i, record)
  {
    json_array_foreach(json_object_get(json_object_get(record, "figures"), "warnings"), j, text)
    {
      if (!has_text(all, text)) json_array_append(all, text);
    }
  }
  return all;
}

static yk_status add_runs(json_t *point, const json_t *records, yk_err *err)
{
  json_t *runs = json_array(), *record;
  size_t i;
  int failed = json_object_set_new(point, "n_runs", json_integer((json_int_t)json_array_size(records)));
  json_array_foreach(records, i, record) failed |= json_array_append_new(runs, flat_run(record));
  yk_status status = failed ? no_memory(err) : yk_figures_add(point, runs, err);
  failed = json_object_set_new(point, "warnings", collect_warnings(records));
  failed |= json_object_set_new(point, "runs", runs);
  return status == YK_OK && failed ? no_memory(err) : status;
}

static int add_times(json_t *point, const json_t *times)
{
  static const struct {
    const char *from, *to;
  } keys[] = {{"decode", "time_us"},
              {"prefill", "time_us_prefill"},
              {"by_rank", "time_us_by_rank"},
              {"slowest", "slowest"},
              {"places", "rank_places"}};
  int failed = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    json_t *value = json_object_get(times, keys[i].from);
    if (value && !json_is_null(value)) failed |= json_object_set(point, keys[i].to, value);
  }
  return failed;
}

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

/* Adds to a point with clients or a request rate: the number of running requests, and for a rate the offered
 * throughput. */
static int add_flow(json_t *point, json_t *limit, double running)
{
  double offered = number_of(point, "request_rate") * number_of(point, "output_len");
  int failed = json_object_set_new(limit, "running", json_real(running));
  if (!(offered > 0)) return failed;
  failed |= json_object_set_new(limit, "offered_throughput", json_real(offered));
  return failed |
         json_object_set_new(limit, "offered_share", json_real(number_of(point, "output_throughput") / offered));
}

static bool holds_whole_experts(const yk_study_frame *frame, const json_t *info)
{
  return frame->shapes && frame->shapes->n_expert_layers > 0 && json_is_true(json_object_get(info, "expert_parallel"));
}

/* Ranks on CPUs share the rates of their host; ranks of several hosts are divided evenly over the hosts. */
static yk_machine_rates rates_of_hosts(const yk_machine_rates *one, const json_t *info)
{
  yk_machine_rates rates = *one;
  const double n_hosts = number_of(info, "hosts");
  if (!rates.is_shared || n_hosts < 2) return rates;
  rates.memory_bytes_per_s *= n_hosts;
  rates.gemm_flops *= n_hosts;
  return rates;
}

static int add_limit(json_t *point, const yk_study_frame *frame, const yk_machine_rates *one, const json_t *info)
{
  const yk_machine_rates rates = rates_of_hosts(one, info), *machine = &rates;
  const char *dtype = json_string_value(json_object_get(info, "dtype"));
  const char *weights = json_string_value(json_object_get(info, "weights"));
  const char *kv = json_string_value(json_object_get(info, "kv_cache_dtype"));
  const char *head = json_string_value(json_object_get(info, "lm_head"));
  bool is_batch = json_object_get(point, "batch") != NULL;
  yk_limit_load load = {.ranks = (int)number_of(point, "ranks"),
                        .batch = number_of(point, is_batch ? "batch" : "running"),
                        .input_len = number_of(point, "input_len"),
                        .output_len = number_of(point, "output_len"),
                        .shared_prefix = frame->shared_prefix,
                        .element_bytes = yk_study_element_bytes(dtype),
                        .kv_in_8_bits = kv && (strncmp(kv, "int8", 4) == 0 || strncmp(kv, "fp8", 3) == 0),
                        .no_quantisation = weights && strcmp(weights, "f16") == 0,
                        .head_in_8_bits = head && strcmp(head, "int8") == 0,
                        .expert_parallel = holds_whole_experts(frame, info)};
  yk_limit limit;
  if (!(load.batch > 0)) return 0; /* no run has the number of running requests */
  (is_batch ? yk_limit_compute : yk_limit_compute_flow)(frame->shapes, machine, &load, &limit);
  double throughput = load.batch * load.output_len / limit.total_s;
  json_t *object =
      json_pack("{s:f, s:f, s:s}", "output_throughput", throughput, "share",
                number_of(point, "output_throughput") / throughput, "bound", yk_limit_bound_name(limit.bound));
  int failed = is_batch ? json_object_set_new(object, "decode_throughput", json_real(load.batch / limit.decode_step_s))
                        : add_flow(point, object, load.batch);
  return failed | json_object_set_new(point, "limit", object);
}

/* Whether points of the study run in several processes. */
static bool has_processes(const yk_study_records *records)
{
  for (size_t i = 0; i < records->grid->n_configs; i++)
    if (number_of(records->infos[i], "processes") > 1) return true;
  return false;
}

static int add_processes(json_t *point, const json_t *info)
{
  return json_object_set(point, "processes", json_object_get(info, "processes")) |
         json_object_set(point, "hosts", json_object_get(info, "hosts"));
}

static yk_status make_point(const yk_study_frame *frame, const yk_study_records *records, size_t i, json_t **out,
                            yk_err *err)
{
  yk_machine_rates machine;
  json_t *point = yk_study_point_json(records->grid, i);
  yk_status status = point ? add_runs(point, records->runs[i], err) : no_memory(err);
  const json_t *info = records->infos[records->grid->points[i].config];
  int failed = 0;
  if (status == YK_OK && has_processes(records)) failed |= add_processes(point, info);
  if (status == YK_OK && records->profiles[i]) failed |= add_times(point, records->profiles[i]);
  if (status == YK_OK && holds_whole_experts(frame, info))
    failed |= json_object_set_new(point, "expert_parallel", json_true());
  if (status == YK_OK && frame->shapes && yk_machine_rates_read(records->machine, &machine))
    failed |= add_limit(point, frame, &machine, info);
  if (status == YK_OK && failed) status = no_memory(err);
  if (status != YK_OK) {
    json_decref(point);
    point = NULL;
  }
  *out = point;
  return status;
}

/* ---- The study --------------------------------------------------------------------------------------------------- */

static json_t *make_skipped(const yk_study_grid *grid, size_t i)
{
  json_t *point = yk_study_point_json(grid, i);
  if (point) json_object_set_new(point, "reason", json_string(grid->points[i].reason));
  return point;
}

static yk_status add_points(const yk_study_frame *frame, const yk_study_records *records, json_t *points,
                            json_t *skipped, yk_err *err)
{
  for (size_t i = 0; i < records->grid->n_points; i++) {
    json_t *point = NULL;
    bool is_skipped = records->grid->points[i].reason[0] != '\0';
    if (is_skipped)
      point = make_skipped(records->grid, i);
    else if (json_array_size(records->runs[i]) > 0)
      YK_TRY(make_point(frame, records, i, &point, err));
    else
      continue;
    if (json_array_append_new(is_skipped ? skipped : points, point) != 0) return no_memory(err);
  }
  return yk_scaling_add(points, err);
}

/* Adds the heads of recurrent layers, and the part of the layers with attention or a replacement that these are. */
static int add_states(json_t *model, const yk_model_shapes *shapes)
{
  const int64_t n_states = shapes->n_delta_layers + shapes->n_mamba_layers;
  const int64_t n_heads = shapes->n_delta_layers > 0 ? shapes->delta_key_heads : shapes->mamba_groups;
  if (n_states == 0) return 0;
  return json_object_set_new(model, "n_state_heads", json_integer(n_heads)) |
         json_object_set_new(model, "states_share",
                             json_real((double)n_states / (double)(n_states + yk_model_attention_layers(shapes))));
}

/* Adds the sizes that determine how ranks shard the model. */
static int add_shapes(json_t *model, const yk_model_shapes *shapes)
{
  return json_object_set_new(model, "n_heads", json_integer(shapes->n_heads)) |
         json_object_set_new(model, "n_kv_heads", json_integer(shapes->n_kv_heads)) |
         json_object_set_new(
             model, "intermediate_size",
             json_integer(shapes->n_expert_layers > 0 ? shapes->expert_size : shapes->intermediate_size)) |
         (shapes->n_expert_layers > 0 ? json_object_set_new(model, "n_experts", json_integer(shapes->n_experts)) : 0) |
         add_states(model, shapes) |
         json_object_set_new(model, "n_sublayers", json_integer(yk_model_sublayers(shapes))) |
         json_object_set_new(model, "group_size", json_integer(shapes->group_size));
}

/* The model's properties from the engines; weight bytes of the fewest ranks, which duplicate the least. */
static json_t *make_model(const yk_study_frame *frame, const yk_study_records *records)
{
  static const char *const keys[] = {"family", "dtype", "n_layers", "hidden_size", "vocab_size", "weight_bytes"};
  const json_t *info = NULL;
  int ranks = 0;
  for (size_t i = 0; i < records->grid->n_configs; i++)
    if (records->infos[i] && (!info || records->grid->configs[i].ranks < ranks)) {
      info = records->infos[i];
      ranks = records->grid->configs[i].ranks;
    }
  json_t *model = json_pack("{s:s}", "name", frame->model_name);
  int failed = frame->shapes ? add_shapes(model, frame->shapes) : 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(info, keys[i])) failed |= json_object_set(model, keys[i], json_object_get(info, keys[i]));
  if (!failed) return model;
  json_decref(model);
  return NULL;
}

yk_status yk_study_summarise(const yk_study_frame *frame, const yk_study_records *records, json_t **out, yk_err *err)
{
  char created[32];
  time_t now = time(NULL);
  struct tm utc;
  strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  json_t *machine = records->machine ? json_incref(records->machine) : json_object();
  json_t *study =
      json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:[], s:[]}", "yoke_study", 1, "version", yk_version(),
                "created", created, "command", frame->command, "machine", machine, "model", make_model(frame, records),
                "repeats", frame->n_repeats, "starts", frame->n_starts, "points", "skipped");
  yk_status status =
      study ? add_points(frame, records, json_object_get(study, "points"), json_object_get(study, "skipped"), err)
            : no_memory(err);
  if (status == YK_OK)
    *out = study;
  else
    json_decref(study);
  return status;
}
