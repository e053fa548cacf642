/* devices.c - list the devices that ranks can run on. */
#include <stdio.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/struct_size.h"
#include "engine/machine/gpus.h"

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

static yk_status describe(int index, yk_device_info *out, yk_err *err)
{
  if (index > 0) return yk_gpus_describe(index - 1, out, err);
  *out = describe_cpu();
  return YK_OK;
}

yk_status yk_device_list_sized(yk_device_info *out, size_t struct_size, int max, int *n, yk_err *err)
{
  *n = 0;
  if (max < 0) return yk_err_set(err, YK_E_INVAL, "max: expected 0 or more, found %d", max);
  YK_TRY(yk_check_array("out", out, (size_t)max, err));
  *n = 1 + yk_gpus_count();
  for (int i = 0; i < *n && i < max; i++) {
    yk_device_info info;
    YK_TRY(describe(i, &info, err));
    yk_struct_write((char *)out + (size_t)i * struct_size, struct_size, &info, sizeof info);
  }
  return YK_OK;
}
