#include "bench/nvml.h"

#include <stddef.h>
#include <string.h>

#include "base/library.h"

static const char nvml_name[] = "libnvidia-ml.so.1", driver_name[] = "libcuda.so.1";

static const struct {
  yk_library_symbol symbol;
  const char *figure; /* the figure that needs the function; NULL: all figures do */
} functions[] = {
    {{"nvmlInit_v2", offsetof(yk_nvml, init)}, NULL},
    {{"nvmlDeviceGetHandleByPciBusId_v2", offsetof(yk_nvml, handle)}, NULL},
    {{"nvmlDeviceGetClockInfo", offsetof(yk_nvml, clock)}, "clocks"},
    {{"nvmlDeviceGetTemperature", offsetof(yk_nvml, temperature)}, "temperature"},
    {{"nvmlDeviceGetPowerUsage", offsetof(yk_nvml, power)}, "power"},
    {{"nvmlDeviceGetEnforcedPowerLimit", offsetof(yk_nvml, power_cap)}, "power cap"},
    {{"nvmlDeviceGetTotalEnergyConsumption", offsetof(yk_nvml, energy)}, "energy"},
    {{"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(yk_nvml, slowed)}, "reasons for low clocks"},
    {{"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(yk_nvml, processes)}, "other processes"},
};

bool yk_nvml_load(yk_nvml *nvml, const yk_log *log)
{
  memset(nvml, 0, sizeof *nvml);
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    yk_err missing = YK_ERR_INIT;
    if (yk_library_load(nvml_name, &functions[i].symbol, 1, nvml, &missing) == YK_OK) continue;
    if (!functions[i].figure) {
      yk_log_write(log, YK_LOG_WARN, "energy, clocks and temperature of GPUs are not measured: %s", missing.message);
      return false;
    }
    yk_log_write(log, YK_LOG_WARN, "GPUs: %s will not be measured: %s", functions[i].figure, missing.message);
  }
  int code = nvml->init();
  if (code == YK_NVML_OK) return true;
  yk_log_write(log, YK_LOG_WARN,
               "energy, clocks and temperature of GPUs are not measured: nvmlInit_v2 failed with code %d", code);
  return false;
}

typedef struct driver {
  int (*init)(unsigned flags);
  int (*device)(int *device, int ordinal);
  int (*bus_id)(char *out, int n_bytes, int device);
} driver;

bool yk_nvml_bus_id(int cuda_ordinal, char out[YK_NVML_PCI_BYTES], const yk_log *log)
{
  static const yk_library_symbol symbols[] = {{"cuInit", offsetof(driver, init)},
                                              {"cuDeviceGet", offsetof(driver, device)},
                                              {"cuDeviceGetPCIBusId", offsetof(driver, bus_id)}};
  driver cuda;
  yk_err missing = YK_ERR_INIT;
  if (yk_library_load(driver_name, symbols, sizeof symbols / sizeof symbols[0], &cuda, &missing) != YK_OK) {
    yk_log_write(log, YK_LOG_WARN, "energy, clocks and temperature of GPU %d are not measured: %s", cuda_ordinal,
                 missing.message);
    return false;
  }
  int device, code = cuda.init(0);
  if (code == YK_NVML_OK) code = cuda.device(&device, cuda_ordinal);
  if (code == YK_NVML_OK) code = cuda.bus_id(out, YK_NVML_PCI_BYTES, device);
  out[YK_NVML_PCI_BYTES - 1] = '\0';
  if (code == YK_NVML_OK) return true;
  yk_log_write(log, YK_LOG_WARN,
               "energy, clocks and temperature of GPU %d are not measured: the driver reports no PCI address (code %d)",
               cuda_ordinal, code);
  return false;
}
