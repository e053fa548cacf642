/* Quantised layers reach the device in a supported form, as the same slices, and take the planned bytes, on both kinds
 * of device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/layout/layout.h"
#include "loader/integers/group_order.h"
#include "model/rank_loader.h"

enum { K = 256, N = 96 };

/* Arguments that the device received. */
typedef struct seen {
  yk_device base;
  yk_linear_spec spec;
} seen;

/* linear_keeps of a device without a table row for 8 bits or an order of inputs. */
static bool keeps_4_bits(const yk_linear_spec *spec, int i)
{
  const yk_weight_view *weight = &spec->parts[i].weight;
  return !weight->act_order && (weight->format == YK_WEIGHT_PLAIN || weight->format == YK_WEIGHT_AWQ);
}

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
  yk_rank_buffer repacked = {0};
  const yk_rank_loader loader = {
      .source = {.dev = {.dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes, .linear_keeps = keeps_4_bits}},
      .dev = &dev.base,
      .repacked = &repacked};
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

/* 8-bit parts arrive as rows of bytes if the device keeps them, else as 16-bit floats. */
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
  yk_rank_buffer repacked = {0};
  const yk_model_device sizes_on = {.dtype = dtype,
                                    .linear_bytes = kept ? yk_cpu_linear_bytes : yk_cuda_linear_bytes,
                                    .linear_keeps = kept ? yk_cpu_linear_keeps : keeps_4_bits};
  const yk_rank_loader loader = {.source = {.dev = sizes_on}, .dev = &dev.base, .repacked = &repacked};
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
  assert_int_equal(yk_repack_bytes(&sizes_on, &spec), sizes_on.linear_bytes(&dev.spec));
  for (int64_t i = n.begin; is_plain && i < n.end; i++)
    for (int64_t j = k.begin; j < k.end; j++) {
      float w = yk_f16_to_f32(scales[j / 64 * N + i]) * (float)bytes[j / 4 * 4 * N + 4 * i + j % 4]; /* zeros: -128 */
      uint16_t rounded = part->weight.dtype == YK_F16 ? yk_f32_to_f16(w) : yk_f32_to_bf16(w);
      assert_int_equal(((const uint16_t *)part->weight.plain)[(i - n.begin) * part->weight.k + j - k.begin], rounded);
    }
  free(repacked.memory);
}

static void weights_the_device_does_not_keep_become_floats(void **state)
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

/* Inputs are quantised if weights stay 8 bits; if weights become floats, inputs are floats. */
static void quantised_inputs_go_with_8_bit_weights(void **state)
{
  (void)state;
  static const uint8_t zeros[4 * K * N];
  static const yk_range k = {40, 137}, n = {0, N};
  for (int kept = 0; kept < 2; kept++)
    for (int as_16_bits = 0; as_16_bits < 2; as_16_bits++) {
      const yk_model_device dev = {.dtype = YK_F16,
                                   .linear_bytes = kept ? yk_cpu_linear_bytes : yk_cuda_linear_bytes,
                                   .linear_keeps = kept ? yk_cpu_linear_keeps : keeps_4_bits};
      yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8}, repacked;
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
      if (yk_repack_layer(&dev, &spec, NULL, &buffer, &repacked, &err) != YK_OK) fail_msg("%s", err.message);
      const yk_inputs *inputs = &repacked.parts[0].weight.inputs;
      assert_int_equal(yk_linear_has_sums(&repacked), stays);
      assert_int_equal(yk_repack_n_float_inputs(&dev, &spec), stays ? 0 : 1);
      assert_int_equal(inputs->kind, stays ? YK_INPUTS_STATIC : YK_INPUTS_FLOAT);
      if (stays) assert_true(inputs->scale == 0.5f && inputs->zero == 3 && repacked.parts[0].weight.group == 97);
      free(buffer.memory);
    }
}

/* ---- Inputs in the order of groups ------------------------------------------------------------------------------- */

enum { ORDER_GROUP = 64, FIRST_N = 8, TAKEN_N = 40 };

