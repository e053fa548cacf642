/* adapters.h - the adapters that an engine's options name, opened in each process before its ranks load. */
#ifndef YK_ENGINE_MACHINE_ADAPTERS_H
#define YK_ENGINE_MACHINE_ADAPTERS_H

#include "engine/machine/settings.h"
#include "loader/adapter/adapter.h"

typedef struct yk_open_adapters {
  yk_adapter **items; /* [n] in the order of the options */
  int32_t n;
} yk_open_adapters;

/* yk_adapter_name_check - the length of an adapter's name, and that no control character is in it. Errors:
 *   YK_E_INVAL. */
yk_status yk_adapter_name_check(const char *name, yk_err *err);

/* yk_open_adapters_check - the options of adapters: ranges, names that differ. Errors: YK_E_INVAL. */
yk_status yk_open_adapters_check(const yk_engine_options *options, yk_err *err);

/* yk_open_adapters_open - open and check the options' adapters. Free with yk_open_adapters_close, after an error too.
 *   Errors: those of yk_adapter_open, with the adapter's name. */
yk_status yk_open_adapters_open(const yk_engine_options *options, const yk_model_config *config, yk_open_adapters *out,
                                yk_err *err);
void yk_open_adapters_close(yk_open_adapters *adapters);

#endif
