/* fake_driver.c - a libcuda.so.1 with two GPUs, the first of which comes second on the bus. */
#include <stdio.h>

int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetPCIBusId(char *out, int n_bytes, int device);

int cuInit(unsigned flags)
{
  return flags == 0 ? 0 : 1;
}

int cuDeviceGet(int *device, int ordinal)
{
  *device = ordinal;
  return ordinal < 2 ? 0 : 101;
}

int cuDeviceGetPCIBusId(char *out, int n_bytes, int device)
{
  snprintf(out, (size_t)n_bytes, "0000:0%d:00.0", 2 - device);
  return 0;
}
