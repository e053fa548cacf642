/* library.h - shared libraries loaded on demand, so that a program starts without them. */
#ifndef YK_BASE_LIBRARY_H
#define YK_BASE_LIBRARY_H

#include <stddef.h>

#include "base/status.h"

/* A function of a library, and the offset of its pointer in a table of function pointers, in bytes. */
typedef struct yk_library_symbol {
  const char *name;
  size_t offset;
} yk_library_symbol;

/* A macro's value as a string; the macro's name if it is not defined. */
#define YK_LIBRARY_STRING_OF(name) #name
#define YK_LIBRARY_STRING(value)   YK_LIBRARY_STRING_OF(value)

/* yk_library_load - store the addresses of n_symbols functions of the shared library `name` in the table.
 *   The system's loader searches for the library as usual: LD_LIBRARY_PATH, the program's run path, the system's paths.
 *   The library stays loaded until the process ends, because threads started by a library may outlive its last user.
 *   Errors: YK_E_UNSUPPORTED with the loader's message if the library or a function is missing. Thread: any. */
yk_status yk_library_load(const char *name, const yk_library_symbol *symbols, size_t n_symbols, void *table,
                          yk_err *err);

#endif
