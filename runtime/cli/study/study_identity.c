/* The settings in which a resumed study must equal its beginning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/model_identity.h"
#include "cli/study/study_options.h"

static int set_values(json_t *identity, const char *name, const yk_values *values)
{
  json_t *list = json_array();
  int failed = list == NULL;
  for (size_t i = 0; i < values->n; i++) {
    json_int_t whole = (json_int_t)values->at[i];
    bool is_whole = (double)whole == values->at[i];
    failed |= json_array_append_new(list, is_whole ? json_integer(whole) : json_real(values->at[i]));
  }
  return failed | json_object_set_new(identity, name, list);
}

static int set_sweep(json_t *identity, const yk_sweep *sweep)
{
  static const char *const loads[] = {"--batch", "--request-rate", "--clients"};
  int failed = set_values(identity, "--ranks", &sweep->ranks) |
               set_values(identity, loads[sweep->load], &sweep->loads) |
               set_values(identity, "--input-len", &sweep->input_lens) |
               set_values(identity, "--output-len", &sweep->output_lens);
  for (size_t i = 0; i < sweep->n_options; i++) {
    char name[128];
    json_t *list = json_array();
    for (size_t j = 0; j < sweep->options[i].n_values; j++)
      failed |= json_array_append_new(list, json_string(sweep->options[i].values[j]));
    snprintf(name, sizeof name, "--sweep %s", sweep->options[i].name);
    failed |= json_object_set_new(identity, name, list);
  }
  return failed;
}

/* Sets every option of the model's group that affects an engine, so that new options are included. */
static int set_model_options(json_t *identity, const yk_model_options *model)
{
  const yk_option_group group = yk_model_options_group(model);
  char name[64];
  int failed = 0;
  for (size_t i = 0; i < group.n_options; i++) {
    const yk_option *option = &group.options[i];
    json_t *value = NULL;
    if (yk_process_options_has(&model->processes, option)) continue; /* set separately */
    snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case YK_OPTION_FLAG: value = json_boolean(*(const bool *)option->value); break;
    case YK_OPTION_INT:
    case YK_OPTION_TOKENS: value = json_integer(*(const int32_t *)option->value); break;
    case YK_OPTION_SEED: value = json_integer((json_int_t) * (const uint64_t *)option->value); break;
    case YK_OPTION_NUMBER: value = json_real(*(const double *)option->value); break;
    case YK_OPTION_BYTES: value = json_integer((json_int_t) * (const int64_t *)option->value); break;
    case YK_OPTION_CHOICE: value = json_string(option->choices[*(const int *)option->value]); break;
    case YK_OPTION_STRING:         /* model and tokenizer, identified by their files; */
    case YK_OPTION_CALL: continue; /* devices and changes of the configuration, set separately */
    }
    if (option->value != &model->log_level)
      failed |= json_object_set_new(identity, name, value);
    else
      json_decref(value);
  }
  json_t *devices = json_array();
  for (size_t i = 0; i < model->devices.n; i++)
    failed |= json_array_append_new(devices, json_integer(model->devices.ids[i]));
  return failed | json_object_set_new(identity, "--devices", devices);
}

static int set_runs(json_t *identity, const yk_study_settings *settings)
{
  json_t *slo = json_array();
  for (int i = 0; i < YK_BENCH_TIMES; i++) json_array_append_new(slo, json_real(settings->load.slo_ms[i]));
  return json_object_set_new(identity, "--slo", slo) |
         json_object_set_new(identity, "--repeats", json_integer(settings->n_repeats)) |
         json_object_set_new(identity, "--starts", json_integer(settings->n_starts)) |
         json_object_set_new(identity, "--num-requests", json_integer(settings->n_requests)) |
         json_object_set_new(identity, "--shared-prefix", json_integer(settings->shared_prefix));
}

/* Processes that a study can give to a point: a study of one process is as before. */
static int set_processes(json_t *identity, const yk_model_options *model)
{
  yk_engine_options engine;
  yk_engine_options_init(&engine);
  if (yk_process_options_apply(&model->processes, &engine, NULL) != YK_OK || engine.n_processes < 2) return 0;
  return json_object_set_new(identity, "--nnodes", json_integer(engine.n_processes));
}

/* All settings but the model. NULL: no memory. */
static json_t *settings_json(const yk_study_settings *settings)
{
  json_t *identity = json_object();
  int failed = identity == NULL;
  failed |= json_object_set_new(identity, "version of yoke", json_string(yk_version()));
  failed |= set_sweep(identity, &settings->sweep);
  failed |= set_model_options(identity, &settings->model);
  failed |= set_processes(identity, &settings->model);
  failed |= set_runs(identity, settings);
  if (!failed) return identity;
  json_decref(identity);
  return NULL;
}

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the identity of a study");
}

yk_status yk_study_settings_identity(const yk_study_settings *settings, json_t **out, yk_err *err)
{
  uint32_t hash = yk_model_options_hash(&settings->model, YK_HASH_START);
  YK_TRY(yk_model_identity(settings->model.checkpoint.path, &hash, err));
  if (settings->model.tokenizer.path) YK_TRY(yk_model_identity(settings->model.tokenizer.path, &hash, err));
  json_t *identity = settings_json(settings);
  const bool is_whole = identity && json_object_set_new(identity, "model", json_integer(hash)) == 0;
  if (!is_whole) json_decref(identity);
  *out = is_whole ? identity : NULL;
  return is_whole ? YK_OK : no_memory(err);
}

/* Devices are a process's own. */
yk_status yk_study_settings_purpose(const yk_study_settings *settings, char text[YK_STUDY_PURPOSE_BYTES], yk_err *err)
{
  uint32_t hash = yk_model_options_hash(&settings->model, YK_HASH_START);
  json_t *identity = settings_json(settings);
  if (identity) json_object_del(identity, "--devices");
  char *json = identity ? json_dumps(identity, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  json_decref(identity);
  if (!json) return no_memory(err);
  hash = yk_hash(hash, json, strlen(json));
  free(json);
  snprintf(text, YK_STUDY_PURPOSE_BYTES, "study with the options %08x", hash);
  return YK_OK;
}
