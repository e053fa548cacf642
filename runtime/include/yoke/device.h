/* device.h - the devices on which ranks run. */
#ifndef YK_DEVICE_H
#define YK_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "yoke/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_device_kind { YK_DEVICE_AUTO, YK_DEVICE_CPU, YK_DEVICE_CUDA } yk_device_kind;

typedef struct yk_device_info {
  size_t struct_size;
  yk_device_kind kind;
  int id;         /* CUDA ordinal, as yk_engine_options.device_ids takes it; 0 for the CPU */
  char name[128]; /* "NVIDIA H200"; "CPU, 2 cores" */
  int64_t free_bytes, total_bytes;
} yk_device_info;

/* yk_device_list - the devices on which ranks can run: the CPU, which any number of ranks may share, then every GPU.
 *   out [max]: the first max devices, each with its struct_size set; may be NULL if max is 0. n: number of devices.
 *   Errors: YK_E_INVAL (a negative max), YK_E_DEVICE. */
yk_status yk_device_list_sized(yk_device_info *out, size_t struct_size, int max, int *n, yk_err *err);
static inline yk_status yk_device_list(yk_device_info *out, int max, int *n, yk_err *err)
{
  return yk_device_list_sized(out, sizeof *out, max, n, err);
}

#ifdef __cplusplus
}
#endif
#endif
