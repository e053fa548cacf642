#define _GNU_SOURCE /* RTLD_NODELETE */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

static yk_status refuse(const char *name, yk_err *err)
{
  const char *reason = dlerror(); /* contains the library's name */
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s", reason ? reason : name);
}

yk_status yk_library_load(const char *name, const yk_library_symbol *symbols, size_t n_symbols, void *table,
                          yk_err *err)
{
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return refuse(name, err);
  yk_status status = YK_OK;
  for (size_t i = 0; i < n_symbols && status == YK_OK; i++) {
    void *address = dlsym(library, symbols[i].name);
    if (!address) status = refuse(name, err);
    memcpy((char *)table + symbols[i].offset, &address, sizeof address);
  }
  dlclose(library);
  return status;
}
