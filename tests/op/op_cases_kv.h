/* op_cases_kv.h - qk_rope_kv and attention on an 8-bit KV cache, against its definition (kernels/kv_cache.h) in
 * float64: the written codes, one by one, and attention over their values. */
#ifndef YK_TESTS_OP_CASES_KV_H
#define YK_TESTS_OP_CASES_KV_H

#include "op/op_cases_attention.h"

/* An 8-bit cache, on the device and on the host. */
typedef struct code_cache {
  yk_kv_format format;
  bool is_static;
  int32_t n_kv_heads, head_dim;
  size_t n_bytes, n_channels;     /* of K or of V; n_channels without the offsets */
  uint8_t *bytes[2];              /* pages of K, of V */
  float *channels[2];             /* [2, n_channels] */
  void *dev[2], *dev_channels[2]; /* offsets NULL unless static */
  void *dev_staging[2];
} code_cache;

/* Faults of a reference. */
typedef enum code_fault { CODE_RIGHT, CODE_NO_TOKEN_SCALE, CODE_NO_CHANNEL_SCALE, CODE_NO_OFFSET_OF_V } code_fault;

static inline uint8_t *code_page(const code_cache *c, int side, int64_t slot, int64_t head)
{
  return c->bytes[side] + (slot / YK_KV_BLOCK_TOKENS * c->n_kv_heads + head) * YK_KV_BLOCK_TOKENS * (c->head_dim + 4);
}

static inline uint8_t *code_row(const code_cache *c, int side, int64_t slot, int64_t head)
{
  return code_page(c, side, slot, head) + slot % YK_KV_BLOCK_TOKENS * c->head_dim;
}

static inline float *token_scale(const code_cache *c, int side, int64_t slot, int64_t head)
{
  uint8_t *scales = code_page(c, side, slot, head) + (int64_t)YK_KV_BLOCK_TOKENS * c->head_dim;
  return (float *)(void *)scales + slot % YK_KV_BLOCK_TOKENS;
}

static inline double code_number(const code_cache *c, uint8_t code)
{
  return c->format == YK_KV_FP8 ? op_float8(code) : (double)(int8_t)code;
}

/* The caches' values become those of the codes, so that references over them are references for the codes. */
static inline void read_codes(scene *s, const code_cache *c, code_fault fault)
{
  for (int side = 0; side < 2; side++)
    for (int64_t slot = 0; slot < (int64_t)s->n_blocks * YK_KV_BLOCK_TOKENS; slot++)
      for (int64_t head = 0; head < c->n_kv_heads; head++)
        for (int64_t d = 0; d < c->head_dim; d++) {
          double q = code_number(c, code_row(c, side, slot, head)[d]);
          const float *scale = c->channels[side] + head * c->head_dim + d;
          bool has_offset = c->is_static && !(fault == CODE_NO_OFFSET_OF_V && side == 1);
          if (has_offset) q -= (double)scale[c->n_channels];
          if (c->is_static && fault != CODE_NO_CHANNEL_SCALE) q *= (double)*scale;
          if (fault != CODE_NO_TOKEN_SCALE) q *= (double)*token_scale(c, side, slot, head);
          (side ? &s->v_cache : &s->k_cache)->values[cache_index(&s->shape->heads, slot, head) + d] = q;
        }
}

static inline void send_codes(yk_device *dev, scene *s, code_cache *c)
{
  for (int side = 0; side < 2; side++) op_ok(dev->ops->upload(dev, c->dev[side], c->bytes[side], c->n_bytes, &err));
  s->kv = (yk_kv_layer){.k = c->dev[0],
                        .v = c->dev[1],
                        .format = c->format,
                        .k_channels = c->dev_channels[0],
                        .v_channels = c->dev_channels[1],
                        .k_staging = c->dev_staging[0],
                        .v_staging = c->dev_staging[1]};
}

