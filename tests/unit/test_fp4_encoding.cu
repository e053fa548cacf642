/* 4-bit floats in the GEMM's packed form (kernels/cuda/gemm/encoding_fp4.cuh), by the host: every code in every place
 * with every scale, and the scales of MXFP4 and NVFP4. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/gemm/encoding_fp4.cuh" /* before cmocka.h, which makes fail a macro */

extern "C" { /* cmocka.h is C alone */
#include <cmocka.h>
}

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace yk_gemm;

namespace {

/* The definition of e2m1. */
double value_of_code(uint32_t code)
{
  static const double magnitudes[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  return (code & 8 ? -1.0 : 1.0) * magnitudes[code & 7];
}

double value_of_scale(uint32_t byte)
{
  return std::ldexp(1.0 + (byte & 7) / 8.0, static_cast<int>(byte >> 3) - 29);
}

/* A half of a register as a number, and a number rounded to the type. */
template <yk_dtype DTYPE> double value_of_half(uint32_t pair, int half)
{
  const uint16_t bits = static_cast<uint16_t>(pair >> 16 * half);
  if (DTYPE == YK_F16) return __half2float(__ushort_as_half(bits));
  return __bfloat162float(__ushort_as_bfloat16(bits));
}

template <yk_dtype DTYPE> double rounded(double value)
{
  const float single = static_cast<float>(value);
  return DTYPE == YK_F16 ? __half2float(__float2half_rn(single)) : __bfloat162float(__float2bfloat16_rn(single));
}

/* Eight codes in a word, one for each half of each register. */
template <yk_dtype DTYPE> uint32_t pack(const uint32_t (&codes)[4][2])
{
  uint32_t word = 0;
  for (int j = 0; j < 4; j++)
    for (int half = 0; half < 2; half++) word |= fp4_bits<DTYPE>::packed(codes[j][half], j, half);
  return word;
}

/* A scale in both halves of a pair, from a word in which the other group has random scales. */
template <yk_dtype DTYPE> uint32_t pair_of_scales(uint32_t byte, bool is_odd, std::mt19937 &random)
{
  uint32_t word = 0;
  for (int half = 0; half < 2; half++) {
    word |= fp4_packed_scale<DTYPE>(byte, is_odd, half);
    word |= fp4_packed_scale<DTYPE>(random() % 256, !is_odd, half);
  }
  return fp4_scale_pair<DTYPE>(word, is_odd);
}

/* Every code in every place with random neighbours, with every scale. */
template <yk_dtype DTYPE> void check_codes(uint32_t byte, std::mt19937 &random)
{
  for (int place = 0; place < 8; place++)
    for (uint32_t code = 0; code < 16; code++) {
      uint32_t codes[4][2];
      for (auto &of_register : codes)
        for (uint32_t &of_half : of_register) of_half = random() % 16;
      codes[place / 2][place % 2] = code;
      const uint32_t scale = pair_of_scales<DTYPE>(byte, place % 2, random);
      uint32_t numbers[4];
      fp4_bits<DTYPE>::unscaled(pack<DTYPE>(codes), numbers);
      for (int j = 0; j < 4; j++)
        for (int half = 0; half < 2; half++) {
          const double number = value_of_half<DTYPE>(numbers[j], half);
          const double weight = rounded<DTYPE>(number * value_of_half<DTYPE>(scale, half));
          const double expected = value_of_code(codes[j][half]) * value_of_scale(byte);
          const bool is_exact = DTYPE == YK_BF16 || byte >> 3 >= 9;
          assert_true(std::fabs(weight - expected) <= (is_exact ? 0.0 : 0x1p-25));
        }
    }
}

void every_code_and_scale_is_exact(void **)
{
  std::mt19937 random(1);
  for (uint32_t byte = FP4_LEAST_SCALE; byte < 31 * 8; byte++) {
    check_codes<YK_F16>(byte, random);
    check_codes<YK_BF16>(byte, random);
  }
  for (int i = 0; i < 4; i++) {
    assert_true(std::isnan(value_of_half<YK_F16>(pair_of_scales<YK_F16>(FP4_NAN_SCALE, i / 2, random), i % 2)));
    assert_true(std::isnan(value_of_half<YK_BF16>(pair_of_scales<YK_BF16>(FP4_NAN_SCALE, i / 2, random), i % 2)));
  }
}

/* The row scale, as the kernel that packs chooses it. */
float row_scale_of(const std::vector<float> &scales)
{
  const float largest = *std::max_element(scales.begin(), scales.end());
  int best = 0;
  float best_error = INFINITY;
  for (int c = 0; c < FP4_MANTISSAS; c++) {
    float error = 0.0f;
    for (float scale : scales)
      error = std::max(error, fp4_scale_error(scale / fp4_row_scale(largest, FP4_FIRST_MANTISSA + c)));
    if (error < best_error) best = c, best_error = error;
  }
  return fp4_row_scale(largest, FP4_FIRST_MANTISSA + best);
}

/* Largest relative error of a row's scales. */
double error_of(const std::vector<float> &scales)
{
  const float row_scale = row_scale_of(scales);
  double worst = 0.0;
  for (float scale : scales) {
    const uint32_t byte = fp4_scale(scale / row_scale);
    assert_true(byte < FP4_NAN_SCALE);
    const double found = byte ? value_of_scale(byte) * static_cast<double>(row_scale) : 0.0;
    worst = std::max(worst, scale > 0.0f ? std::fabs(found / static_cast<double>(scale) - 1.0) : found);
  }
  return worst;
}

/* Powers of two, as far apart as 2^29; the smallest and the largest there are. */
void scales_of_mxfp4_are_exact(void **)
{
  std::mt19937 random(2);
  for (int largest = -127; largest <= 126; largest++) {
    std::vector<float> scales = {std::ldexp(1.0f, largest)};
    for (int i = 0; i < 20; i++)
      scales.push_back(std::ldexp(1.0f, std::max(-127, largest - static_cast<int>(random() % 30))));
    assert_true(error_of(scales) == 0.0);
  }
  assert_int_equal(fp4_scale(0x1p-29f), 0);
  assert_int_equal(fp4_scale(0x1p-28f), FP4_LEAST_SCALE);
  assert_int_equal(fp4_scale(0.0f), 0);
  assert_int_equal(fp4_scale(NAN), FP4_NAN_SCALE);
  assert_int_equal(fp4_scale(INFINITY), FP4_NAN_SCALE);
}

/* Numbers of e4m3, 0 and subnormal ones too, times a factor: exact but for roundings of float32. */
void scales_of_nvfp4_have_their_factor(void **)
{
  std::mt19937 random(3);
  std::uniform_real_distribution<float> logarithm(-30.0f, 10.0f);
  for (int row = 0; row < 3000; row++) {
    const float factor = std::exp2(logarithm(random));
    std::vector<float> scales;
    for (int n = 1 + static_cast<int>(random() % 90); n > 0; n--) {
      const int code = static_cast<int>(random() % (row % 3 ? 0x7F : 0x20)), exponent = code >> 3;
      const float e4m3 =
          exponent ? std::ldexp(1.0f + (code & 7) / 8.0f, exponent - 7) : std::ldexp((code & 7) / 8.0f, -6);
      scales.push_back(e4m3 * factor);
    }
    if (*std::max_element(scales.begin(), scales.end()) == 0.0f) continue;
    assert_true(error_of(scales) < 0x1p-21);
  }
}

/* Scales of more bits are rounded. */
void other_scales_are_rounded(void **)
{
  std::mt19937 random(4);
  std::uniform_real_distribution<float> scale(0.1f, 1.0f);
  double worst = 0.0;
  for (int row = 0; row < 100; row++) {
    std::vector<float> scales;
    for (int i = 0; i < 50; i++) scales.push_back(scale(random));
    worst = std::max(worst, error_of(scales));
  }
  assert_true(worst > 0.01 && worst <= 1.0 / 16.0);
}

} // namespace

int main()
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_and_scale_is_exact),
      cmocka_unit_test(scales_of_mxfp4_are_exact),
      cmocka_unit_test(scales_of_nvfp4_have_their_factor),
      cmocka_unit_test(other_scales_are_rounded),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
