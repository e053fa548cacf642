#define _GNU_SOURCE /* strcasestr */
#include "study/gpu_types.h"

#include <stddef.h>
#include <string.h>

#define GB           1e9
#define MEMORY_SHARE 0.92
#define GEMM_SHARE   0.7

/* NVLink: bench/results/machine_h200_x2.json, allreduce_h200_x4.json. PCIe: NCCL's latency over PCIe switches (peer
 * access) and through the host's memory (GeForce, which has no peer access), as public measurements give it. */
#define NVLINK                  .has_nvlink = true, .all_reduce_start_us = 1.9, .all_reduce_step_us = 0.6
#define PCIE_PEERS              .all_reduce_start_us = 12, .all_reduce_step_us = 4, .all_reduce_bytes_per_s = 18 * GB
#define PCIE_HOST               .all_reduce_start_us = 20, .all_reduce_step_us = 6, .all_reduce_bytes_per_s = 10 * GB
#define DATASHEET(gb_s, tflops) .memory_bytes_per_s = MEMORY_SHARE * (gb_s)*GB, .gemm_flops = GEMM_SHARE * (tflops)*1e12

static const yk_gpu_type types[] = {
    {"H200", 140 * GB, 4.56e12, 673e12, .is_measured = true, NVLINK, .all_reduce_bytes_per_s = 245 * GB},
    {"H100", 80 * GB, 3.07e12, 719e12, .is_measured = true, NVLINK, .all_reduce_bytes_per_s = 245 * GB},
    {"A100", 80 * GB, DATASHEET(2039, 312), NVLINK, .all_reduce_bytes_per_s = 160 * GB},
    {"L40S", 48 * GB, DATASHEET(864, 362), PCIE_PEERS},
    {"RTX A6000", 48 * GB, DATASHEET(768, 155), PCIE_PEERS},
    {"A10", 24 * GB, DATASHEET(600, 125), PCIE_PEERS},
    {"RTX 5090", 32 * GB, DATASHEET(1792, 210), PCIE_HOST},
    {"RTX 4090", 24 * GB, DATASHEET(1008, 165), PCIE_HOST},
    {"RTX 3090", 24 * GB, DATASHEET(936, 71), PCIE_HOST},
};

const yk_gpu_type *yk_gpu_type_at(int index)
{
  return (size_t)index < sizeof types / sizeof *types ? &types[index] : NULL;
}

const yk_gpu_type *yk_gpu_type_find(const char *name)
{
  const yk_gpu_type *found = NULL; /* the longest name: "A10" is in "A100" */
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcasestr(name, types[i].name) && (!found || strlen(types[i].name) > strlen(found->name))) found = &types[i];
  for (size_t i = 0; i < sizeof types / sizeof *types && !found && name[0]; i++)
    if (strcasestr(types[i].name, name)) found = &types[i];
  return found;
}

yk_machine_rates yk_gpu_type_rates(const yk_gpu_type *type)
{
  return (yk_machine_rates){.memory_bytes_per_s = type->memory_bytes_per_s, .gemm_flops = type->gemm_flops};
}
