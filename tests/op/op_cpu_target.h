/* op_cpu_target.h - the CPU device as a target: once for each instruction set of this processor. */
#ifndef YK_TESTS_OP_CPU_TARGET_H
#define YK_TESTS_OP_CPU_TARGET_H

#include "each_case.h"
#include "kernels/cpu/cpu_device.h"
#include "op/op_harness.h"

static inline yk_status cpu_target_create(const void *variant, yk_dtype dtype, int n_threads,
                                          const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  return yk_cpu_device_create_with(variant, dtype, n_threads, limits, out, err);
}

/* check runs on every set. The portable one and the processor's best are always included; a sanitizer runs only
 * these. */
static inline void for_each_cpu_target(void (*check)(const op_target *target))
{
  static const char *const names[] = {"portable", "avx2", "avx512"};
  enum { N_NAMES = sizeof names / sizeof *names };
  for (size_t i = 0; each_case(i, i < N_NAMES) && i < N_NAMES; i++) { /* twice: analysers see no end in each_case */
    const yk_cpu_simd *simd = yk_cpu_simd_find(names[i]);
    if (!simd || (TEST_IS_SANITIZED && i == 1 && yk_cpu_simd_find(names[2]))) continue;
    assert_string_equal(simd->name, names[i]);
    op_target target = {.name = simd->name, .create = cpu_target_create, .variant = simd};
    check(&target);
  }
}

#endif
