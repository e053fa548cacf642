#include "parallel/nccl_functions.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

#define LIBRARY "libnccl.so." YK_LIBRARY_STRING(NCCL_MAJOR)

yk_status yk_nccl_load(yk_nccl_functions *table, yk_err *err)
{
#define SYMBOL(member, function) {YK_LIBRARY_STRING(function), offsetof(yk_nccl_functions, member)},
  static const yk_library_symbol symbols[] = {YK_NCCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL
  const char *nvls = getenv("NCCL_NVLS_ENABLE");
  if (!nvls || strcmp(nvls, "0") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "several ranks on GPUs: NCCL_NVLS_ENABLE: expected 0, found %s: call yk_process_init "
                      "first in main, which switches NVLink multicast off",
                      nvls ? nvls : "nothing");
  yk_status status = yk_library_load(LIBRARY, symbols, sizeof symbols / sizeof *symbols, table, err);
  if (status != YK_OK) yk_err_prefix(err, "several ranks on GPUs need NCCL");
  return status;
}
