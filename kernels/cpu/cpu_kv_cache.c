#include "kernels/cpu/cpu_kv_cache.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/float8.h"

static yk_cpu_kv_side side_of(const yk_kv_layer *kv, void *pages, const float *channels, const yk_head_layout *heads,
                              yk_dtype act)
{
  return (yk_cpu_kv_side){.pages = pages,
                          .channels = channels,
                          .format = kv->format,
                          .n_kv_heads = heads->n_kv_heads,
                          .head_dim = heads->head_dim,
                          .page_bytes = yk_kv_page_bytes(kv->format, act, heads->head_dim)};
}

yk_cpu_kv_side yk_cpu_kv_keys(const yk_kv_layer *kv, const yk_head_layout *heads, yk_dtype act)
{
  return side_of(kv, kv->k, kv->k_channels, heads, act);
}

yk_cpu_kv_side yk_cpu_kv_values(const yk_kv_layer *kv, const yk_head_layout *heads, yk_dtype act)
{
  return side_of(kv, kv->v, kv->v_channels, heads, act);
}

static char *page_at(const yk_cpu_kv_side *side, int64_t block, int32_t kv_head)
{
  return side->pages + (block * side->n_kv_heads + kv_head) * side->page_bytes;
}

static const float *channels_at(const yk_cpu_kv_side *side, int32_t kv_head)
{
  return side->channels ? side->channels + (int64_t)kv_head * side->head_dim : NULL;
}

static const float *offsets_at(const yk_cpu_kv_side *side, int32_t kv_head)
{
  return side->channels ? channels_at(side, kv_head) + (int64_t)side->n_kv_heads * side->head_dim : NULL;
}

/* A token's scales, which follow a page's codes. */
static char *scale_at(const yk_cpu_kv_side *side, char *page, int32_t token)
{
  return page + (int64_t)YK_KV_BLOCK_TOKENS * side->head_dim + token * (int64_t)sizeof(float);
}

/* The token's scale; 1 for a static cache; NaN if the head holds a NaN or an infinity. */
static float scale_of(const yk_cpu_kv_side *side, const float *x)
{
  float largest = 0.0f;
  for (int32_t i = 0; i < side->head_dim; i++) {
    float magnitude = fabsf(x[i]);
    if (!(magnitude <= FLT_MAX)) return NAN;
    if (magnitude > largest) largest = magnitude;
  }
  if (side->channels) return 1.0f;
  return largest / (side->format == YK_KV_INT8 ? YK_KV_INT8_MAX : YK_KV_FP8_MAX);
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
static uint8_t code_of(yk_kv_format format, float q)
{
  if (format == YK_KV_FP8) return yk_e4m3_from_f32(q);
  q = q < -128.0f ? -128.0f : q > 127.0f ? 127.0f : q;
  return (uint8_t)(int8_t)((q + 12582912.0f) - 12582912.0f);
}

void yk_cpu_kv_store(const yk_cpu_device *cpu, const yk_cpu_kv_side *side, int64_t slot, int32_t kv_head,
                     const void *head, float *f32)
{
  yk_dtype dtype = cpu->base.dtype;
  int32_t head_dim = side->head_dim, token = (int32_t)(slot % YK_KV_BLOCK_TOKENS);
  char *page = page_at(side, slot / YK_KV_BLOCK_TOKENS, kv_head);
  if (side->format == YK_KV_ACT) {
    memcpy(yk_cpu_at(dtype, page, (int64_t)token * head_dim), head, (size_t)head_dim * yk_dtype_bytes(dtype));
    return;
  }
  const float *channels = channels_at(side, kv_head), *offsets = offsets_at(side, kv_head);
  uint8_t *codes = (uint8_t *)page + (int64_t)token * head_dim;
  cpu->simd->to_f32(f32, dtype, head, (size_t)head_dim);
  float scale = scale_of(side, f32);
  memcpy(scale_at(side, page, token), &scale, sizeof scale);
  memset(codes, 0, (size_t)head_dim);
  if (!(scale > 0.0f)) return;
  for (int32_t i = 0; i < head_dim; i++)
    codes[i] = code_of(side->format, channels ? f32[i] / channels[i] + offsets[i] : f32[i] / scale);
}

void yk_cpu_kv_load(const yk_cpu_device *cpu, const yk_cpu_kv_side *side, int64_t block, int32_t kv_head,
                    int32_t n_tokens, float *out)
{
  char *page = page_at(side, block, kv_head);
  size_t head_dim = (size_t)side->head_dim;
  if (side->format == YK_KV_ACT) {
    cpu->simd->to_f32(out, cpu->base.dtype, page, (size_t)n_tokens * head_dim);
    return;
  }
  yk_cpu_kv_row row = {
      .format = side->format, .channels = channels_at(side, kv_head), .offsets = offsets_at(side, kv_head)};
  for (int32_t token = 0; token < n_tokens; token++) {
    row.codes = (const uint8_t *)page + (size_t)token * head_dim;
    memcpy(&row.scale, scale_at(side, page, token), sizeof row.scale);
    cpu->simd->kv_dequantise(out + (size_t)token * head_dim, &row, head_dim);
  }
}
