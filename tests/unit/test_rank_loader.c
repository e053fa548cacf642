/* Quantised layers reach the device in a form that it takes, as the same slices, and take the bytes that were planned,
 * on both kinds of device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/checked.h"
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
  ((seen *)(void *)dev)->spec = *spec;
  *out = NULL;
  YK_TRY(yk_linear_check(spec, err));
  bool is_awq = spec->parts[0].weight.format == YK_WEIGHT_AWQ && yk_range_size(spec->parts[0].k) > 0;
  return is_awq ? yk_linear_check_awq(&spec->parts[0], 0, err) : YK_OK;
}

static void check(yk_packing packing, int64_t group, yk_range k, yk_range n, int64_t group_local)
{
  static const uint8_t zeros[K * N];
  static const yk_device_ops ops = {.linear_create = create, .linear_bytes = yk_cpu_linear_bytes};
  seen dev = {.base = {.ops = &ops, .dtype = YK_F16}};
  yk_rank_buffer brought = {0};
  const yk_rank_loader loader = {
      .source = {.dev = {.dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes}}, .dev = &dev.base, .brought = &brought};
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
  free(brought.memory);
}

static void planned_bytes_are_taken(void **state)
{
  (void)state;
  static const int64_t groups[] = {32, 64, K};
  static const int64_t k_cuts[] = {0, 20, 40, 64, 96, 128, 200, K}, n_cuts[] = {0, 8, 20, 64, N};
  for (yk_packing packing = 0; packing < YK_PACKING_ROWS; packing++)
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

/* 8-bit parts come as rows of bytes where the device keeps them, else as floats of 16 bits. */
static void check_8_bits(bool kept, bool as_16_bits, yk_dtype dtype, yk_range k, yk_range n)
{
  static const uint8_t zeros[4 * K * N];
  static uint8_t bytes[K * N];
  static const yk_device_ops ops = {.linear_create = create, .linear_bytes = yk_cpu_linear_bytes};
  const float scale = 0x1.8p-5f;
  static uint16_t scales[K / 64 * N];
  for (int i = 0; i < K * N; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
  for (int i = 0; i < K / 64 * N; i++) scales[i] = yk_f32_to_f16(scale * (float)(1 + i % 5));
  seen dev = {.base = {.ops = &ops, .dtype = dtype}};
  yk_rank_buffer brought = {0};
  const yk_model_device sizes_on = {.dtype = dtype,
                                    .linear_bytes = kept ? yk_cpu_linear_bytes : yk_cuda_linear_bytes,
                                    .linear_keeps = kept ? yk_cpu_linear_keeps : NULL};
  const yk_rank_loader loader = {.source = {.dev = sizes_on}, .dev = &dev.base, .brought = &brought};
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8};
  spec.parts[0] = (yk_linear_part){.weight = {.format = YK_WEIGHT_INT8,
                                              .k = K,
                                              .n = N,
                                              .group = 64,
                                              .dtype = YK_F16,
                                              .packing = YK_PACKING_GPTQ,
                                              .qweight = bytes,
                                              .qzeros = zeros,
                                              .has_zeros = true,
                                              .scales = scales,
                                              .bias = zeros,
                                              .bias_dtype = YK_F16},
                                   .k = k,
                                   .n = n,
                                   .group_local = yk_shard_group(k, 64),
                                   .use_bias = true,
                                   .as_16_bits = as_16_bits};
  yk_linear *linear;
  yk_err err = YK_ERR_INIT;
  if (yk_rank_load_linear(&loader, &spec, &linear, &err) != YK_OK) fail_msg("%s", err.message);
  const yk_linear_part *part = &dev.spec.parts[0];
  bool is_plain = !kept || as_16_bits;
  assert_int_equal(yk_range_size(part->k), yk_range_size(k));
  assert_int_equal(yk_range_size(part->n), yk_range_size(n));
  assert_int_equal(part->weight.format, is_plain ? YK_WEIGHT_PLAIN : YK_WEIGHT_INT8);
  assert_ptr_equal((const char *)part->weight.bias + 2 * part->n.begin, zeros + 2 * n.begin);
  if (is_plain) assert_int_equal(part->weight.dtype, dtype == YK_F32 ? YK_F16 : dtype);
  assert_int_equal(yk_bring_bytes(&sizes_on, &spec), sizes_on.linear_bytes(&dev.spec));
  for (int64_t i = n.begin; is_plain && i < n.end; i++)
    for (int64_t j = k.begin; j < k.end; j++) {
      float w = yk_f16_to_f32(scales[j / 64 * N + i]) * (float)bytes[j / 4 * 4 * N + 4 * i + j % 4]; /* zeros: -128 */
      uint16_t rounded = part->weight.dtype == YK_F16 ? yk_f32_to_f16(w) : yk_f32_to_bf16(w);
      assert_int_equal(((const uint16_t *)part->weight.plain)[(i - n.begin) * part->weight.k + j - k.begin], rounded);
    }
  free(brought.memory);
}

