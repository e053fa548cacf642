#include "yoke/process.h"

#include <stdlib.h>

void yk_process_init(void)
{
  setenv("NCCL_NVLS_ENABLE", "0", 1);
}
