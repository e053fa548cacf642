/* gpu_types.h - rates of GPUs by name, for plans of machines that are not at hand. */
#ifndef YK_STUDY_GPU_TYPES_H
#define YK_STUDY_GPU_TYPES_H

#include <stdbool.h>

#include "study/limits.h"

typedef struct yk_gpu_type {
  const char *name; /* part of the name that the driver reports */
  double memory_bytes;
  /* Measured by `yoke bench machine` (is_measured), or the datasheet's times the share that H100 and H200 reach: 0.92
   * of the memory's rate, 0.7 of the f16 tensor rate. */
  double memory_bytes_per_s, gemm_flops;
  bool is_measured;
  bool has_nvlink; /* else GPUs are connected by PCIe */
  /* An all-reduce of n bytes over r GPUs of a host takes start_us + (r - 2) step_us + 2 (r - 1) / r n / rate. */
  double all_reduce_start_us, all_reduce_step_us, all_reduce_bytes_per_s;
} yk_gpu_type;

/* yk_gpu_type_at - the types in a fixed order; NULL after the last. */
const yk_gpu_type *yk_gpu_type_at(int index);

/* yk_gpu_type_find - the type whose name is in a device's name, or has a user's "4090" in it, in any case; NULL:
 *   unknown. */
const yk_gpu_type *yk_gpu_type_find(const char *name);

/* yk_gpu_type_rates - the rates in the form of a measured machine, without times of all-reduces. */
yk_machine_rates yk_gpu_type_rates(const yk_gpu_type *type);

#endif
