/* library.h - shared libraries that are loaded at need, so that a program starts where they are missing. */
#ifndef YK_BASE_LIBRARY_H
#define YK_BASE_LIBRARY_H

#include <stddef.h>

#include "base/status.h"

/* A function that a library has, and where its address goes: bytes from the start of a table of function pointers. */
typedef struct yk_library_symbol {
  const char *name;
  size_t offset;
} yk_library_symbol;

/* A macro's value as a string; its name where it has none. */
#define YK_LIBRARY_STRING_OF(name) #name
#define YK_LIBRARY_STRING(value)   YK_LIBRARY_STRING_OF(value)

/* yk_library_load - the addresses of n_symbols functions of the shared library `name`, into the table.
 *   name is looked for as the system's loader does: in LD_LIBRARY_PATH, where the program says, where the system says.
 *   The library stays in memory until the process ends: threads that a library has started may outlive its last user.
 *   Errors: YK_E_UNSUPPORTED in the loader's words where the library or a function is missing. Thread: any. */
yk_status yk_library_load(const char *name, const yk_library_symbol *symbols, size_t n_symbols, void *table,
                          yk_err *err);

#endif
