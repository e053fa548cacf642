/* Memory of linear layers on a GPU, computed without a GPU: bytes of the packed layout, parts fused if possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "each_case.h"
#include "kernels/cuda/layout/adapters.h"
#include "kernels/cuda/layout/layout.h"

enum {
  UNIT = 16 * 128 / 2,
  GROUP = 16 * 4
}; /* bytes of the nibbles of 16 columns by 128 inputs, and of a group's scales */

static yk_linear_part part_of(yk_weight_format format, int64_t k, int64_t n, int64_t group)
{
  return (yk_linear_part){.weight = {.format = format, .k = k, .n = n, .group = group, .dtype = YK_F16},
                          .k = {0, k},
                          .n = {0, n},
                          .group_local = group};
}

static yk_cuda_linear_layout layout_of(const yk_linear_spec *spec)
{
  yk_cuda_linear_layout layout;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_cuda_linear_lay_out(spec, YK_BF16, &layout, &err), YK_OK);
  return layout;
}

static void packed_bytes(void **state)
{
  (void)state;
  const struct {
    int64_t k, n, group, n_units, n_groups;
  } cases[] = {
      {8192, 1024, 128, 64 * 64, 1},    /* a group of scales per unit */
      {8192, 1024, 64, 64 * 64, 2},     /* two */
      {8192, 1024, 32, 64 * 64, 4},     /* four */
      {8192, 1024, 8192, 64 * 64, 1},   /* one group over all inputs, repeated in each unit */
      {3584, 1024, 512, 28 * 64, 1},    /* and so are long groups */
      {160, 8, 32, 2, 4},               /* both sides are padded to whole units */
      {28672, 8192, 128, 224 * 512, 1}, /* more than 2^26 weights */
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_linear_spec spec = {
        .parts = {part_of(YK_WEIGHT_AWQ, cases[i].k, cases[i].n, cases[i].group)}, .n_parts = 1, .n_matrices = 1};
    int64_t expected = cases[i].n_units * (UNIT + cases[i].n_groups * GROUP);
    assert_int_equal(yk_cuda_linear_bytes(&spec), (expected + 255) / 256 * 256);
  }
}

/* 8-bit weights: groups below 128 have their scales four times per unit, and each row of the units has one more. */
static void packed_bytes_of_bytes(void **state)
{
  (void)state;
  const struct {
    int64_t k, n, group, n_units, n_groups;
  } cases[] = {{8192, 1024, 128, 64 * 64, 1}, {8192, 1024, 8192, 64 * 64, 1}, {8192, 1024, 64, 64 * 64, 4},
               {8192, 1024, 32, 64 * 64, 4},  {200 + 24, 24, 128, 2 * 2, 1},  {96, 24, 200, 2, 1}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    for (int format = YK_WEIGHT_INT8; format <= YK_WEIGHT_FP8; format++) {
      yk_linear_spec spec = {.parts = {part_of((yk_weight_format)format, cases[i].k, cases[i].n, cases[i].group)},
                             .n_parts = 1,
                             .n_matrices = 1};
      int64_t expected = cases[i].n_units * (2 * UNIT + cases[i].n_groups * GROUP) + (cases[i].n + 15) / 16 * 16 * 4;
      assert_int_equal(yk_cuda_linear_bytes(&spec), (expected + 255) / 256 * 256);
      assert_true(yk_cuda_linear_keeps(&spec, 0));
      spec.f32_output = true;
      assert_int_equal(yk_cuda_linear_keeps(&spec, 0), format == YK_WEIGHT_INT8 && cases[i].n_groups == 1);
      if (yk_cuda_linear_keeps(&spec, 0)) assert_int_equal(yk_cuda_linear_bytes(&spec), (expected + 255) / 256 * 256);
    }
}

/* 4-bit floats: the scales of four groups are as large as those of one group of other formats. A unit has four groups,
 * of 16 inputs eight. */
static void packed_bytes_of_4_bit_floats(void **state)
{
  (void)state;
  const struct {
    int64_t k, n, group, n_units, n_fours;
  } cases[] = {{8192, 1024, 32, 64 * 64, 1},  {8192, 1024, 16, 64 * 64, 2}, {8192, 1024, 128, 64 * 64, 1},
               {2880, 2880, 32, 23 * 180, 1}, {96, 24, 16, 2, 2},           {96, 24, 96, 2, 1}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_linear_spec spec = {
        .parts = {part_of(YK_WEIGHT_FP4, cases[i].k, cases[i].n, cases[i].group)}, .n_parts = 1, .n_matrices = 1};
    int64_t expected = cases[i].n_units * (UNIT + cases[i].n_fours * GROUP) + (cases[i].n + 15) / 16 * 16 * 4;
    assert_int_equal(yk_cuda_linear_bytes(&spec), (expected + 255) / 256 * 256);
    assert_true(yk_cuda_linear_keeps(&spec, 0));
    spec.f32_output = true;
    assert_false(yk_cuda_linear_keeps(&spec, 0));
    spec.f32_output = false;
    spec.parts[0].group_local = 8;
    assert_false(yk_cuda_linear_keeps(&spec, 0));
  }
}

/* Parts that the GEMM of 8-bit weights does not support are repacked as 16 bits, except for those with separate
 * orders. */
static void other_bytes_are_not_kept(void **state)
{
  (void)state;
  for (int i = 0; i < 5; i++) {
    yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_INT8, 256, 64, 128)}, .n_parts = 1, .n_matrices = 1};
    yk_linear_part *part = &spec.parts[0];
    if (i == 0) part->k.begin = 16;
    if (i == 1) part->n.end = 60;
    if (i == 2) part->group_local = 16;
    if (i == 3) part->as_16_bits = true;
    if (i == 4) part->weight.inputs.kind = YK_INPUTS_PER_TOKEN;
    assert_false(yk_cuda_linear_keeps(&spec, 0));
    if (i > 2) continue;
    part->weight.act_order = true;
    assert_true(yk_cuda_linear_keeps(&spec, 0));
    part->weight.act_order = false; /* sorted, as repacked */
    part->x_size = 300;
    const yk_cuda_linear_layout layout = layout_of(&spec);
    assert_string_equal(layout.formats[0]->name, "int8 as 16 bits");
    assert_int_equal(layout.gemms[0].k, 300); /* in the order of x again */
    assert_int_equal(layout.gemms[0].x_size, 0);
  }
}

