#include "model/rope.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* YaRN's attention temperature, m(s, k) = 0.1 k ln s + 1 (Peng et al. 2023, section 3.4; k as in DeepSeek-V2). */
static double yarn_mscale(double scale, double k)
{
  return scale <= 1 ? 1 : 0.1 * k * log(scale) + 1;
}

static float yarn_attention_factor(const yk_rope_config *rope)
{
  if (rope->attention_factor > 0) return (float)rope->attention_factor;
  if (rope->mscale > 0 && rope->mscale_all_dim > 0)
    return (float)(yarn_mscale(rope->factor, rope->mscale) / yarn_mscale(rope->factor, rope->mscale_all_dim));
  return (float)yarn_mscale(rope->factor, 1);
}

float yk_rope_score_factor(const yk_rope_config *rope)
{
  if (rope->type != YK_ROPE_YARN || rope->mscale_all_dim <= 0) return 1;
  double m = yarn_mscale(rope->factor, rope->mscale_all_dim);
  return (float)(m * m);
}

/* The (real-valued) index of the pair that makes `turns` full rotations over the original context. */
static double yarn_dimension(const yk_rope_config *rope, double turns, double rotary_dim)
{
  return rotary_dim * log(rope->original_max_positions / (turns * 2 * pi)) / (2 * log(rope->theta));
}

/* Pairs below lo keep their frequency, pairs above hi are divided by factor, a ramp runs between. */
static void scale_yarn(const yk_rope_config *rope, int32_t rotary_dim, const float *theta_power, float *inv_freq)
{
  double lo = yarn_dimension(rope, rope->beta_fast, rotary_dim), hi = yarn_dimension(rope, rope->beta_slow, rotary_dim);
  if (rope->truncate) {
    lo = floor(lo);
    hi = ceil(hi);
  }
  lo = fmax(lo, 0);
  hi = fmin(hi, rotary_dim - 1);
  if (lo == hi) hi += 0.001;
  for (int32_t i = 0; i < rotary_dim / 2; i++) {
    float ramp = fminf(fmaxf(((float)i - (float)lo) / (float)(hi - lo), 0), 1);
    float keep = 1 - ramp;
    float interpolated = 1 / ((float)rope->factor * theta_power[i]);
    inv_freq[i] = interpolated * (1 - keep) + inv_freq[i] * keep;
  }
}

/* Llama 3.1: depending on the wavelength, keep a frequency, divide it by factor, or blend the two. */
static void scale_llama3(const yk_rope_config *rope, int32_t rotary_dim, float *inv_freq)
{
  float factor = (float)rope->factor, context = (float)rope->original_max_positions;
  float low = (float)rope->low_freq_factor, width = (float)(rope->high_freq_factor - rope->low_freq_factor);
  float longest = (float)(rope->original_max_positions / rope->low_freq_factor);
  float shortest = (float)(rope->original_max_positions / rope->high_freq_factor);
  for (int32_t i = 0; i < rotary_dim / 2; i++) {
    float wavelength = 1 / inv_freq[i] * (float)(2 * pi);
    if (wavelength < shortest) continue;
    if (wavelength > longest || width == 0) { /* no band between shortest and longest */
      inv_freq[i] /= factor;
      continue;
    }
    float smooth = (1 / wavelength * context - low) / width;
    inv_freq[i] = (1 - smooth) * inv_freq[i] / factor + smooth * inv_freq[i];
  }
}

/* LongRoPE (Ding et al. 2024): each frequency has a separate divisor. */
static float scale_longrope(const yk_rope_config *rope, int32_t rotary_dim, int32_t n_positions,
                            const float *theta_power, float *inv_freq)
{
  const float *divisors = n_positions > rope->original_max_positions ? rope->long_divisors : rope->short_divisors;
  for (int32_t i = 0; i < rotary_dim / 2; i++) inv_freq[i] = 1 / (divisors[i] * theta_power[i]);
  return rope->attention_factor > 0 ? (float)rope->attention_factor : 1;
}

static void scale_proportional(const yk_rope_config *rope, int32_t rotary_dim, float *inv_freq)
{
  const int32_t n_rotating = (int32_t)floor(rope->share * rotary_dim / 2);
  for (int32_t i = 0; i < rotary_dim / 2; i++) inv_freq[i] = i < n_rotating ? inv_freq[i] / (float)rope->factor : 0;
}

float yk_rope_frequencies(const yk_rope_config *rope, int32_t rotary_dim, int32_t n_positions, float *inv_freq)
{
  float theta_power[YK_MAX_HEAD_DIM / 2];
  for (int32_t i = 0; i < rotary_dim / 2; i++) {
    /* Computed in double and rounded once: equals any correctly rounded powf, independent of the C library. */
    double exponent = (float)(2 * i) / (float)rotary_dim;
    theta_power[i] = (float)pow((float)rope->theta, exponent);
    inv_freq[i] = 1 / theta_power[i];
  }
  switch (rope->type) {
  case YK_ROPE_DEFAULT: return 1;
  case YK_ROPE_LINEAR:
    for (int32_t i = 0; i < rotary_dim / 2; i++) inv_freq[i] /= (float)rope->factor;
    return 1;
  case YK_ROPE_PROPORTIONAL: scale_proportional(rope, rotary_dim, inv_freq); return 1;
  case YK_ROPE_LLAMA3: scale_llama3(rope, rotary_dim, inv_freq); return 1;
  case YK_ROPE_YARN: scale_yarn(rope, rotary_dim, theta_power, inv_freq); return yarn_attention_factor(rope);
  case YK_ROPE_LONGROPE: return scale_longrope(rope, rotary_dim, n_positions, theta_power, inv_freq);
  }
  return 1;
}

void yk_rope_table_fill(const yk_rope_config *rope, int32_t head_dim, int32_t rotary_dim, int32_t n_positions,
                        float *table)
{
  float inv_freq[YK_MAX_HEAD_DIM / 2];
  float scale = yk_rope_frequencies(rope, rotary_dim, n_positions, inv_freq);
  int32_t half = head_dim / 2, n_rotating = rotary_dim / 2;
  for (int32_t position = 0; position < n_positions; position++) {
    float *cosines = table + (size_t)position * (size_t)head_dim, *sines = cosines + half;
    for (int32_t i = 0; i < n_rotating; i++) {
      float angle = (float)position * inv_freq[i];
      cosines[i] = cosf(angle) * scale;
      sines[i] = sinf(angle) * scale;
    }
    for (int32_t i = n_rotating; i < half; i++) {
      cosines[i] = 1;
      sines[i] = 0;
    }
  }
}

int32_t yk_rotary_element(int32_t head_dim, int32_t rotary_dim, bool interleaved, int32_t place)
{
  int32_t half = head_dim / 2, n_rotating = rotary_dim / 2, second = place >= half, pair = place - second * half;
  if (pair < n_rotating) return interleaved ? 2 * pair + second : pair + second * n_rotating;
  return rotary_dim + (pair - n_rotating) + second * (half - n_rotating);
}