typedef struct order_case {
  bool kept; /* the device keeps sorted inputs */
  yk_weight_format format;
  const yk_group_share *share;
  bool orders_outputs;
} order_case;

/* The output at place i of the rank's share. */
static int32_t output_of(const order_case *c, int32_t i)
{
  return FIRST_N + (c->orders_outputs ? (i * 7) % TAKEN_N : i);
}

/* A layer whose weights and biases are the numbers of their outputs; weights of 8 bits are 17 times that. */
static yk_linear_spec order_spec(const order_case *c)
{
  static const uint8_t zeros[K * N];
  static uint8_t ones[K * N];
  static uint16_t scales[K / ORDER_GROUP * N], bias[N];
  static int32_t g_idx[K], outputs[TAKEN_N];
  for (int i = 0; i < K; i++) g_idx[(i * 37 + 3) % K] = i / ORDER_GROUP;
  for (int i = 0; i < N; i++) bias[i] = (uint16_t)i;
  for (int i = 0; i < K / ORDER_GROUP * N; i++) scales[i] = yk_f32_to_f16((float)(i % N));
  for (int i = 0; i < TAKEN_N; i++) outputs[i] = output_of(c, i);
  memset(ones, 0x11, sizeof ones);
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8};
  spec.parts[0] = (yk_linear_part){.weight = {.format = c->format,
                                              .k = K,
                                              .n = N,
                                              .group = ORDER_GROUP,
                                              .dtype = YK_F16,
                                              .packing = YK_PACKING_GPTQ,
                                              .qweight = ones,
                                              .qzeros = zeros,
                                              .has_zeros = true,
                                              .act_order = true,
                                              .g_idx = g_idx,
                                              .scales = scales,
                                              .bias = bias,
                                              .bias_dtype = YK_F16},
                                   .k = {c->share->begin, c->share->end},
                                   .n = {FIRST_N, FIRST_N + TAKEN_N},
                                   .group_local = ORDER_GROUP,
                                   .use_bias = true,
                                   .k_is_sorted = c->kept && c->share->of_sorted,
                                   .n_order = c->orders_outputs ? outputs : NULL};
  return spec;
}

static void expect_outputs(const order_case *c, const yk_linear_part *found, int64_t size)
{
  for (int i = 0; i < TAKEN_N; i++) {
    uint16_t element;
    memcpy(&element, (const char *)found->weight.bias + 2 * (found->n.begin + i), 2);
    assert_int_equal(element, output_of(c, i));
    for (int64_t k = 0; !c->kept && k < size; k++) {
      float w = yk_f16_to_f32(((const uint16_t *)found->weight.plain)[i * size + k]);
      assert_float_equal(w, (float)(output_of(c, i) * (c->format == YK_WEIGHT_INT8 ? 17 : 1)), 0);
    }
  }
}

static void expect_x_order(const order_case *c, const yk_linear_part *given, const yk_linear_part *found,
                           const yk_group_places *places, int64_t size)
{
  yk_err err = YK_ERR_INIT;
  int32_t inputs[4 * K];
  bool in_order = !c->kept || (c->share->of_sorted && places->n == size);
  assert_true(in_order == !found->x_order);
  if (c->kept) assert_int_equal(yk_group_order_fill(&given->weight, c->share, places, inputs, NULL, &err), YK_OK);
  for (int64_t i = 0, next = 0; !in_order && i < places->n; i++) {
    int64_t column = inputs[i] < 0 ? -1 : c->share->of_sorted ? next++ : inputs[i] - c->share->begin;
    assert_int_equal(found->x_order[i], column);
  }
}