/* A grouped layer keeps bytes, with act order too, and integers with inputs that are quantised per token. */
static void grouped_layers_keep_bytes(void **state)
{
  (void)state;
  static const yk_weight_format formats[] = {YK_WEIGHT_AWQ, YK_WEIGHT_INT8, YK_WEIGHT_FP8, YK_WEIGHT_FP4};
  for (int i = 0; i < 4; i++) {
    yk_linear_spec spec = {
        .parts = {part_of(formats[i], 256, 64, 128)}, .n_parts = 1, .n_matrices = 4, .is_grouped = true};
    yk_weight_view *weight = &spec.parts[0].weight;
    assert_true(yk_cuda_linear_keeps(&spec, 0));
    weight->act_order = true;
    assert_int_equal(yk_cuda_linear_keeps(&spec, 0), i < 2); /* floats have no groups to sort */
    weight->act_order = false;
    weight->group = spec.parts[0].group_local = 256;
    spec.max_tokens = 300;
    for (int kind = YK_INPUTS_PER_TOKEN; kind <= YK_INPUTS_STATIC; kind++) {
      bool is_kept = formats[i] == YK_WEIGHT_INT8 && kind == YK_INPUTS_PER_TOKEN;
      weight->inputs.kind = (yk_inputs_kind)kind;
      if (formats[i] != YK_WEIGHT_AWQ) assert_int_equal(yk_cuda_linear_keeps(&spec, 0), is_kept);
      if (is_kept) assert_int_equal(yk_cuda_linear_staging_bytes(&spec), 512 * 4 + 300 * 256 + 256 * 4);
    }
  }
}

