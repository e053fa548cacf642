/* nvml.h - the functions of NVIDIA's management library and of its driver that report a GPU's state, loaded at run
 * time. The declarations follow the public documentation, so that no build needs NVIDIA's headers. */
#ifndef YK_BENCH_NVML_H
#define YK_BENCH_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* Return values of NVML and the driver; all others are failures too. */
enum { YK_NVML_OK = 0, YK_NVML_TOO_SMALL = 7 };

enum { YK_NVML_CLOCK_SM = 1, YK_NVML_CLOCK_MEMORY = 2, YK_NVML_TEMPERATURE_GPU = 0, YK_NVML_PCI_BYTES = 32 };

/* Reasons for lower clocks that matter under load: clocks set by an application, software power cap, hardware slowdown,
 * sync boost, software and hardware thermal slowdown, power brake. */
enum { YK_NVML_SLOWED = 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 };

typedef struct yk_nvml_process {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
} yk_nvml_process;

typedef struct yk_nvml {
  int (*init)(void);
  int (*handle)(const char *pci_bus_id, void **device);
  /* Each is NULL if the library lacks it. */
  int (*clock)(void *device, int which, unsigned *mhz);
  int (*temperature)(void *device, int sensor, unsigned *celsius);
  int (*power)(void *device, unsigned *milliwatts);
  int (*power_cap)(void *device, unsigned *milliwatts);
  int (*energy)(void *device, unsigned long long *millijoules);
  int (*slowed)(void *device, unsigned long long *reasons);
  /* *n: capacity; on return the number of processes */
  int (*processes)(void *device, unsigned *n, yk_nvml_process *out);
} yk_nvml;

/* yk_nvml_load - false if the library, or a function that all figures need, is missing or fails to start. This and
 *   every missing function are logged. */
bool yk_nvml_load(yk_nvml *nvml, const yk_log *log);

/* yk_nvml_bus_id - the bus id of the GPU with a CUDA ordinal, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER
 *   determine: NVML numbers GPUs differently. False if the driver does not provide it, which is logged. */
bool yk_nvml_bus_id(int cuda_ordinal, char out[YK_NVML_PCI_BYTES], const yk_log *log);

#endif
