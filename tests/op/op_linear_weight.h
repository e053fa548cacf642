/* op_linear_weight.h - random weights of linear layers, as checkpoints hold them and as numbers. */
#ifndef YK_TESTS_OP_LINEAR_WEIGHT_H
#define YK_TESTS_OP_LINEAR_WEIGHT_H

#include "op/op_reference.h"

/* One part of a case: the whole weight and the rank's slice of it. group 0 makes it plain. */
typedef struct linear_part_case {
  int64_t k, n, group;
  yk_dtype dtype; /* of the plain weight, or of the scales */
  yk_range k_slice, n_slice;
  int64_t group_local;
  bool use_bias;
  bool is_bytes;         /* of a quantised weight: 8 bits in rows of bytes, not 4 */
  bool has_zeros;        /* of a quantised weight */
  bool is_fp8, is_fp4;   /* of a quantised weight in bytes: floats, without zeros; codes of 4 bits */
  yk_inputs_kind inputs; /* of a quantised weight with one group and no zeros */
} linear_part_case;

/* A weight as checkpoint bytes and as numbers. */
typedef struct linear_weight {
  yk_weight_view view;
  double *plain;           /* [n, k] */
  uint8_t *quants, *zeros; /* [k, n], [k / group, n] */
  double *byte_zeros;      /* of bytes: [n, k / group rounded up], like scales; quants [n, k] is signed */
  double *scales, *bias;   /* [k / group, n], [n] */
  char *buffers[5];        /* of the view; views start one byte in, so that they are unaligned */
} linear_weight;

static inline char *unaligned_bytes(linear_weight *weight, int index, size_t n_bytes)
{
  weight->buffers[index] = calloc(1, n_bytes + 8);
  assert_non_null(weight->buffers[index]);
  return weight->buffers[index] + 1;
}

/* Random floats of dtype at bytes; their exact values in values. */
static inline void random_floats(char *bytes, double *values, size_t n, yk_dtype dtype, double sigma, bool positive,
                                 op_random *random)
{
  size_t element_bytes = yk_dtype_bytes(dtype);
  for (size_t i = 0; i < n; i++) {
    double value = positive ? sigma * (0.5 + op_uniform(random)) : sigma * op_normal(random);
    uint32_t element = 0;
    yk_dtype_store(dtype, &element, 0, (float)value);
    values[i] = (double)yk_dtype_load(dtype, &element, 0);
    memcpy(bytes + i * element_bytes, &element, element_bytes);
  }
}

/* Codes of weights: n_draws numbers for each. */
typedef struct linear_codes {
  op_random random;
  int n_draws;
  bool is_fp8, is_fp4;
  uint8_t *values;
} linear_codes;

static inline void linear_codes_task(void *context, int thread, int64_t begin, int64_t end)
{
  const linear_codes *codes = context;
  (void)thread;
  op_random random = codes->random;
  random.n_drawn += (uint32_t)(codes->n_draws * begin);
  for (int64_t i = begin; i < end; i++) {
    const int low = codes->is_fp8 ? 1 : 0; /* 0x7F and 0xFF are NaN */
    if (codes->n_draws == 1)
      codes->values[i] = (uint8_t)op_between(&random, 0, 15);
    else
      codes->values[i] = (uint8_t)(op_between(&random, low, 127) - low + 128 * op_between(&random, 0, 1));
    if (codes->is_fp4) codes->values[i] &= 0xF;
  }
}

static inline void linear_codes_draw(const linear_codes *codes, int64_t n, op_random *random)
{
  linear_codes drawn = *codes;
  drawn.random = *random;
  op_for_each(n, (double)n, linear_codes_task, &drawn);
  random->n_drawn += (uint32_t)(codes->n_draws * n);
}

/* Random 4-bit rows [rows, n] packed like AWQ: nibble i of word c holds column 8 c + order[i]. */
static inline void random_nibbles(char *bytes, uint8_t *values, int64_t rows, int64_t n, op_random *random)
{
  static const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  linear_codes_draw(&(linear_codes){.n_draws = 1, .values = values}, rows * n, random);
  for (int64_t row = 0; row < rows; row++)
    for (int64_t c = 0; c < n / 8; c++) {
      uint32_t word = 0;
      for (int i = 0; i < 8; i++) word |= (uint32_t)values[row * n + 8 * c + order[i]] << 4 * i;
      memcpy(bytes + (row * n / 8 + c) * 4, &word, 4);
    }
}