/* Parts whose inputs are in one order are one GEMM, which keeps the order. */
static void orders_of_inputs(void **state)
{
  (void)state;
  static const int32_t order[256] = {1, 0}, other[256] = {0, 1};
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 64, 128), part_of(YK_WEIGHT_AWQ, 256, 64, 128)},
                         .n_parts = 2,
                         .n_matrices = 1};
  int64_t packed = 2 * 8 * (UNIT + GROUP);
  assert_int_equal(yk_cuda_linear_bytes(&spec), packed);
  spec.parts[0].x_size = spec.parts[1].x_size = 300;
  assert_int_equal(yk_cuda_linear_bytes(&spec), packed + 256 * 4); /* before the orders are known */
  spec.parts[0].x_order = spec.parts[1].x_order = order;
  const yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 1);
  assert_int_equal(layout.gemms[0].x_size, 300);
  assert_int_equal(layout.gemms[0].order, packed);
  spec.parts[1].x_order = other;
  assert_int_equal(layout_of(&spec).n_gemms, 2);
  spec.activation = (yk_activation)YK_GATED_SILU; /* still one GEMM, of 16 bits, in the order of x */
  assert_int_equal(layout_of(&spec).n_gemms, 1);
  assert_string_equal(layout_of(&spec).formats[1]->name, "awq as 16 bits");
  assert_int_equal(layout_of(&spec).gemms[0].k, 300);
  spec.parts[1].x_order = order;
  assert_string_equal(layout_of(&spec).formats[1]->name, "awq");
  spec.activation = (yk_activation)YK_NO_ACTIVATION;
  spec.parts[1].x_size = 0;
  spec.parts[1].x_order = NULL;
  assert_int_equal(layout_of(&spec).n_gemms, 2);
}

/* Each matrix has an order; a gate and an up that differ in an order are 16 bits. Slots in order need staging
 * memory. */
static void orders_of_matrices(void **state)
{
  (void)state;
  enum { N_MATRICES = 3, K_LOCAL = 256 };
  static const int32_t order[N_MATRICES * K_LOCAL] = {1, 0}, other[N_MATRICES * K_LOCAL] = {1, 0, [2 * K_LOCAL] = 7};
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, K_LOCAL, 64, 128), part_of(YK_WEIGHT_AWQ, K_LOCAL, 64, 128)},
                         .n_parts = 2,
                         .n_matrices = N_MATRICES,
                         .activation = YK_GATED_SILU,
                         .is_grouped = true,
                         .max_tokens = 50};
  int64_t packed = 2 * 8 * (UNIT + GROUP);
  assert_int_equal(yk_cuda_linear_staging_bytes(&spec), 0);
  spec.parts[0].x_size = spec.parts[1].x_size = 300;
  assert_int_equal(yk_cuda_linear_bytes(&spec), N_MATRICES * (packed + K_LOCAL * 4));
  assert_int_equal(yk_cuda_linear_staging_bytes(&spec), 50 * K_LOCAL * 2);
  spec.parts[0].x_order = spec.parts[1].x_order = order;
  assert_string_equal(layout_of(&spec).formats[1]->name, "awq");
  spec.parts[1].x_order = other;
  assert_string_equal(layout_of(&spec).formats[1]->name, "awq as 16 bits");
  assert_int_equal(yk_cuda_linear_staging_bytes(&spec), 0);
  spec.parts[1].x_order = order;
  spec.is_grouped = false;
  assert_int_equal(yk_cuda_linear_staging_bytes(&spec), 0); /* these use the device's own scratch */
}

static void awq_as_16_bits(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128), part_of(YK_WEIGHT_AWQ, 256, 128, 128)},
                         .n_parts = 2,
                         .n_matrices = 1,
                         .activation = YK_GATED_SILU};
  spec.parts[0].as_16_bits = spec.parts[1].as_16_bits = true;
  const yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 1);
  assert_string_equal(layout.gemms[0].kind->name, "16 bits");
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 256 * 2);
}

static void parts_of_one_kind_are_one_gemm(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128), part_of(YK_WEIGHT_AWQ, 256, 64, 128),
                                   part_of(YK_WEIGHT_PLAIN, 256, 64, 0)},
                         .n_parts = 3,
                         .n_matrices = 1};
  spec.parts[1].use_bias = true;
  const yk_cuda_linear_layout layout = layout_of(&spec);
  const yk_cuda_gemm *gemms = layout.gemms;
  int64_t packed = 2 * 12 * (UNIT + GROUP), bias = 192 * 4; /* multiples of 256 bytes each */
  assert_int_equal(layout.n_gemms, 2);
  assert_string_equal(gemms[0].kind->name, "W4A16");
  assert_string_equal(gemms[1].kind->name, "16 bits");
  assert_true(gemms[0].has_bias && !gemms[1].has_bias);
  assert_int_equal(gemms[0].n, 192);
  assert_int_equal(gemms[0].bias, packed);
  assert_int_equal(gemms[1].first_column, 192);
  assert_int_equal(gemms[1].weights, packed + bias);
  assert_int_equal(layout.matrix_bytes, packed + bias + 256 * 64 * 2);
  assert_int_equal(yk_cuda_linear_bytes(&spec), layout.matrix_bytes);
  spec.n_matrices = 5;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 5 * layout.matrix_bytes);
}

