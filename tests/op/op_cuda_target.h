/* op_cuda_target.h - GPU 0 as a target, and the tolerances of its arithmetic.
 *
 * A test that needs N GPUs calls gpu_gate(N) first. YOKE_REQUIRE_GPU=M makes fewer than M GPUs a failure, and tests
 * that need more than M skip. YOKE_TEST_SMALL=1 selects the fewest shapes that still run every path of every kernel,
 * for tools that slow kernels down a hundredfold. */
#ifndef YK_TESTS_OP_CUDA_TARGET_H
#define YK_TESTS_OP_CUDA_TARGET_H

#include "kernels/cuda/cuda_device.h"
#include "op/op_harness.h"

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

static const yk_dtype gpu_dtypes[] = {YK_F16, YK_BF16};
enum { N_GPU_DTYPES = 2 };

static inline yk_status cuda_target_create(const void *variant, yk_dtype dtype, int n_threads,
                                           const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  (void)variant, (void)n_threads;
  return yk_cuda_device_create(0, dtype, limits, out, err);
}

static const op_target cuda_target = {
    .name = "cuda", .create = cuda_target_create, .lacks_f32 = true, .rounds_probabilities = true};

#endif
