/* adapter_load.c - adapters that callers load and unload while the engine runs. */
#include <string.h>

#include "engine/call.h"
#include "engine/engine_internal.h"
#include "engine/machine/adapters.h"

typedef struct load_call {
  yk_call call;
  const yk_adapter *adapter;
  int32_t number;
  bool is_lost; /* the ranks failed to set the adapter */
} load_call;

/* On the engine thread. The ranks finish the steps in flight first. */
static void run_load(yk_engine *e, yk_call *call)
{
  load_call *c = (load_call *)call;
  yk_err error = YK_ERR_INIT;
  yk_ranks_adapt(e->ranks, c->adapter, c->number, e->settings.step_timeout_s, &error);
  c->is_lost = error.code != YK_OK;
  e->adapters.places[c->number - 1].is_lost = c->is_lost;
  yk_call_answer(e, call, error.code == YK_OK ? NULL : &error);
}

static yk_status check_load(const yk_engine *e, const yk_adapter_path *adapter, yk_err *err)
{
  if (!adapter || !adapter->name || !adapter->path)
    return yk_err_set(err, YK_E_INVAL, "adapter: expected a name and a path, found NULL");
  YK_TRY(yk_adapter_name_check(adapter->name, err));
  if (e->adapters.n == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "max_adapters: this engine was created without adapters");
  if (!e->cluster) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "adapters of a run of several processes are loaded at its start, by each of them");
}

/* *is_lost: after an error, the weights of the number are undefined. */
static yk_status load(yk_engine *e, const yk_adapter_path *adapter, int32_t number, bool *is_lost, yk_err *err)
{
  load_call call = {.call.run = run_load, .number = number};
  yk_adapter *opened;
  *is_lost = false;
  YK_TRY(yk_adapter_open(adapter->path, &e->config, e->settings.limits.adapter_rank, &opened, err));
  call.adapter = opened;
  yk_status status = yk_call_run(e, &call.call, err);
  yk_adapter_close(opened);
  *is_lost = call.is_lost;
  return status;
}

yk_status yk_engine_load_adapter(yk_engine *engine, const yk_adapter_path *adapter, yk_err *err)
{
  yk_adapter_place *place;
  bool is_lost;
  YK_TRY(check_load(engine, adapter, err));
  pthread_mutex_lock(&engine->mutex);
  yk_status status = yk_adapters_reserve(&engine->adapters, adapter->name, &place, err);
  pthread_mutex_unlock(&engine->mutex);
  if (status != YK_OK) return status;
  status = load(engine, adapter, (int32_t)(place - engine->adapters.places) + 1, &is_lost, err);
  pthread_mutex_lock(&engine->mutex);
  place->is_loading = false;
  if (status == YK_OK)
    place->id = ++engine->adapters.n_loads;
  else
    place->name[0] = '\0';
  pthread_mutex_unlock(&engine->mutex);
  return status;
}

/* Counts as a user of the adapter, so that no other adapter takes its entry when it is unloaded meanwhile. */
yk_status yk_engine_replace_adapter(yk_engine *engine, const yk_adapter_path *adapter, yk_err *err)
{
  yk_adapter_use use;
  bool is_lost;
  YK_TRY(check_load(engine, adapter, err));
  pthread_mutex_lock(&engine->mutex);
  yk_status status = yk_adapters_acquire(&engine->adapters, adapter->name, &use, err);
  pthread_mutex_unlock(&engine->mutex);
  if (status != YK_OK) return status;
  status = load(engine, adapter, use.number, &is_lost, err);
  yk_adapter_place *place = &engine->adapters.places[use.number - 1];
  pthread_mutex_lock(&engine->mutex);
  if (status == YK_OK) place->id = ++engine->adapters.n_loads;
  if (is_lost) place->name[0] = '\0';
  yk_adapters_release(&engine->adapters, use.number);
  pthread_mutex_unlock(&engine->mutex);
  return status;
}

yk_status yk_engine_unload_adapter(yk_engine *engine, const char *name, yk_err *err)
{
  if (!name) return yk_err_set(err, YK_E_INVAL, "adapter: expected a name, found NULL");
  pthread_mutex_lock(&engine->mutex);
  yk_adapter_place *place = yk_adapters_find(&engine->adapters, name);
  const bool is_there = place && !place->is_loading;
  if (is_there) place->name[0] = '\0';
  pthread_mutex_unlock(&engine->mutex);
  return is_there ? YK_OK : yk_adapters_miss(name, err);
}

size_t yk_engine_list_adapters(yk_engine *engine, yk_adapter_name *out, size_t n)
{
  size_t count = 0;
  pthread_mutex_lock(&engine->mutex);
  const yk_adapter_place *place = yk_adapters_next(&engine->adapters, 0);
  for (; place; place = yk_adapters_next(&engine->adapters, place->id)) {
    if (count < n) memcpy(out[count].text, place->name, sizeof place->name);
    count++;
  }
  pthread_mutex_unlock(&engine->mutex);
  return count;
}