/* Groups of different lengths are two WNA16 GEMMs; slices as 16 bits join a plain neighbour; empty slices join none. */
static void fusions_of_a_mixture(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128), part_of(YK_WEIGHT_AWQ, 256, 64, 64),
                                   part_of(YK_WEIGHT_PLAIN, 256, 64, 0)},
                         .n_parts = 3,
                         .n_matrices = 1};
  assert_int_equal(layout_of(&spec).n_gemms, 3);
  spec.parts[1].n.end = 60; /* cut inside a word */
  yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 2);
  assert_string_equal(layout.formats[1]->name, "awq as 16 bits");
  assert_int_equal(layout.gemms[1].n, 60 + 64);
  spec.parts[1].n.end = 0;
  spec.parts[2] = spec.parts[0];
  layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 1);
  assert_int_equal(layout.gemms[0].end_part, 3);
}

/* Gate and up are one GEMM, of a kind that supports both. */
static void gate_and_up_are_one_gemm(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 64, 128), part_of(YK_WEIGHT_AWQ, 256, 64, 128)},
                         .n_parts = 2,
                         .n_matrices = 1,
                         .activation = YK_GATED_SILU};
  assert_string_equal(layout_of(&spec).gemms[0].kind->name, "W4A16");
  spec.parts[1].weight.group = spec.parts[1].group_local = 64;
  assert_string_equal(layout_of(&spec).gemms[0].kind->name, "16 bits");
  spec.parts[1] = part_of(YK_WEIGHT_PLAIN, 256, 64, 0);
  const yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 1);
  assert_string_equal(layout.gemms[0].kind->name, "16 bits");
  assert_string_equal(layout.formats[0]->name, "awq as 16 bits");
  assert_true(layout.gemms[0].activation.is_gated);
  assert_int_equal(yk_cuda_gemm_columns_of_y(&layout.gemms[0]), 64);
}

/* A format whose GEMM is not one for AWQ weights. */
static int64_t other_bytes(const yk_cuda_gemm *gemm)
{
  return gemm->n * gemm->k;
}

static bool takes_small_parts(const yk_linear_spec *spec, int i)
{
  return yk_range_size(spec->parts[i].n) <= 64;
}

static const yk_cuda_gemm_kind other_gemm = {.name = "other", .weight_bytes = other_bytes};
static const yk_cuda_format other_format = {
    .name = "other", .weight_format = (yk_weight_format)100, .takes = takes_small_parts, .gemm = &other_gemm};

/* A format that is always loaded as 16 bits. */
static const yk_cuda_format third_format = {
    .name = "third as 16 bits", .weight_format = (yk_weight_format)101, .gemm = &yk_cuda_gemm_16_bits};

const yk_cuda_format *const yk_cuda_formats[] = {&yk_cuda_format_awq_fp8_inputs,
                                                 &yk_cuda_format_awq_int8_inputs,
                                                 &yk_cuda_format_awq,
                                                 &yk_cuda_format_awq_as_16_bits,
                                                 &yk_cuda_format_w8a8,
                                                 &yk_cuda_format_int8,
                                                 &yk_cuda_format_int8_to_f32,
                                                 &yk_cuda_format_int8_as_16_bits,
                                                 &yk_cuda_format_fp8,
                                                 &yk_cuda_format_fp4,
                                                 &yk_cuda_format_plain,
                                                 &other_format,
                                                 &third_format,
                                                 NULL};

static void weights_without_a_kernel_are_refused(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of((yk_weight_format)100, 256, 64, 0), part_of(YK_WEIGHT_AWQ, 256, 64, 128)},
                         .n_parts = 2,
                         .n_matrices = 1};
  yk_cuda_linear_layout layout;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(layout_of(&spec).n_gemms, 2);
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 64 + 2 * 4 * (UNIT + GROUP));
  spec.activation = (yk_activation)YK_GATED_SILU;
  assert_int_equal(yk_cuda_linear_lay_out(&spec, YK_F16, &layout, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "one GEMM of gate and up"));
  assert_int_equal(yk_cuda_linear_bytes(&spec), 0);
  spec.activation = (yk_activation)YK_NO_ACTIVATION;
  spec.parts[0] = part_of((yk_weight_format)100, 256, 72, 0);
  err = YK_ERR_INIT;
  assert_int_equal(yk_cuda_linear_lay_out(&spec, YK_F16, &layout, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "linear part 0"));
}