/* Inputs that are sorted by group if the device keeps that, else floats in the original order. */
static void check_act_order(const order_case *c)
{
  int64_t (*const linear_bytes)(const yk_linear_spec *spec) = c->kept ? yk_cpu_linear_bytes : yk_cuda_linear_bytes;
  const yk_device_ops ops = {.linear_create = create, .linear_bytes = linear_bytes};
  seen dev = {.base = {.ops = &ops, .dtype = YK_F16}};
  yk_rank_buffer repacked = {0};
  const yk_model_device sizes_on = {
      .dtype = YK_F16, .linear_bytes = linear_bytes, .linear_keeps = c->kept ? yk_cpu_linear_keeps : keeps_4_bits};
  const yk_rank_loader loader = {.source = {.dev = sizes_on}, .dev = &dev.base, .repacked = &repacked};
  yk_linear_spec spec = order_spec(c);
  yk_linear_part *part = &spec.parts[0];
  yk_err err = YK_ERR_INIT;
  yk_group_places places = {0};
  assert_int_equal(yk_repack_sorts(&sizes_on, part), c->kept);
  if (c->kept) {
    assert_int_equal(yk_group_order_measure(&part->weight, c->share, &places, &err), YK_OK);
    part->k_places = places.n;
    part->group_local = places.group;
  }
  yk_linear *linear;
  if (yk_rank_load_linear(&loader, &spec, &linear, &err) != YK_OK) fail_msg("%s", err.message);
  const yk_linear_part *found = &dev.spec.parts[0];
  int64_t size = c->share->end - c->share->begin;
  assert_int_equal(yk_repack_bytes(&sizes_on, &spec), linear_bytes(&dev.spec));
  assert_int_equal(yk_repack_n_unkept(&sizes_on, &spec), !c->kept);
  assert_int_equal(yk_range_size(found->n), TAKEN_N);
  assert_int_equal(yk_linear_x_size(found), size);
  assert_true(!found->weight.act_order && !found->weight.g_idx && !found->k_is_sorted && !found->n_order);
  assert_int_equal(found->weight.format, c->kept ? c->format : YK_WEIGHT_PLAIN);
  assert_int_equal(yk_range_size(found->k), c->kept ? places.n : size);
  expect_outputs(c, found, size);
  expect_x_order(c, part, found, &places, size);
  free(repacked.memory);
}

static void sorted_inputs_come_with_the_order_of_x(void **state)
{
  (void)state;
  static const yk_group_share shares[] = {
      {0, K, false}, {40, 200, false}, {0, K, true}, {64, 192, true}, {24, 72, true}};
  for (int kept = 0; kept < 2; kept++)
    for (int i = 0; i < 5; i++)
      for (int orders_outputs = 0; orders_outputs < 2; orders_outputs++) {
        check_act_order(&(order_case){kept, YK_WEIGHT_AWQ, &shares[i], orders_outputs});
        check_act_order(&(order_case){kept, YK_WEIGHT_INT8, &shares[i], orders_outputs});
      }
}

/* ---- Several matrices -------------------------------------------------------------------------------------------- */

enum { N_MATRICES = 3, MATRIX_GROUP = 64 };

/* A weight whose bytes are all its own data. */
static yk_weight_view matrix_of(yk_weight_format format, yk_packing packing, int m)
{
  static uint8_t bytes[N_MATRICES][K * N], zeros[N_MATRICES][K / MATRIX_GROUP * N];
  static uint16_t scales[N_MATRICES][K / MATRIX_GROUP * N];
  for (uint32_t i = 0; i < K * N; i++) bytes[m][i] = (uint8_t)((i + (uint32_t)m * 977u) * 2654435761u >> 24);
  for (uint32_t i = 0; i < K / MATRIX_GROUP * N; i++) {
    zeros[m][i] = (uint8_t)((i + (uint32_t)m) * 40503u >> 8);
    scales[m][i] = yk_f32_to_f16((float)(i % 7 + (uint32_t)m + 1) / 64.0f);
  }
  return (yk_weight_view){.format = format,
                          .k = K,
                          .n = N,
                          .group = MATRIX_GROUP,
                          .dtype = YK_F16,
                          .packing = packing,
                          .qweight = bytes[m],
                          .qzeros = zeros[m],
                          .has_zeros = true,
                          .scales = scales[m]};
}

static void expect_same_bytes(const void *found, const void *expected, int64_t n_bytes)
{
  assert_true(!found == !expected);
  if (found) assert_memory_equal(found, expected, (size_t)n_bytes);
}

