#include "server/adapters.h"

#include <stdlib.h>
#include <string.h>

yk_adapter_name *yk_adapter_names(yk_engine *engine, size_t *n)
{
  const size_t n_wanted = yk_engine_list_adapters(engine, NULL, 0);
  *n = 0;
  if (n_wanted == 0) return NULL;
  yk_adapter_name *names = calloc(n_wanted, sizeof *names);
  if (!names) return NULL;
  const size_t n_found = yk_engine_list_adapters(engine, names, n_wanted);
  *n = n_found < n_wanted ? n_found : n_wanted;
  return names;
}

bool yk_adapter_is_loaded(yk_engine *engine, const char *name)
{
  size_t n;
  bool is_loaded = false;
  yk_adapter_name *names = yk_adapter_names(engine, &n);
  for (size_t i = 0; i < n; i++) is_loaded |= strcmp(names[i].text, name) == 0;
  free(names);
  return is_loaded;
}
