#include "engine/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

yk_status yk_adapters_create(const yk_engine_options *options, yk_adapters *out, yk_err *err)
{
  if (options->max_adapters == 0) return YK_OK;
  out->places = calloc((size_t)options->max_adapters, sizeof *out->places);
  if (!out->places) return yk_err_set(err, YK_E_NOMEM, "no memory for %d adapters", options->max_adapters);
  out->n = options->max_adapters;
  for (size_t i = 0; i < options->n_adapters; i++) {
    snprintf(out->places[i].name, sizeof out->places[i].name, "%s", options->adapters[i].name);
    out->places[i].id = ++out->n_loads;
  }
  return YK_OK;
}

void yk_adapters_destroy(yk_adapters *adapters)
{
  free(adapters->places);
  *adapters = (yk_adapters){0};
}

yk_adapter_place *yk_adapters_find(yk_adapters *adapters, const char *name)
{
  for (int32_t i = 0; i < adapters->n; i++)
    if (adapters->places[i].name[0] && strcmp(adapters->places[i].name, name) == 0) return &adapters->places[i];
  return NULL;
}

yk_status yk_adapters_miss(const char *name, yk_err *err)
{
  return yk_err_set(err, YK_E_INVAL, "adapter: expected the name of a loaded adapter, found \"%.100s\"", name);
}

yk_status yk_adapters_acquire(yk_adapters *adapters, const char *name, yk_adapter_use *out, yk_err *err)
{
  *out = (yk_adapter_use){0};
  if (!name || !name[0]) return YK_OK;
  yk_adapter_place *place = yk_adapters_find(adapters, name);
  if (!place || place->is_loading) return yk_adapters_miss(name, err);
  place->n_users++;
  *out = (yk_adapter_use){.number = (int32_t)(place - adapters->places) + 1, .id = place->id};
  return YK_OK;
}

void yk_adapters_use_again(yk_adapters *adapters, int32_t number)
{
  if (number > 0) adapters->places[number - 1].n_users++;
}

void yk_adapters_release(yk_adapters *adapters, int32_t number)
{
  if (number > 0) adapters->places[number - 1].n_users--;
}

yk_status yk_adapters_reserve(yk_adapters *adapters, const char *name, yk_adapter_place **out, yk_err *err)
{
  int32_t n_leaving = 0;
  if (yk_adapters_find(adapters, name))
    return yk_err_set(err, YK_E_INVAL, "adapter: expected a name that is not taken, found \"%.100s\"", name);
  for (int32_t i = 0; i < adapters->n; i++) {
    yk_adapter_place *place = &adapters->places[i];
    n_leaving += !place->name[0] && place->n_users > 0;
    if (place->name[0] || place->n_users > 0) continue;
    snprintf(place->name, sizeof place->name, "%s", name);
    place->is_loading = true;
    *out = place;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_CAPACITY,
                    "max_adapters: expected a free place for another adapter, found %d of %d taken, %d of them by "
                    "unloaded adapters that requests still use",
                    adapters->n, adapters->n, n_leaving);
}

const yk_adapter_place *yk_adapters_next(const yk_adapters *adapters, uint64_t after)
{
  const yk_adapter_place *oldest = NULL;
  for (int32_t i = 0; i < adapters->n; i++) {
    const yk_adapter_place *place = &adapters->places[i];
    if (!place->name[0] || place->is_loading || place->id <= after) continue;
    if (!oldest || place->id < oldest->id) oldest = place;
  }
  return oldest;
}