/* Scales of 4-bit floats, f32 [n_scales / n_groups, n_groups]: e4m3 times one factor, as NVFP4 has them; in every third
 * row powers of two, as in MXFP4. Some groups have the scale 0. */
static inline void random_fp4_scales(char *bytes, double *values, size_t n_scales, int64_t n_groups, double sigma,
                                     op_random *random)
{
  const float factor = (float)(sigma / 2.6 * (0.7 + 0.6 * op_uniform(random)));
  for (size_t i = 0; i < n_scales; i++) {
    bool is_power = i / (size_t)n_groups % 3 == 0;
    float mantissa = is_power ? 1.0f : 1.0f + (float)op_between(random, 0, 7) / 8.0f;
    float scale = ldexpf(mantissa, (int)op_between(random, -2, 0));
    scale *= is_power ? ldexpf(1.0f, (int)floor(log2(sigma / 2.6))) : factor;
    if (op_between(random, 0, 40) == 0) scale = 0.0f;
    values[i] = (double)scale;
    memcpy(bytes + i * sizeof scale, &scale, sizeof scale);
  }
}

/* 8-bit weights in the devices' form: bytes [n, k], scales and zeros f32 [n, k / group rounded up]. */
static inline void random_bytes(linear_weight *weight, const linear_part_case *part, double sigma, op_random *random)
{
  int64_t n_groups = (part->k + part->group - 1) / part->group;
  size_t n_scales = (size_t)(n_groups * part->n), n_bytes = (size_t)(part->k * part->n);
  weight->view.format = part->is_fp4 ? YK_WEIGHT_FP4 : part->is_fp8 ? YK_WEIGHT_FP8 : YK_WEIGHT_INT8;
  weight->view.packing = YK_PACKING_ROWS;
  weight->view.dtype = YK_F32;
  weight->view.has_zeros = part->has_zeros;
  weight->view.inputs.kind = part->inputs;
  weight->quants = calloc(n_bytes + 1, 1);
  weight->byte_zeros = calloc(n_scales + 1, sizeof(double));
  weight->scales = calloc(n_scales + 1, sizeof(double));
  char *bytes = unaligned_bytes(weight, 0, n_bytes), *zeros = unaligned_bytes(weight, 1, n_scales * 4);
  char *scales = unaligned_bytes(weight, 2, n_scales * 4);
  const linear_codes codes = {.n_draws = 2, .is_fp8 = part->is_fp8, .is_fp4 = part->is_fp4, .values = weight->quants};
  linear_codes_draw(&codes, (int64_t)n_bytes, random);
  memcpy(bytes, weight->quants, n_bytes);
  random_floats(scales, weight->scales, n_scales, YK_F32, sigma / (part->is_fp8 ? 110.0 : 74.0), true, random);
  if (part->is_fp4) random_fp4_scales(scales, weight->scales, n_scales, n_groups, sigma, random);
  if (part->has_zeros) random_floats(zeros, weight->byte_zeros, n_scales, YK_F32, 20.0, false, random);
  weight->view.qweight = bytes;
  weight->view.scales = scales;
  weight->view.qzeros = part->has_zeros ? zeros : NULL;
}