/* Random codes in slots with tokens; in the others a NaN, or a code that FP8 reads as NaN, and scales that are NaNs. */
static inline void fill_codes(const scene *s, code_cache *c, op_random *random)
{
  int64_t n_slots = (int64_t)s->n_blocks * YK_KV_BLOCK_TOKENS;
  for (int side = 0; side < 2; side++)
    for (int64_t slot = 0; slot < n_slots; slot++)
      for (int64_t head = 0; head < c->n_kv_heads; head++) {
        memset(code_row(c, side, slot, head), 0x7F, (size_t)c->head_dim);
        *token_scale(c, side, slot, head) = NAN;
      }
  float unit = c->is_static ? 1.0f : 2.0f / (c->format == YK_KV_FP8 ? 448.0f : 127.0f);
  for (int32_t seq = 0; seq < s->shape->n_seqs; seq++)
    for (int32_t t = 0; t < s->kv_tokens[seq]; t++)
      for (int side = 0; side < 2; side++)
        for (int64_t head = 0; head < c->n_kv_heads; head++) {
          int64_t slot = slot_of(s, seq, t);
          uint8_t *row = code_row(c, side, slot, head);
          for (int64_t d = 0; d < c->head_dim; d++) {
            row[d] = (uint8_t)op_between(random, 0, 255);
            if ((row[d] & 0x7F) == 0x7F) row[d] = 0x80;
          }
          *token_scale(c, side, slot, head) = c->is_static ? 1.0f : unit * exp2f((float)op_between(random, -4, 2));
        }
}

static inline void fill_channels(code_cache *c, op_random *random)
{
  float largest = c->format == YK_KV_FP8 ? 448.0f : 127.0f;
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < c->n_channels; i++) {
      c->channels[side][i] = (float)((0.5 + op_uniform(random)) * 2.0 / (double)largest);
      c->channels[side][c->n_channels + i] = c->format == YK_KV_FP8 ? 0.0f : (float)op_between(random, -40, 40);
    }
}

static inline code_cache code_cache_new(yk_device *dev, scene *s, yk_kv_format format, bool is_static, uint32_t seed)
{
  op_random random = {.seed = seed};
  const yk_head_layout *heads = &s->shape->heads;
  code_cache c = {
      .format = format, .is_static = is_static, .n_kv_heads = heads->n_kv_heads, .head_dim = heads->head_dim};
  c.n_channels = (size_t)(heads->n_kv_heads * heads->head_dim);
  c.n_bytes = (size_t)(s->n_blocks * heads->n_kv_heads * YK_KV_BLOCK_TOKENS * (heads->head_dim + 4));
  for (int side = 0; side < 2; side++) {
    c.bytes[side] = calloc(c.n_bytes, 1);
    c.channels[side] = calloc(2 * c.n_channels, sizeof(float));
    op_ok(dev->ops->alloc(dev, c.n_bytes, &c.dev[side], &err));
    if (dev->ops->needs_kv_staging)
      op_ok(dev->ops->alloc(dev, s->k_cache.n * yk_dtype_bytes(dev->dtype), &c.dev_staging[side], &err));
  }
  fill_channels(&c, &random);
  size_t channel_bytes = 2 * c.n_channels * sizeof(float);
  for (int side = 0; is_static && side < 2; side++) {
    op_ok(dev->ops->alloc(dev, channel_bytes, &c.dev_channels[side], &err));
    op_ok(dev->ops->upload(dev, c.dev_channels[side], c.channels[side], channel_bytes, &err));
  }
  fill_codes(s, &c, &random);
  send_codes(dev, s, &c);
  return c;
}

static inline void code_cache_free(yk_device *dev, code_cache *c)
{
  for (int side = 0; side < 2; side++) {
    dev->ops->free(dev, c->dev[side]);
    dev->ops->free(dev, c->dev_channels[side]);
    dev->ops->free(dev, c->dev_staging[side]);
    free(c->bytes[side]);
    free(c->channels[side]);
  }
}

/* The error of attention that a device makes by rounding the codes' values to dtype in staging pages; 0 if it has
 * none. */