static void expect_same_weight(const yk_linear_part *found, const yk_linear_part *expected)
{
  const yk_weight_view *a = &found->weight, *b = &expected->weight;
  assert_true(a->format == b->format && a->k == b->k && a->n == b->n && a->group == b->group && a->dtype == b->dtype);
  assert_true(found->k.begin == expected->k.begin && found->k.end == expected->k.end);
  assert_true(found->n.begin == expected->n.begin && found->n.end == expected->n.end);
  int64_t n_groups = a->group ? yk_ceil_div_i64(a->k, a->group) : 0, element = a->format == YK_WEIGHT_INT8 ? 4 : 2;
  expect_same_bytes(a->plain, b->plain, a->k * a->n * 2);
  expect_same_bytes(a->qweight, b->qweight, a->format == YK_WEIGHT_AWQ ? a->k * a->n / 2 : a->k * a->n);
  expect_same_bytes(a->scales, b->scales, n_groups * a->n * element);
  expect_same_bytes(a->qzeros, b->qzeros, a->format == YK_WEIGHT_AWQ ? n_groups * a->n / 2 : n_groups * a->n * element);
}

static void check_matrices(const yk_model_device *dev, yk_weight_format format, yk_packing packing)
{
  static const yk_range ks[] = {{0, K}, {64, 192}};
  for (int c = 0; c < 2; c++) {
    yk_weight_view more[N_MATRICES - 1];
    yk_rank_buffer buffer = {0}, alone_buffer = {0};
    yk_err err = YK_ERR_INIT;
    yk_linear_spec spec = {.n_parts = 1, .n_matrices = N_MATRICES, .is_grouped = true, .max_tokens = 8}, all, alone;
    spec.parts[0] = (yk_linear_part){.weight = matrix_of(format, packing, 0),
                                     .more_weights = more,
                                     .k = ks[c],
                                     .n = {8, 64},
                                     .group_local = yk_shard_group(ks[c], MATRIX_GROUP)};
    for (int m = 1; m < N_MATRICES; m++) more[m - 1] = matrix_of(format, packing, m);
    if (yk_repack_layer(dev, &spec, NULL, &buffer, &all, &err) != YK_OK) fail_msg("%s", err.message);
    assert_int_equal(yk_repack_bytes(dev, &spec), dev->linear_bytes(&all));
    for (int m = 0; m < N_MATRICES; m++) {
      yk_linear_spec single = spec;
      single.n_matrices = 1;
      single.parts[0].weight = matrix_of(format, packing, m);
      if (yk_repack_layer(dev, &single, NULL, &alone_buffer, &alone, &err) != YK_OK) fail_msg("%s", err.message);
      const yk_linear_part found = yk_linear_part_of(&all.parts[0], m);
      expect_same_weight(&found, &alone.parts[0]);
    }
    more[1].group = 32; /* unlike the other matrices */
    assert_int_equal(yk_repack_layer(dev, &spec, NULL, &buffer, &all, &err), YK_E_INVAL);
    assert_non_null(strstr(err.message, "matrix 2"));
    free(buffer.memory);
    free(alone_buffer.memory);
  }
}

/* With act order each matrix has an order of inputs, and of outputs too: each matrix is loaded as if it were the only
 * one, with its own order. */
