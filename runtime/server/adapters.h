/* adapters.h - the names of an engine's adapters, which clients send as a request's model. */
#ifndef YK_SERVER_ADAPTERS_H
#define YK_SERVER_ADAPTERS_H

#include "yoke/yoke.h"

/* yk_adapter_names - the names [*n] of the loaded adapters, by age; the caller frees them. NULL, and *n is 0: there are
 *   none, or no memory for the names. Any thread. */
yk_adapter_name *yk_adapter_names(yk_engine *engine, size_t *n);

/* yk_adapter_is_loaded - whether an adapter has this name. Any thread. */
bool yk_adapter_is_loaded(yk_engine *engine, const char *name);

#endif