static void what_a_device_does_not_keep_is_floats(void **state)
{
  (void)state;
  static const yk_dtype dtypes[] = {YK_F16, YK_BF16, YK_F32};
  static const yk_range ks[] = {{0, K}, {40, 200}, {64, 128}, {8, 8}}, ns[] = {{0, N}, {20, 64}, {8, 8}};
  for (int kept = 0; kept < 2; kept++)
    for (int as_16_bits = 0; as_16_bits < 2; as_16_bits++)
      for (int d = 0; d < 3; d++)
        for (int i = 0; i < 4; i++)
          for (int j = 0; j < 3; j++) check_8_bits(kept, as_16_bits, dtypes[d], ks[i], ns[j]);
}

/* Inputs are quantised where weights stay 8 bits; where weights become floats, inputs are floats. */
static void quantised_inputs_go_with_8_bit_weights(void **state)
{
  (void)state;
  static const uint8_t zeros[4 * K * N];
  static const yk_range k = {40, 137}, n = {0, N};
  for (int kept = 0; kept < 2; kept++)
    for (int as_16_bits = 0; as_16_bits < 2; as_16_bits++) {
      const yk_model_device dev = {.dtype = YK_F16,
                                   .linear_bytes = kept ? yk_cpu_linear_bytes : yk_cuda_linear_bytes,
                                   .linear_keeps = kept ? yk_cpu_linear_keeps : NULL};
      yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8}, brought;
      spec.parts[0] = (yk_linear_part){.weight = {.format = YK_WEIGHT_INT8,
                                                  .k = K,
                                                  .n = N,
                                                  .group = K,
                                                  .group_n = N,
                                                  .dtype = YK_BF16,
                                                  .packing = YK_PACKING_BLOCKS,
                                                  .qweight = zeros,
                                                  .scales = zeros,
                                                  .inputs = {YK_INPUTS_STATIC, 0.5f, 3}},
                                       .k = k,
                                       .n = n,
                                       .group_local = yk_shard_group(k, K),
                                       .as_16_bits = as_16_bits};
      yk_rank_buffer buffer = {0};
      yk_err err = YK_ERR_INIT;
      bool stays = kept && !as_16_bits;
      if (yk_bring(&dev, &spec, &buffer, &brought, &err) != YK_OK) fail_msg("%s", err.message);
      const yk_inputs *inputs = &brought.parts[0].weight.inputs;
      assert_int_equal(yk_linear_has_sums(&brought), stays);
      assert_int_equal(yk_bring_n_float_inputs(&dev, &spec), stays ? 0 : 1);
      assert_int_equal(inputs->kind, stays ? YK_INPUTS_STATIC : YK_INPUTS_FLOAT);
      if (stays) assert_true(inputs->scale == 0.5f && inputs->zero == 3 && brought.parts[0].weight.group == 97);
      free(buffer.memory);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(planned_bytes_are_taken),
                                     cmocka_unit_test(what_a_device_does_not_keep_is_floats),
                                     cmocka_unit_test(quantised_inputs_go_with_8_bit_weights)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
