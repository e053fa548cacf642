/* op_gpu_gate.h - whether a test of GPUs runs, for C and C++.
 *
 * A test that needs N GPUs calls gpu_gate(N) first. YOKE_REQUIRE_GPU=M makes fewer than M GPUs a failure, and tests
 * that need more than M skip. YOKE_TEST_SMALL=1 selects the fewest shapes that still run every path of every kernel,
 * for tools that slow kernels down a hundredfold. */
#ifndef YK_TESTS_OP_GPU_GATE_H
#define YK_TESTS_OP_GPU_GATE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_device.h"

enum { GPU_GO = 0, GPU_FAIL = 1, GPU_SKIP = 77 };

static inline int gpu_gate(int n_needed)
{
  const char *required = getenv("YOKE_REQUIRE_GPU");
  int n = yk_cuda_device_count(), n_required = required ? atoi(required) : 0;
  if (n < n_required) {
    printf("YOKE_REQUIRE_GPU=%d, but there are %d GPUs\n", n_required, n);
    return GPU_FAIL;
  }
  if (n >= n_needed && (!required || n_needed <= n_required)) return GPU_GO;
  if (n == 0)
    printf("skipped, no device\n");
  else
    printf("skipped, needs %d GPUs\n", n_needed);
  return GPU_SKIP;
}

static inline bool gpu_is_small(void)
{
  const char *small = getenv("YOKE_TEST_SMALL");
  return small && strcmp(small, "1") == 0;
}

#endif