static inline linear_weight linear_weight_new(const linear_part_case *part, op_random *random)
{
  linear_weight weight = {0};
  int64_t k = part->k, n = part->n, n_groups = part->group ? k / part->group : 0;
  weight.view = (yk_weight_view){.k = k, .n = n, .group = part->group, .dtype = part->dtype};
  double sigma = 1.0 / sqrt((double)k + 1.0);
  if (part->group && part->is_bytes) {
    random_bytes(&weight, part, sigma, random);
  } else if (part->group) {
    weight.view.format = YK_WEIGHT_AWQ;
    weight.quants = calloc((size_t)(k * n + 1), 1);
    weight.zeros = calloc((size_t)(n_groups * n + 1), 1);
    weight.scales = calloc((size_t)(n_groups * n + 1), sizeof(double));
    weight.view.qweight = unaligned_bytes(&weight, 0, (size_t)(k * n / 2));
    weight.view.qzeros = unaligned_bytes(&weight, 1, (size_t)(n_groups * n / 2));
    weight.view.scales = unaligned_bytes(&weight, 2, (size_t)(n_groups * n * 4));
    random_nibbles((char *)weight.view.qweight, weight.quants, k, n, random);
    random_nibbles((char *)weight.view.qzeros, weight.zeros, n_groups, n, random);
    random_floats((char *)weight.view.scales, weight.scales, (size_t)(n_groups * n), part->dtype, 0.15 * sigma, true,
                  random);
  } else {
    weight.view.format = YK_WEIGHT_PLAIN;
    weight.plain = calloc((size_t)(k * n + 1), sizeof(double));
    weight.view.plain = unaligned_bytes(&weight, 3, (size_t)(k * n * 4));
    random_floats((char *)weight.view.plain, weight.plain, (size_t)(k * n), part->dtype, sigma, false, random);
  }
  weight.bias = calloc((size_t)(n + 1), sizeof(double));
  weight.view.bias = unaligned_bytes(&weight, 4, (size_t)(n * 4));
  weight.view.bias_dtype = part->dtype;
  random_floats((char *)weight.view.bias, weight.bias, (size_t)n, part->dtype, 0.5, false, random);
  return weight;
}

static inline void linear_weight_free(linear_weight *weight)
{
  free(weight->plain);
  free(weight->quants);
  free(weight->zeros);
  free(weight->byte_zeros);
  free(weight->scales);
  free(weight->bias);
  for (int i = 0; i < 5; i++) free(weight->buffers[i]);
}

/* w(k, n) of the checkpoint, by its definition. */
static inline double weight_value(const linear_weight *weight, const linear_part_case *part, int64_t k, int64_t n,
                                  op_fault fault)
{
  if (!part->group) return weight->plain[n * part->k + k];
  static const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  int64_t column = fault == OP_NIBBLE_ORDER ? n / 8 * 8 + order[n % 8] : n;
  int64_t group = (fault == OP_GROUP_SHIFT ? k - part->k_slice.begin : k) / part->group;
  if (part->is_bytes) {
    int64_t at = n * ((part->k + part->group - 1) / part->group) + group;
    double scale = fault == OP_NO_SCALE ? 1.0 : weight->scales[at];
    uint8_t byte = weight->quants[n * part->k + k];
    if (part->is_fp4) return scale * op_float4(byte);
    if (part->is_fp8) return scale * op_float8(byte);
    return scale * ((int8_t)byte - weight->byte_zeros[at] - (fault == OP_ZERO_PLUS_ONE));
  }
  double scale = weight->scales[group * part->n + n];
  if (fault == OP_NO_SCALE && group == (part->k_slice.end - 1) / part->group) scale = 1.0;
  double zero = weight->zeros[group * part->n + n] + (fault == OP_ZERO_PLUS_ONE);
  return scale * (weight->quants[k * part->n + column] - zero);
}

/* Column i of one part's slice, in float64: to [k_local]. Thread: any. */
static inline void part_column(const linear_weight *weight, const linear_part_case *part, int64_t i, op_fault fault,
                               double *to)
{
  for (int64_t k = part->k_slice.begin; k < part->k_slice.end; k++)
    *to++ = weight_value(weight, part, k, part->n_slice.begin + i, fault);
}

/* The columns of one part's slice: [n, k], which the caller frees. */
static inline double *part_weights(const linear_weight *weight, const linear_part_case *part, op_fault fault)
{
  const int64_t k_local = yk_range_size(part->k_slice), n_local = yk_range_size(part->n_slice);
  double *w = calloc((size_t)(n_local * k_local) + 1, sizeof *w);
  assert_non_null(w);
  for (int64_t i = 0; i < n_local; i++) part_column(weight, part, i, fault, w + i * k_local);
  return w;
}

/* Column i of one part's slice, with its weights w [k_local], for one row x. Adds the absolute values of the summands
 * to magnitude. Thread: any. */
static inline double part_output(const linear_weight *weight, const linear_part_case *part, const double *w,
                                 const double *x, int64_t i, op_fault fault, double *magnitude)
{
  const int64_t k_local = yk_range_size(part->k_slice);
  const double bias = part->use_bias && fault != OP_NO_BIAS ? weight->bias[part->n_slice.begin + i] : 0.0;
  *magnitude += fabs(bias) + op_dot_magnitude(x, w, k_local);
  return bias + op_dot(x, w, k_local);
}

#endif
