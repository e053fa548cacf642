/* gpu_fixture.h - shared by the tests of communicators over GPUs. */
#ifndef TESTS_COMM_GPU_FIXTURE_H
#define TESTS_COMM_GPU_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "comm/conformance.h"
#include "kernels/cuda/cuda_device.h"

/* Shapes [rows, 4096] on both sides of every size at which the algorithm of a 16-bit sum may change: 512 KiB, 2 MiB, 8
 * MiB. */
static const comm_shape gpu_large_shapes[] = {{1, 4096},   {64, 4096},  {65, 4096},   {256, 4096},
                                              {257, 4096}, {300, 4088}, {1024, 4096}, {1025, 4096}};
enum { N_GPU_LARGE_SHAPES = sizeof gpu_large_shapes / sizeof *gpu_large_shapes };

/* Number of GPUs to test on, at least 2; if there are fewer, *exit_code is the program's exit code. */
static inline int gpus_to_test(int *exit_code)
{
  const char *required = getenv("YOKE_REQUIRE_GPU"), *nvls = getenv("NCCL_NVLS_ENABLE");
  int n_gpus = yk_cuda_device_count(), n_required = required ? atoi(required) : 0;
  *exit_code = 1;
  if (n_gpus < n_required) {
    printf("YOKE_REQUIRE_GPU=%d, but there are %d GPUs\n", n_required, n_gpus);
    return 0;
  }
  if (!nvls || nvls[0] != '0') {
    printf("NCCL_NVLS_ENABLE: expected 0, found %s\n", nvls ? nvls : "nothing");
    return 0;
  }
  if (required && n_required < n_gpus) n_gpus = n_required;
  if (n_gpus >= 2) return n_gpus < COMM_TESTED_RANKS ? n_gpus : COMM_TESTED_RANKS;
  printf(yk_cuda_device_count() ? "skipped, needs 2 GPUs\n" : "skipped, no device\n");
  *exit_code = 77;
  return 0;
}

/* Rank r gets GPU r % n_gpus. False for types in which GPUs do not compute. */
static inline bool open_gpus_of(int n_gpus, int n_ranks, yk_dtype dtype, yk_device **devs)
{
  yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  yk_err err = YK_ERR_INIT;
  if (dtype == YK_F32) return false;
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cuda_device_create(rank % n_gpus, dtype, &limits, &devs[rank], &err) != YK_OK) {
      printf("%s\n", err.message);
      abort();
    }
  return true;
}

/* The same with a GPU for each rank. */
static inline bool open_gpus(int n_ranks, yk_dtype dtype, yk_device **devs)
{
  return open_gpus_of(n_ranks, n_ranks, dtype, devs);
}

static inline void close_gpus(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) comms[rank]->ops->destroy(comms[rank]);
  for (int rank = 0; rank < n_ranks; rank++) devs[rank]->ops->destroy(devs[rank]);
}

#endif
