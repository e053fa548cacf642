/* adapters.h - low-rank adapters (LoRA) of an engine's model, which requests name (yk_request_options.adapter).
 * Requests with different adapters, or none, run in the same steps; those with an adapter reuse only prefixes that were
 * computed with the same one. */
#ifndef YOKE_API_ADAPTERS_H
#define YOKE_API_ADAPTERS_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { YK_ADAPTER_NAME_BYTES = 256 };

typedef struct yk_adapter_name {
  char text[YK_ADAPTER_NAME_BYTES]; /* NUL-terminated */
} yk_adapter_name;

/* yk_engine_load_adapter - read an adapter and make it available to requests under its name.
 *   Errors: YK_E_INVAL (a name that is empty, too long or in use, or has a control character), YK_E_CAPACITY (all
 *   max_adapters entries are in use, by loaded adapters or by unloaded ones that are still in use), YK_E_IO,
 *   YK_E_FORMAT, YK_E_UNSUPPORTED (the adapter, naming file and tensor; an engine with max_adapters 0, or of several
 *   processes, which load adapters at their start only), YK_E_NOMEM, the engine's failure, or YK_E_CANCELLED if it
 *   stops. After an error the engine is as before. Thread: any. */
yk_status yk_engine_load_adapter(yk_engine *engine, const yk_adapter_path *adapter, yk_err *err);

/* yk_engine_replace_adapter - read an adapter in place of the loaded one with the same name, between two steps.
 *   Requests and held sequences that have the adapter continue with the new weights; the keys and values of their
 *   tokens so far are those of the old weights. Later requests reuse no prefix that was computed with the old weights.
 *   Errors: as those of yk_engine_load_adapter, but YK_E_INVAL if no adapter has the name, and never YK_E_CAPACITY.
 *   After an error the engine is as before, unless a rank cannot take the adapter (YK_E_NOMEM; YK_E_IO if a file
 *   shrank; YK_E_UNSUPPORTED for a module after a norm with an offset): then the adapter is unloaded, and the requests
 *   and held sequences that have it fail with YK_E_DEVICE. Thread: any. */
yk_status yk_engine_replace_adapter(yk_engine *engine, const yk_adapter_path *adapter, yk_err *err);

/* yk_engine_unload_adapter - new requests cannot name the adapter from now on. Requests and held sequences that have
 *   the adapter keep the adapter until they end; then another adapter can be loaded in its place. Errors: YK_E_INVAL:
 *   no adapter has the name. Thread: any. */
yk_status yk_engine_unload_adapter(yk_engine *engine, const char *name, yk_err *err);

/* yk_engine_list_adapters - write the names of the first n loaded adapters, in the order in which they were loaded, to
 *   out, which may be NULL if n is 0. Returns the number of all loaded adapters. Thread: any. */
size_t yk_engine_list_adapters(yk_engine *engine, yk_adapter_name *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
