/* op_cuda_target.h - GPU 0 as a target, and the tolerances of its arithmetic. */
#ifndef YK_TESTS_OP_CUDA_TARGET_H
#define YK_TESTS_OP_CUDA_TARGET_H

#include "kernels/cuda/cuda_device.h"
#include "op/op_gpu_gate.h"
#include "op/op_harness.h"

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