/* Cases that the WNA16 GEMM does not support stay 16 bits: results in float32, groups below 32, columns cut inside a
 * word. */
static void other_slices_stay_plain(void **state)
{
  (void)state;
  yk_linear_spec spec = {
      .parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128)}, .n_parts = 1, .n_matrices = 1, .f32_output = true};
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 128 * 2);
  spec.f32_output = false;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 2 * 8 * (UNIT + GROUP));
  spec.parts[0].n.end = 124;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 124 * 2);
  spec.parts[0].n.end = 128;
  spec.parts[0].k = (yk_range){16, 112};
  spec.parts[0].group_local = 16;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 96 * 128 * 2);
  spec.parts[0].n.end = 0; /* a rank that owns nothing */
  assert_int_equal(yk_cuda_linear_bytes(&spec), 0);
}

/* If no table row multiplies the part in its format, keeping it would only take memory twice: the part is repacked as
 * 16 bits. */
static void formats_that_a_gpu_keeps(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_PLAIN, 256, 64, 0), part_of(YK_WEIGHT_AWQ, 256, 64, 128),
                                   part_of((yk_weight_format)100, 256, 64, 0)},
                         .n_parts = 3,
                         .n_matrices = 1};
  for (int i = 0; i < 3; i++) assert_true(yk_cuda_linear_keeps(&spec, i));
  spec.parts[1].as_16_bits = true; /* the table row of 16 bits rounds such weights itself */
  assert_true(yk_cuda_linear_keeps(&spec, 1));
  spec.parts[1].weight.act_order = spec.parts[2].weight.act_order = true;
  assert_true(yk_cuda_linear_keeps(&spec, 1));
  assert_false(yk_cuda_linear_keeps(&spec, 2));
  spec.parts[2] = part_of((yk_weight_format)100, 256, 72, 0); /* too many columns for its table row */
  assert_false(yk_cuda_linear_keeps(&spec, 2));
  spec.parts[2] = part_of((yk_weight_format)101, 256, 64, 0);
  assert_string_equal(layout_of(&spec).formats[2]->name, "third as 16 bits");
  assert_false(yk_cuda_linear_keeps(&spec, 2));
}

/* Slices of K: 4-bit integers and floats of 16 bits, among them weights that are dequantised at load. */
static void formats_that_a_gpu_divides(void **state)
{
  (void)state;
  static const struct {
    yk_weight_format format;
    int64_t group;
    bool divides, f32_output;
  } cases[] = {{YK_WEIGHT_PLAIN, 0, true, false},  {YK_WEIGHT_PLAIN, 0, true, true},
               {YK_WEIGHT_AWQ, 128, true, false},  {YK_WEIGHT_AWQ, 128, true, true},
               {YK_WEIGHT_INT8, 128, false, true}, {YK_WEIGHT_INT8, 128, false, false},
               {YK_WEIGHT_FP8, 128, false, false}, {YK_WEIGHT_FP4, 32, false, false}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_linear_spec spec = {.parts = {part_of(cases[i].format, 256, 64, cases[i].group)},
                           .n_parts = 1,
                           .n_matrices = 1,
                           .f32_output = cases[i].f32_output,
                           .k_slices = 2};
    assert_int_equal(yk_cuda_linear_divides(&spec, 0), cases[i].divides);
  }
  yk_linear_spec rounded = {
      .parts = {part_of(YK_WEIGHT_AWQ, 256, 64, 128)}, .n_parts = 1, .n_matrices = 1, .k_slices = 2};
  rounded.parts[0].as_16_bits = true;
  assert_true(yk_cuda_linear_divides(&rounded, 0));
}

static void gate_and_up_are_kept_together(void **state)
{
  (void)state;
  yk_linear_spec spec = {
      .parts = {part_of((yk_weight_format)100, 256, 64, 0), part_of((yk_weight_format)100, 256, 64, 0)},
      .n_parts = 2,
      .n_matrices = 1,
      .activation = YK_GATED_SILU};
  assert_true(yk_cuda_linear_keeps(&spec, 0) && yk_cuda_linear_keeps(&spec, 1));
  spec.parts[1] = part_of(YK_WEIGHT_AWQ, 256, 64, 128);
  assert_false(yk_cuda_linear_keeps(&spec, 0));
  assert_true(yk_cuda_linear_keeps(&spec, 1));
}

