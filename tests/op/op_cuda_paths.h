/* op_cuda_paths.h - GPU 0 as several targets: with all its resources, and with the smaller resources of other GPUs. */
#ifndef YK_TESTS_OP_CUDA_PATHS_H
#define YK_TESTS_OP_CUDA_PATHS_H

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "op/op_cuda_target.h"

/* A variant of the target. 0: no restriction. */
typedef struct cuda_restriction {
  bool lacks_wgmma;   /* GEMMs and prefill by mma.sync, as on GPUs before 9.0 */
  int32_t shared_kib; /* of a thread block, for attention: 163 on GPUs of 8.0, 99 on those of 8.6 */
  /* For GEMMs and the layers of a decode step: with few, each of their thread blocks has several output tiles. */
  int32_t n_multiprocessors;
} cuda_restriction;

/* The device was created for the GPU's own path: the second init of GEMMs allows the kernels of mma.sync their dynamic
 * shared memory, without which launches of more than 48 KB fail. */
static inline yk_status cuda_restricted_create(const void *variant, yk_dtype dtype, int n_threads,
                                               const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  const cuda_restriction *restriction = variant;
  YK_TRY(cuda_target_create(NULL, dtype, n_threads, limits, out, err));
  yk_cuda_device *cuda = yk_cuda_device_of(*out);
  if (restriction->lacks_wgmma) {
    YK_TRY(yk_gemm_gpu_init(&cuda->wna16, YK_GEMM_MMA, err));
    YK_TRY(yk_gemm_grouped_init(&cuda->wna16, err));
    cuda->attention.encode_tensor_map = cuda->latent.encode_tensor_map = NULL;
  }
  if (restriction->shared_kib && cuda->attention.smem_bytes > restriction->shared_kib * 1024)
    cuda->attention.smem_bytes = restriction->shared_kib * 1024;
  if (restriction->n_multiprocessors) cuda->wna16.n_multiprocessors = restriction->n_multiprocessors;
  return YK_OK;
}

static const cuda_restriction no_wgmma = {.lacks_wgmma = true};
static const cuda_restriction shared_memory_163 = {.shared_kib = 163}, shared_memory_99 = {.shared_kib = 99};
static const cuda_restriction few_multiprocessors = {.n_multiprocessors = 10};
static const cuda_restriction half_of_multiprocessors = {.n_multiprocessors = 66}; /* of an H200 */

#define CUDA_RESTRICTED(restriction)                                                                                   \
  {                                                                                                                    \
    .name = #restriction, .create = cuda_restricted_create, .variant = &(restriction), .lacks_f32 = true,              \
    .rounds_probabilities = true                                                                                       \
  }

static const op_target mma_target = CUDA_RESTRICTED(no_wgmma);
static const op_target *const cuda_paths[] = {&cuda_target, &mma_target};
enum { N_CUDA_PATHS = sizeof cuda_paths / sizeof *cuda_paths };

/* The target that the program's first argument names, without an argument the whole GPU; NULL: there is none. */
static inline const op_target *cuda_target_of(int argc, char **argv)
{
  static const op_target restricted[] = {CUDA_RESTRICTED(no_wgmma), CUDA_RESTRICTED(shared_memory_163),
                                         CUDA_RESTRICTED(shared_memory_99), CUDA_RESTRICTED(few_multiprocessors),
                                         CUDA_RESTRICTED(half_of_multiprocessors)};
  if (argc < 2) return &cuda_target;
  for (size_t i = 0; i < sizeof restricted / sizeof *restricted; i++)
    if (strcmp(argv[1], restricted[i].name) == 0) return &restricted[i];
  printf("%s: expected a restriction of op_cuda_paths.h, found \"%s\"\n", argv[0], argv[1]);
  return NULL;
}

/* A test whose state is the target. */
#define ON_TARGET(test, target) cmocka_unit_test_prestate(test, (void *)(uintptr_t)(target))

#endif
