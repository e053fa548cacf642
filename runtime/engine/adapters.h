/* adapters.h - the names of an engine's adapters, and how many requests and sequences use each.
 *
 * An adapter's number in steps is its index in the table plus 1. An entry is free once its name has been removed and no
 * request uses the adapter, so that no step in flight uses it. All members but is_lost are guarded by engine.mutex. */
#ifndef YK_ENGINE_ADAPTERS_H
#define YK_ENGINE_ADAPTERS_H

#include "yoke/adapters.h"

typedef struct yk_adapter_place {
  char name[YK_ADAPTER_NAME_BYTES]; /* "": none */
  uint64_t id;                      /* unique number of this load, from 1: separates the prefixes of adapters */
  int32_t n_users;                  /* requests and held sequences */
  bool is_loading;
  bool is_lost; /* engine thread: the ranks could not set the adapter, so that its weights are undefined */
} yk_adapter_place;

typedef struct yk_adapters {
  yk_adapter_place *places; /* [n] */
  int32_t n;
  uint64_t n_loads;
} yk_adapters;

/* An adapter in use. */
typedef struct yk_adapter_use {
  int32_t number; /* 0: none */
  uint64_t id;
} yk_adapter_use;

/* yk_adapters_create - a table with the options' number of entries, whose first entries are the adapters that the ranks
 *   have loaded as numbers 1 and up. Errors: YK_E_NOMEM. */
yk_status yk_adapters_create(const yk_engine_options *options, yk_adapters *out, yk_err *err);
void yk_adapters_destroy(yk_adapters *adapters);

/* yk_adapters_acquire - count a user of the adapter with this name; NULL or "": no adapter. Errors: YK_E_INVAL: no
 *   adapter has the name, or the adapter is loading. Caller holds engine.mutex; also for the next two. */
yk_status yk_adapters_acquire(yk_adapters *adapters, const char *name, yk_adapter_use *out, yk_err *err);

/* yk_adapters_use_again, yk_adapters_release - one user more, or one user less, of the adapter with this number; 0: no
 *   adapter. */
void yk_adapters_use_again(yk_adapters *adapters, int32_t number);
void yk_adapters_release(yk_adapters *adapters, int32_t number);

/* yk_adapters_find - the entry with this name, which may be loading, or NULL. Caller holds engine.mutex; also for the
 *   next two. */
yk_adapter_place *yk_adapters_find(yk_adapters *adapters, const char *name);

/* yk_adapters_next - the loaded adapter with the lowest id above `after`, or NULL. */
const yk_adapter_place *yk_adapters_next(const yk_adapters *adapters, uint64_t after);

/* yk_adapters_reserve - an entry for the name, which is then loading. Errors: YK_E_INVAL (the name is in use),
 *   YK_E_CAPACITY (no entry is free). */
yk_status yk_adapters_reserve(yk_adapters *adapters, const char *name, yk_adapter_place **out, yk_err *err);

/* yk_adapters_is_lost - whether the weights of the adapter with this number are undefined; 0: no adapter. Engine
 *   thread. */
static inline bool yk_adapters_is_lost(const yk_adapters *adapters, int32_t number)
{
  return number > 0 && adapters->places[number - 1].is_lost;
}

/* yk_adapters_miss - the error that no adapter has the name. */
yk_status yk_adapters_miss(const char *name, yk_err *err);

#endif