static yk_linear_part w8a8_of(int64_t k, int64_t n, yk_inputs inputs)
{
  yk_linear_part part = part_of(YK_WEIGHT_INT8, k, n, k);
  part.weight.packing = YK_PACKING_ROWS;
  part.weight.dtype = YK_F32;
  part.weight.inputs = inputs;
  return part;
}

/* Rows of whole K tiles of 128 bytes, one scale and one sum each; with gate and up in panels of 8 and 8. */
static void w8a8_bytes(void **state)
{
  const yk_inputs per_token = {.kind = YK_INPUTS_PER_TOKEN};
  (void)state;
  yk_linear_spec spec = {.parts = {w8a8_of(256, 64, per_token)}, .n_parts = 1, .n_matrices = 1};
  assert_int_equal(yk_cuda_linear_bytes(&spec), 64 * (256 + 8));
  spec.parts[0] = w8a8_of(300, 30, per_token);
  assert_int_equal(yk_cuda_linear_bytes(&spec), 32 * (384 + 8));
  spec.parts[0].k = (yk_range){300, 300}; /* a rank without inputs adds zeros */
  assert_int_equal(yk_cuda_linear_bytes(&spec), 4352);
  spec = (yk_linear_spec){.parts = {w8a8_of(128, 20, per_token), w8a8_of(128, 20, per_token)},
                          .n_parts = 2,
                          .n_matrices = 1,
                          .activation = YK_GATED_SILU};
  assert_int_equal(yk_cuda_linear_bytes(&spec), (48 * (128 + 8) + 255) / 256 * 256);
}

/* Parts with equal quantisation of x are one GEMM; parts that the GEMM does not support are repacked as 16 bits, in the
 * same way on all ranks. */
static void w8a8_parts(void **state)
{
  const yk_inputs one = {YK_INPUTS_STATIC, 0.5f, -7}, other = {YK_INPUTS_STATIC, 0.5f, 7};
  (void)state;
  yk_linear_spec spec = {
      .parts = {w8a8_of(256, 64, one), w8a8_of(256, 64, one), w8a8_of(256, 64, other)}, .n_parts = 3, .n_matrices = 1};
  yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 2);
  assert_int_equal(layout.gemms[0].end_part, 2);
  assert_string_equal(layout.gemms[0].kind->name, "W8A8");
  for (int i = 0; i < 3; i++) assert_true(yk_cuda_linear_keeps(&spec, i));
  spec.parts[0].k = (yk_range){0, 0};
  assert_true(yk_cuda_linear_keeps(&spec, 0));
  spec.f32_output = true;
  assert_false(yk_cuda_linear_keeps(&spec, 0));
  spec.f32_output = false;
  spec.parts[0].as_16_bits = true;
  spec.parts[1].weight.inputs.kind = YK_INPUTS_FLOAT; /* W8A16 */
  spec.parts[2].weight.k = YK_MAX_QUANTISED_INPUTS + 1;
  for (int i = 0; i < 3; i++) assert_int_equal(yk_cuda_linear_keeps(&spec, i), i == 1);
  spec = (yk_linear_spec){.parts = {w8a8_of(256, 64, one), w8a8_of(256, 64, other)},
                          .n_parts = 2,
                          .n_matrices = 1,
                          .activation = YK_GATED_SILU};
  assert_false(yk_cuda_linear_keeps(&spec, 0) || yk_cuda_linear_keeps(&spec, 1));
}

