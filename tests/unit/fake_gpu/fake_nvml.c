/* fake_nvml.c - a libnvidia-ml.so.1 whose behaviour the environment selects: FAKE_NVML=init, handle, refuse, nonsense,
 * many or crowd, or correct if it is not set. FAKE_NVML_POOR builds it without some functions. */
#include <stdlib.h>
#include <string.h>

#include "bench/nvml.h"

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, yk_nvml_process *out);

static bool is(const char *mode)
{
  const char *wanted = getenv("FAKE_NVML");
  return wanted && strcmp(wanted, mode) == 0;
}

static int give(unsigned *out, unsigned value)
{
  *out = is("nonsense") ? 4000000000u : value;
  return is("refuse") ? 3 : YK_NVML_OK;
}

int nvmlInit_v2(void)
{
  return is("init") ? 9 : YK_NVML_OK;
}

/* The last GPU on the bus is CUDA's first. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
  static char devices[2];
  if (is("handle")) return 6;
  *device = &devices[strcmp(bus_id, "0000:02:00.0") == 0 ? 0 : 1];
  return YK_NVML_OK;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz)
{
  (void)device;
  return give(mhz, which == YK_NVML_CLOCK_SM ? 1980 : 3201);
}

#ifndef FAKE_NVML_POOR
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
  (void)device;
  return give(celsius, sensor == YK_NVML_TEMPERATURE_GPU ? 41 : 0);
}

/* A thousand millijoules more at each query. */
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
  static unsigned long long n_calls;
  (void)device;
  n_calls++;
  *millijoules = is("nonsense") ? 1000000 - n_calls : 1000 * n_calls; /* runs backwards */
  return is("refuse") ? 3 : YK_NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, yk_nvml_process *out)
{
  (void)device;
  if (is("refuse")) return 3;
  if (is("crowd")) return YK_NVML_TOO_SMALL;
  unsigned n_processes = is("many") ? 10 : 1;
  for (unsigned i = 0; i < n_processes && i < *n; i++) out[i] = (yk_nvml_process){.pid = 1000001 + i};
  *n = is("nonsense") ? 4000000000u : n_processes;
  return YK_NVML_OK;
}
#endif

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
  (void)device;
  return give(milliwatts, 250500);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
  (void)device;
  return give(milliwatts, 700000);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
  (void)device;
  *reasons = is("nonsense") ? ~0ull : 0x1 | 0x4; /* idle is no reason; the power cap is */
  return is("refuse") ? 3 : YK_NVML_OK;
}