static inline double staging_error(const op_target *target, yk_dtype dtype, const scene_shape *shape,
                                   yk_kv_format format, bool is_static, uint32_t seed)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed);
  code_cache c = code_cache_new(dev, &s, format, is_static, seed);
  read_codes(&s, &c, CODE_RIGHT);
  double *exact = expected_attention(&s, OP_RIGHT);
  if (dev->ops->needs_kv_staging) {
    op_array_send(dev, &s.k_cache);
    op_array_send(dev, &s.v_cache);
  }
  double *rounded = expected_attention(&s, OP_RIGHT);
  double error = op_error(rounded, exact, (size_t)(s.n_tokens * shape->heads.n_q_heads * shape->heads.head_dim));
  free(exact);
  free(rounded);
  code_cache_free(dev, &c);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
  return error;
}

static inline double code_attention_error(const op_target *target, yk_dtype dtype, const scene_shape *shape,
                                          yk_kv_format format, bool is_static, uint32_t seed, code_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed);
  code_cache c = code_cache_new(dev, &s, format, is_static, seed);
  read_codes(&s, &c, fault);
  double error = scene_error(dev, &s, OP_RIGHT);
  code_cache_free(dev, &c);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
  return error;
}

/* Half the distance to the codes next to q: the largest error of one rounding. */
static inline double half_step(yk_kv_format format, double q)
{
  if (format == YK_KV_INT8) return 0.5;
  int exponent;
  frexp(q, &exponent);
  return ldexp(1.0, (exponent < -5 ? -5 : exponent) - 5); /* three bits of mantissa after the first */
}

/* One head of a token: x are the values of act that the code row represents. Divisions are rounded to float32, which
 * moves a quotient by 2^-24 of its size. */
static inline void check_row(const code_cache *c, int side, int64_t slot, int64_t head, const double *x)
{
  double largest = 0.0, bound = c->format == YK_KV_FP8 ? 448.0 : 127.0;
  for (int32_t d = 0; d < c->head_dim; d++) largest = fmax(largest, fabs(x[d]));
  float scale = c->is_static ? 1.0f : (float)largest / (float)bound;
  if (*token_scale(c, side, slot, head) != scale)
    fail_msg("scale of slot %d: expected %.9g, found %.9g", (int)slot, (double)scale,
             (double)*token_scale(c, side, slot, head));
  for (int32_t d = 0; d < c->head_dim; d++) {
    const float *channel = c->channels[side] + head * c->head_dim + d;
    double q = scale > 0.0f ? x[d] / (double)scale : 0.0;
    if (c->is_static) q = x[d] / (double)*channel + (double)channel[c->n_channels];
    q = fmax(c->format == YK_KV_FP8 ? -448.0 : -128.0, fmin(bound, q));
    double found = code_number(c, code_row(c, side, slot, head)[d]);
    if (!(fabs(found - q) <= half_step(c->format, q) + 0x1p-22 * (fabs(q) + 64.0)))
      fail_msg("%s of slot %d, head %d, element %d: expected %.9g rounded, found %.9g", side ? "V" : "K", (int)slot,
               (int)head, (int)d, q, found);
  }
}

/* Rows are written twice: also into a cache of act, whose values the codes must represent. Slots that no row names stay
 * unchanged. */
static inline void check_code_rows(const op_target *target, yk_dtype dtype, const scene_shape *shape,
                                   yk_kv_format format, bool is_static, uint32_t seed)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed), again = scene_new(dev, shape, seed);
  run_rope(dev, &s);
  op_array_fetch(dev, &s.k_cache);
  op_array_fetch(dev, &s.v_cache);
  code_cache c = code_cache_new(dev, &again, format, is_static, seed);
  bool *is_written = calloc((size_t)s.n_blocks * YK_KV_BLOCK_TOKENS, sizeof *is_written);
  for (int32_t row = 0; row < s.n_tokens; row++) is_written[s.slots[row]] = true;
  uint8_t *before[2] = {malloc(c.n_bytes), malloc(c.n_bytes)};
  run_rope(dev, &again);
  for (int side = 0; side < 2; side++) {
    memcpy(before[side], c.bytes[side], c.n_bytes);
    op_ok(dev->ops->download(dev, c.bytes[side], c.dev[side], c.n_bytes, &err));
    const op_array *of_act = side ? &s.v_cache : &s.k_cache;
    for (int64_t slot = 0; slot < (int64_t)s.n_blocks * YK_KV_BLOCK_TOKENS; slot++)
      for (int64_t head = 0; head < c.n_kv_heads; head++) {
        ptrdiff_t at = code_row(&c, side, slot, head) - c.bytes[side];
        if (is_written[slot])
          check_row(&c, side, slot, head, of_act->values + cache_index(&shape->heads, slot, head));
        else
          assert_memory_equal(c.bytes[side] + at, before[side] + at, (size_t)c.head_dim);
      }
    free(before[side]);
  }
  free(is_written);
  code_cache_free(dev, &c);
  scene_free(dev, &again);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
}

