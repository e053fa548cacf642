/* op_cuda_paths.h - GPU 0 as two targets: with all its kernels, and with only those for GPUs before 9.0. */
#ifndef YK_TESTS_OP_CUDA_PATHS_H
#define YK_TESTS_OP_CUDA_PATHS_H

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/dense/dense.h"
#include "op/op_cuda_target.h"

/* A GPU that multiplies by mma.sync, as GPUs before 9.0 do. The device was created for the GPU's own path: the second
 * init allows the kernels of mma.sync their dynamic shared memory, without which launches of more than 48 KB fail. */
static inline yk_status create_with_mma(const void *variant, yk_dtype dtype, int n_threads,
                                        const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(cuda_target_create(variant, dtype, n_threads, limits, out, err));
  return yk_gemm_gpu_init(&yk_cuda_device_of(*out)->wna16, YK_GEMM_MMA, err);
}

static const op_target mma_target = {.name = "cuda, mma.sync", .create = create_with_mma};
static const op_target *const cuda_paths[] = {&cuda_target, &mma_target};
enum { N_CUDA_PATHS = sizeof cuda_paths / sizeof *cuda_paths };

#endif