/* Inputs in 8 bits: the weights' bytes stay the same; not for experts, other formats and float32 results. */
static void inputs_of_8_bits(void **state)
{
  (void)state;
  static const yk_inputs_kind roundings[] = {YK_INPUTS_FP8, YK_INPUTS_INT8};
  static const char *const kinds[] = {"W4A8 fp8", "W4A8 int8"};
  for (int i = 0; i < 10; i++) {
    const int form = i / 2;
    yk_linear_spec spec = {
        .parts = {part_of(form == 1 ? YK_WEIGHT_INT8 : YK_WEIGHT_AWQ, 512, 256, 128)}, .n_parts = 1, .n_matrices = 1};
    if (form == 2) spec.is_grouped = true;
    if (form == 3) spec.f32_output = true;
    const int64_t bytes = yk_cuda_linear_bytes(&spec);
    if (form < 4) spec.parts[0].rounding = roundings[i % 2];
    const yk_cuda_linear_layout layout = layout_of(&spec);
    assert_int_equal(strcmp(layout.gemms[0].kind->name, kinds[i % 2]) == 0, form == 0);
    assert_int_equal(yk_cuda_linear_bytes(&spec), bytes);
    if (form == 0) assert_int_equal(layout.gemms[0].kind->quantised_bytes(&layout.gemms[0], 65), 128 * 4 + 65 * 512);
  }
}

/* Parts whose inputs are rounded to different types are separate GEMMs; a gate and its up, which are one GEMM, then
 * stay in 16 bits. */
static void inputs_of_two_types(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 512, 256, 128), part_of(YK_WEIGHT_AWQ, 512, 256, 128)},
                         .n_parts = 2,
                         .n_matrices = 1};
  spec.parts[0].rounding = YK_INPUTS_FP8;
  spec.parts[1].rounding = YK_INPUTS_INT8;
  yk_cuda_linear_layout layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 2);
  assert_string_equal(layout.gemms[0].kind->name, "W4A8 fp8");
  assert_string_equal(layout.gemms[1].kind->name, "W4A8 int8");
  spec.activation = (yk_activation)YK_GATED_SILU;
  layout = layout_of(&spec);
  assert_int_equal(layout.n_gemms, 1);
  assert_string_equal(layout.gemms[0].kind->name, yk_cuda_gemm_wna16_int4.name);
}

static void a_tied_lm_head_takes_nothing(void **state)
{
  (void)state;
  yk_linear_spec spec = {
      .parts = {part_of(YK_WEIGHT_PLAIN, 256, 512, 0)}, .n_parts = 1, .n_matrices = 1, .f32_output = true};
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 512 * 2);
  spec.parts[0].is_resident = true;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 0);
}

/* Every element of an adapter's matrices has a distinct address within the adapter's memory. */
static void adapters_have_places(void **state)
{
  (void)state;
  static const struct {
    int64_t k, n[2];
    int32_t rank;
  } cases[] = {{512, {128, 64}, 16}, {70, {33, 1}, 5}, {96, {0, 40}, 33}};
  for (size_t c = 0; each_case(c, c < sizeof cases / sizeof *cases); c++) {
    const int64_t k = cases[c].k;
    const yk_linear_spec spec = {
        .parts = {part_of(YK_WEIGHT_PLAIN, k, cases[c].n[0], 0), part_of(YK_WEIGHT_PLAIN, k, cases[c].n[1], 0)},
        .n_parts = 2,
        .n_matrices = 1,
        .n_adapters = 3,
        .adapter_rank = cases[c].rank};
    const yk_cuda_adapter_layout layout = yk_cuda_adapters_lay_out(&spec);
    char *used = calloc(1, (size_t)layout.adapter_bytes);
    assert_non_null(used);
    for (int part = 0; part < 2; part++)
      for (int32_t r = 0; r < cases[c].rank; r++) {
        for (int64_t i = 0; i < k; i++) assert_int_equal(used[2 * yk_cuda_adapter_a_at(&layout, part, r, i)]++, 0);
        for (int64_t i = 0; i < cases[c].n[part]; i++)
          assert_int_equal(used[layout.b[part] + 2 * yk_cuda_adapter_b_at(&layout, r, i)]++, 0);
      }
    free(used);
    yk_linear_spec without = spec;
    without.n_adapters = 0;
    assert_int_equal(yk_cuda_linear_bytes(&spec),
                     yk_cuda_linear_bytes(&without) + layout.matrices + 3 * layout.adapter_bytes);
  }
}

