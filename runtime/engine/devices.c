/* devices.c - what ranks can run on. */
#include <stdio.h>
#include <unistd.h>

#include "engine/arguments.h"
#include "engine/gpus.h"

static yk_device_info describe_cpu(void)
{
  int64_t page_bytes = sysconf(_SC_PAGESIZE);
  yk_device_info cpu = {.kind = YK_DEVICE_CPU,
                        .free_bytes = (int64_t)sysconf(_SC_AVPHYS_PAGES) * page_bytes,
                        .total_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * page_bytes};
  long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
  snprintf(cpu.name, sizeof cpu.name, "CPU, %ld core%s", n_cores, n_cores == 1 ? "" : "s");
  return cpu;
}

yk_status yk_device_list(yk_device_info *out, int max, int *n, yk_err *err)
{
  *n = 0;
  if (max < 0) return yk_err_set(err, YK_E_INVAL, "max: expected 0 or more, found %d", max);
  YK_TRY(yk_check_array("out", out, (size_t)max, err));
  int n_gpus = yk_gpus_count();
  *n = 1 + n_gpus;
  if (max > 0) out[0] = describe_cpu();
  for (int i = 0; i < n_gpus && i + 1 < max; i++) YK_TRY(yk_gpus_describe(i, &out[i + 1], err));
  return YK_OK;
}
