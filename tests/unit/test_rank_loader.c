/* 4-bit layers reach the device in the packing that it takes, as the same slices, and take the bytes that were planned,
 * on both kinds of device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/linear/layout.h"
#include "model/rank_loader.h"

enum { K = 256, N = 96 };

/* What the device was given. */
typedef struct seen {
  yk_device base;
  yk_linear_spec spec;
} seen;

static yk_status create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  (void)err;
  ((seen *)(void *)dev)->spec = *spec;
  *out = NULL;
  return yk_linear_check(spec, err) == YK_OK &&
                 (yk_range_size(spec->parts[0].k) == 0 || yk_linear_check_awq(&spec->parts[0], 0, err) == YK_OK)
             ? YK_OK
             : err->code;
}

static void check(yk_int4_packing packing, int64_t group, yk_range k, yk_range n, int64_t group_local)
{
  static const uint8_t zeros[K * N];
  static const yk_device_ops ops = {.linear_create = create, .linear_bytes = yk_cpu_linear_bytes};
  seen dev = {.base = {.ops = &ops, .dtype = YK_F16}};
  yk_rank_buffer repacked = {0};
  const yk_rank_loader loader = {.dev = &dev.base, .repacked = &repacked};
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8};
  spec.parts[0] = (yk_linear_part){.weight = {.format = YK_WEIGHT_AWQ,
                                              .k = K,
                                              .n = N,
                                              .group = group,
                                              .dtype = YK_F16,
                                              .packing = packing,
                                              .qweight = zeros,
                                              .qzeros = zeros,
                                              .scales = zeros},
                                   .k = k,
                                   .n = n,
                                   .group_local = group_local};
  yk_linear *linear;
  yk_err err = YK_ERR_INIT;
  if (yk_rank_load_linear(&loader, &spec, &linear, &err) != YK_OK)
    fail_msg("packing %d: %s", (int)packing, err.message);
  const yk_linear_part *part = &dev.spec.parts[0];
  assert_int_equal(yk_range_size(part->k), yk_range_size(k));
  assert_int_equal(yk_range_size(part->n), yk_range_size(n));
  assert_int_equal(part->group_local, group_local);
  assert_int_equal(yk_cpu_linear_bytes(&dev.spec), yk_cpu_linear_bytes(&spec));
  assert_int_equal(yk_cuda_linear_bytes(&dev.spec), yk_cuda_linear_bytes(&spec));
  free(repacked.memory);
}

static void planned_bytes_are_taken(void **state)
{
  (void)state;
  static const int64_t groups[] = {32, 64, K};
  static const int64_t k_cuts[] = {0, 20, 40, 64, 96, 128, 200, K}, n_cuts[] = {0, 8, 20, 64, N};
  for (yk_int4_packing packing = 0; packing < YK_N_INT4_PACKINGS; packing++)
    for (int g = 0; g < 3; g++)
      for (int i = 0; i < 8; i++)
        for (int j = i; j < 8; j++)
          for (int a = 0; a < 5; a++)
            for (int b = a; b < 5; b++) {
              yk_range k = {k_cuts[i], k_cuts[j]}, n = {n_cuts[a], n_cuts[b]};
              int64_t local = k.begin < k.end ? yk_shard_group(k, groups[g]) : groups[g];
              check(packing, groups[g], k, n, local);
            }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(planned_bytes_are_taken)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