static void check_ordered_matrices(const yk_model_device *dev, yk_weight_format format, bool k_is_sorted)
{
  enum { N_TAKEN = 48 };
  static int32_t g_idx[N_MATRICES][K], outputs[N_MATRICES * N_TAKEN];
  const yk_range k = k_is_sorted ? (yk_range){64, 192} : (yk_range){0, K};
  yk_weight_view more[N_MATRICES - 1];
  yk_rank_buffer buffer = {0}, alone_buffer = {0};
  yk_err err = YK_ERR_INIT;
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = N_MATRICES, .is_grouped = true, .max_tokens = 8}, all, alone;
  for (int m = 0; m < N_MATRICES; m++) {
    for (int i = 0; i < K; i++) g_idx[m][(i * 37 + 5 * m) % K] = i / MATRIX_GROUP;
    for (int i = 0; i < N_TAKEN; i++) outputs[m * N_TAKEN + i] = 8 + (i * (5 + 6 * m)) % N_TAKEN;
  }
  for (int m = 0; m < N_MATRICES; m++) {
    yk_weight_view *weight = m == 0 ? &spec.parts[0].weight : &more[m - 1];
    *weight = matrix_of(format, YK_PACKING_GPTQ, m);
    weight->act_order = true;
    weight->g_idx = m == 1 ? NULL : g_idx[m]; /* a matrix with groups of neighbours */
  }
  yk_linear_part *part = &spec.parts[0];
  part->more_weights = more;
  part->k = k;
  part->n = (yk_range){8, 8 + N_TAKEN};
  part->n_order = outputs;
  part->k_is_sorted = k_is_sorted;
  const yk_group_share share = {k.begin, k.end, k_is_sorted};
  yk_group_places places;
  assert_int_equal(yk_group_order_measure(&part->weight, &share, &places, &err), YK_OK);
  part->k_places = places.n;
  part->group_local = places.group;
  if (yk_repack_layer(dev, &spec, NULL, &buffer, &all, &err) != YK_OK) fail_msg("%s", err.message);
  assert_int_equal(yk_repack_bytes(dev, &spec), dev->linear_bytes(&all));
  assert_true(!all.parts[0].x_order == k_is_sorted); /* sorted inputs of a share are x unchanged */
  for (int m = 0; m < N_MATRICES; m++) {
    yk_linear_spec single = spec;
    single.n_matrices = 1;
    single.parts[0] = yk_linear_part_of(part, m);
    if (yk_repack_layer(dev, &single, NULL, &alone_buffer, &alone, &err) != YK_OK) fail_msg("%s", err.message);
    const yk_linear_part found = yk_linear_part_of(&all.parts[0], m);
    expect_same_weight(&found, &alone.parts[0]);
    expect_same_bytes(found.x_order, alone.parts[0].x_order, places.n * (int64_t)sizeof(int32_t));
    for (int64_t i = 0; m == 1 && found.x_order && i < places.n; i++) assert_int_equal(found.x_order[i], i);
  }
  free(buffer.memory);
  free(alone_buffer.memory);
}

static void matrices_have_orders_of_their_own(void **state)
{
  (void)state;
  const yk_model_device keeps = {
      .dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes, .linear_keeps = yk_cpu_linear_keeps};
  for (int k_is_sorted = 0; k_is_sorted < 2; k_is_sorted++) {
    check_ordered_matrices(&keeps, YK_WEIGHT_AWQ, k_is_sorted);
    check_ordered_matrices(&keeps, YK_WEIGHT_INT8, k_is_sorted);
  }
}

/* Each of several matrices is loaded as if it were the only one, with any conversion. */
static void matrices_are_repacked_as_alone(void **state)
{
  (void)state;
  const yk_model_device keeps = {
      .dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes, .linear_keeps = yk_cpu_linear_keeps};
  const yk_model_device floats = {.dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes, .linear_keeps = keeps_4_bits};
  check_matrices(&keeps, YK_WEIGHT_AWQ, YK_PACKING_AWQ_GEMM);
  check_matrices(&keeps, YK_WEIGHT_AWQ, YK_PACKING_GPTQ);
  check_matrices(&keeps, YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED);
  check_matrices(&keeps, YK_WEIGHT_INT8, YK_PACKING_GPTQ);
  check_matrices(&floats, YK_WEIGHT_INT8, YK_PACKING_GPTQ);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(planned_bytes_are_taken),
                                     cmocka_unit_test(weights_the_device_does_not_keep_become_floats),
                                     cmocka_unit_test(quantised_inputs_go_with_8_bit_weights),
                                     cmocka_unit_test(sorted_inputs_come_with_the_order_of_x),
                                     cmocka_unit_test(matrices_are_repacked_as_alone),
                                     cmocka_unit_test(matrices_have_orders_of_their_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
