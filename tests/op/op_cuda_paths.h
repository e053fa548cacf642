/* op_cuda_paths.h - GPU 0 as two targets: with all its kernels, and with those alone that GPUs before 9.0 have. */
#ifndef YK_TESTS_OP_CUDA_PATHS_H
#define YK_TESTS_OP_CUDA_PATHS_H

#include "kernels/cuda/device/state.h"
#include "op/op_cuda_target.h"

/* A GPU that multiplies by mma.sync, as those before 9.0 do. */
static inline yk_status create_with_mma(const void *variant, yk_dtype dtype, int n_threads,
                                        const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(cuda_target_create(variant, dtype, n_threads, limits, out, err));
  yk_cuda_device_of(*out)->wna16.path = YK_WNA16_MMA;
  return YK_OK;
}

static const op_target mma_target = {.name = "cuda, mma.sync", .create = create_with_mma};
static const op_target *const cuda_paths[] = {&cuda_target, &mma_target};
enum { N_CUDA_PATHS = sizeof cuda_paths / sizeof *cuda_paths };

#endif
