#include "e2e/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

test_backend test_backend_of(yk_device_kind kind)
{
  if (kind != YK_DEVICE_CUDA) return (test_backend){.kind = YK_DEVICE_CPU, .dtype = YK_DTYPE_F32};
  return (test_backend){
      .kind = YK_DEVICE_CUDA, .n_ranks = 1, .dtype = YK_DTYPE_F16, .tolerance = 0.03f, .rare_tolerance = 0.06f};
}

test_backend test_backend_chosen(void)
{
  const char *name = getenv("YOKE_TEST_DEVICE"), *ranks = getenv("YOKE_TEST_RANKS");
  const char *stages = getenv("YOKE_TEST_STAGES");
  test_backend backend = test_backend_of(name && strcmp(name, "cuda") == 0 ? YK_DEVICE_CUDA : YK_DEVICE_CPU);
  if (ranks && atoi(ranks)) backend.n_ranks = atoi(ranks);
  if (stages) backend.n_stages = atoi(stages);
  return backend;
}

int test_backend_gate(yk_device_kind kind, int n_ranks)
{
  enum { SKIPPED = 77 };
  if (kind != YK_DEVICE_CUDA) return 0;
  const char *required = getenv("YOKE_REQUIRE_GPU");
  int n_devices = 1, n_required = required ? atoi(required) : 0;
  yk_device_list(NULL, 0, &n_devices, NULL);
  int n_gpus = n_devices - 1; /* the first is the CPU */
  if (n_gpus < n_required) {
    printf("YOKE_REQUIRE_GPU=%d, but there are %d GPUs\n", n_required, n_gpus);
    return 1;
  }
  if (n_gpus >= n_ranks && (!required || n_ranks <= n_required)) return 0;
  if (n_gpus == 0)
    printf("skipped, no device\n");
  else
    printf("skipped, needs %d GPUs\n", n_ranks);
  return SKIPPED;
}

const char *test_data_dir(void)
{
  const char *dir = getenv("YOKE_TESTS_DIR");
  return dir ? dir : YOKE_TESTS_DIR;
}