/* A token whose K has a NaN, or whose V has an infinity, in one head: the scale carries it, and only rows that attend
 * to the token in this head get NaNs. */
static inline void check_unsound_token(const op_target *target, yk_dtype dtype, yk_kv_format format, bool is_static)
{
  static const scene_shape shape = {
      {4, 2, 16, 2, 0, 0, false, YK_KV_COLUMNS_BOTH}, 2, {{0, 20}, {0, 3}}, 0, .qk_norm = false};
  enum { BAD_ROW = 5 };
  for (int side = 0; side < 2; side++) {
    yk_device *dev = op_device_new(target, dtype, 1, 16);
    scene s = scene_new(dev, &shape, 3);
    code_cache c = code_cache_new(dev, &s, format, is_static, 3);
    s.qkv.values[BAD_ROW * 128 + (side ? 6 : 4) * 16 + 7] = side ? (double)INFINITY : (double)NAN;
    op_array_send(dev, &s.qkv);
    run_rope(dev, &s);
    op_array y = run_attention(dev, &s);
    for (int32_t row = 0; row < s.n_tokens; row++)
      for (int32_t head = 0; head < 4; head++)
        for (int32_t d = 0; d < 16; d++) {
          bool sees = row >= BAD_ROW && row < 20 && head < 2;
          assert_int_equal(isnan(y.values[(row * 4 + head) * 16 + d]) != 0, sees);
        }
    op_array_free(dev, &y);
    code_cache_free(dev, &c);
    scene_free(dev, &s);
    dev->ops->destroy(dev);
  }
}

/* tolerance: of attention in this dtype, or the error of staging and four roundoffs, if that is more. Scores of static
 * caches have one more rounding on a device that multiplies K's scales into a float16 query. */
static inline void check_code_cases(const op_target *target, yk_dtype dtype, const scene_shape *shape, uint32_t seed,
                                    double tolerance)
{
  for (yk_kv_format format = YK_KV_INT8; format <= YK_KV_FP8; format++)
    for (int is_static = 0; is_static < 2; is_static++) {
      check_code_rows(target, dtype, shape, format, is_static, seed);
      double error = code_attention_error(target, dtype, shape, format, is_static, seed, CODE_RIGHT);
      double staged = staging_error(target, dtype, shape, format, is_static, seed);
      double limit = staged > 0.0 ? fmax(tolerance, staged + 4.0 * op_unit_roundoff(dtype)) : tolerance;
      if (!(error <= limit))
        fail_msg("%s %s attention in format %d%s, seed %u, head_dim %d: error %.3g, limit %.3g", target->name,
                 yk_dtype_name(dtype), (int)format, is_static ? ", static" : "", seed, shape->heads.head_dim, error,
                 limit);
    }
}

static inline void check_code_faults(const op_target *target, yk_dtype dtype, double tolerance)
{
  for (yk_kv_format format = YK_KV_INT8; format <= YK_KV_FP8; format++) {
    const scene_shape *shape = &scene_shapes[3];
    assert_true(code_attention_error(target, dtype, shape, format, false, 4, CODE_NO_TOKEN_SCALE) > 5.0 * tolerance);
    assert_true(code_attention_error(target, dtype, shape, format, true, 4, CODE_NO_CHANNEL_SCALE) > 5.0 * tolerance);
  }
  assert_true(code_attention_error(target, dtype, &scene_shapes[3], YK_KV_INT8, true, 4, CODE_NO_OFFSET_OF_V) >
              5.0 * tolerance);
}

#endif