/* Small numbers keep their precision in float16, and a part of rank 0 nothing but its entry. */
static void adapters_are_scaled(void **state)
{
  (void)state;
  enum { K = 40, N = 35 };
  float a[K], b[N];
  for (int i = 0; i < K; i++) a[i] = 3e-7f * (float)(1 + i);
  for (int i = 0; i < N; i++) b[i] = -2e4f * (float)(1 + i);
  const yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_PLAIN, K, N, 0), part_of(YK_WEIGHT_PLAIN, K, N, 0)},
                               .n_parts = 2,
                               .n_matrices = 1,
                               .n_adapters = 1,
                               .adapter_rank = 4};
  const yk_cuda_adapter_layout layout = yk_cuda_adapters_lay_out(&spec);
  const yk_linear_adapter parts[2] = {{.rank = 0}, {.a = a, .b = b, .rank = 1, .scale = 0.5f}};
  yk_cuda_adapter_part table[2] = {{9, 9.0f}, {9, 9.0f}};
  char *packed = calloc(1, (size_t)layout.adapter_bytes);
  assert_non_null(packed);
  yk_cuda_adapter_pack(&layout, YK_F16, parts, packed, table);
  assert_true(table[0].rank == 0 && table[1].rank == 1);
  for (int i = 0; i < K; i++) {
    const size_t at_b = (size_t)yk_cuda_adapter_b_at(&layout, 0, i % N);
    const float product = yk_dtype_load(YK_F16, packed, (size_t)yk_cuda_adapter_a_at(&layout, 1, 0, i)) *
                          yk_dtype_load(YK_F16, packed + layout.b[1], at_b) * table[1].scale;
    const float expected = 0.5f * a[i] * b[i % N];
    assert_true(product / expected > 0.998f && product / expected < 1.002f);
  }
  free(packed);
}

/* Thread blocks exchange the sums of every tile of rows of a step, whichever adapters its rows have. */
static void exchanged_sums_have_places(void **state)
{
  (void)state;
  enum { ROWS = YK_ADAPTER_EXCHANGE_ROWS, TILE_ROWS = 8 * YK_ADAPTER_TILE_OCTETS, RANK_TILES = 3 };
  const int64_t counters = ROWS * 4, tile = YK_ADAPTER_RANGES * TILE_ROWS * RANK_TILES * YK_ADAPTER_TILE_RANKS * 4;
  static const int n_adapters[] = {1, 3, 8, 60, 200};
  for (size_t c = 0; each_case(c, c < sizeof n_adapters / sizeof *n_adapters); c++) {
    const int64_t tiles = (yk_cuda_adapter_exchange_bytes(RANK_TILES, n_adapters[c]) - counters) / tile;
    for (int shared = 1; shared <= ROWS; shared++) { /* rows of adapter 0; the others have successive adapters */
      int rows[201] = {shared}, n_tiles = 0;
      for (int row = shared; row < ROWS; row++) rows[1 + row % n_adapters[c]]++;
      for (int i = 0; i <= n_adapters[c]; i++) n_tiles += (rows[i] + TILE_ROWS - 1) / TILE_ROWS;
      assert_true(n_tiles <= tiles);
    }
  }
  assert_int_equal(yk_cuda_adapter_exchange_bytes(YK_ADAPTER_EXCHANGE_TILES, 8),
                   yk_cuda_adapter_exchange_bytes(YK_ADAPTER_EXCHANGE_TILES + 9, 8));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_bytes),
      cmocka_unit_test(packed_bytes_of_bytes),
      cmocka_unit_test(packed_bytes_of_4_bit_floats),
      cmocka_unit_test(other_bytes_are_not_kept),
      cmocka_unit_test(grouped_layers_keep_bytes),
      cmocka_unit_test(orders_of_inputs),
      cmocka_unit_test(orders_of_matrices),
      cmocka_unit_test(awq_as_16_bits),
      cmocka_unit_test(parts_of_one_kind_are_one_gemm),
      cmocka_unit_test(fusions_of_a_mixture),
      cmocka_unit_test(gate_and_up_are_one_gemm),
      cmocka_unit_test(weights_without_a_kernel_are_refused),
      cmocka_unit_test(other_slices_stay_plain),
      cmocka_unit_test(formats_that_a_gpu_keeps),
      cmocka_unit_test(formats_that_a_gpu_divides),
      cmocka_unit_test(gate_and_up_are_kept_together),
      cmocka_unit_test(w8a8_bytes),
      cmocka_unit_test(w8a8_parts),
      cmocka_unit_test(inputs_of_8_bits),
      cmocka_unit_test(inputs_of_two_types),
      cmocka_unit_test(a_tied_lm_head_takes_nothing),
      cmocka_unit_test(adapters_have_places),
      cmocka_unit_test(adapters_are_scaled),
      cmocka_unit_test(exchanged_sums_have_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
