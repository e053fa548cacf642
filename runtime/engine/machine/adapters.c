#include "engine/machine/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "yoke/adapters.h"

yk_status yk_adapter_name_check(const char *name, yk_err *err)
{
  YK_TRY(yk_check_i64("bytes of an adapter's name", (int64_t)strlen(name), 1, YK_ADAPTER_NAME_BYTES - 1, err));
  for (const char *at = name; *at; at++)
    if ((unsigned char)*at < ' ' || *at == 0x7f)
      return yk_err_set(err, YK_E_INVAL,
                        "an adapter's name: expected no control character, found byte %d at offset %td", *at,
                        at - name);
  return YK_OK;
}

static yk_status check_name(const yk_engine_options *o, size_t i, yk_err *err)
{
  const yk_adapter_path *adapter = &o->adapters[i];
  if (!adapter->name || !adapter->path)
    return yk_err_set(err, YK_E_INVAL, "adapters: expected a name and a path, found NULL for number %zu", i);
  YK_TRY(yk_adapter_name_check(adapter->name, err));
  for (size_t j = 0; j < i; j++)
    if (strcmp(o->adapters[j].name, adapter->name) == 0)
      return yk_err_set(err, YK_E_INVAL, "adapters: expected each name once, found \"%.100s\" twice", adapter->name);
  return YK_OK;
}

yk_status yk_open_adapters_check(const yk_engine_options *o, yk_err *err)
{
  enum { MAX_ADAPTERS = 4096 };
  YK_TRY(yk_check_i64("max_adapters", o->max_adapters, 0, MAX_ADAPTERS, err));
  YK_TRY(yk_check_i64("max_adapter_rank", o->max_adapter_rank, 1, YK_ADAPTER_MAX_RANK, err));
  YK_TRY(yk_check_array("adapters", o->adapters, o->n_adapters, err));
  if (o->n_adapters > (size_t)o->max_adapters)
    return yk_err_set(err, YK_E_INVAL, "adapters: expected at most %d (max_adapters), found %zu", o->max_adapters,
                      o->n_adapters);
  for (size_t i = 0; i < o->n_adapters; i++) YK_TRY(check_name(o, i, err));
  return YK_OK;
}

yk_status yk_open_adapters_open(const yk_engine_options *o, const yk_model_config *config, yk_open_adapters *out,
                                yk_err *err)
{
  *out = (yk_open_adapters){0};
  if (o->n_adapters == 0) return YK_OK;
  out->items = calloc(o->n_adapters, sizeof *out->items);
  if (!out->items) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu adapters", o->n_adapters);
  for (size_t i = 0; i < o->n_adapters; i++) {
    yk_status status = yk_adapter_open(o->adapters[i].path, config, o->max_adapter_rank, &out->items[i], err);
    if (status != YK_OK) yk_err_prefix(err, "adapter %.100s", o->adapters[i].name);
    YK_TRY(status);
    out->n++;
  }
  return YK_OK;
}

void yk_open_adapters_close(yk_open_adapters *adapters)
{
  for (int32_t i = 0; i < adapters->n; i++) yk_adapter_close(adapters->items[i]);
  free(adapters->items);
  *adapters = (yk_open_adapters){0};
}
