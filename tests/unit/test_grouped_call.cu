/* Calls of the grouped GEMM that it refuses before it uses a GPU. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" { /* cmocka.h is C alone */
#include <cmocka.h>
}

#include "kernels/cuda/gemm/grouped/grouped.h"

namespace {

alignas(128) const char some[128] = {}; /* an address that is never dereferenced */

const yk_gemm_desc desc = {.k = 256, .n = 64, .group = 128, .dtype = YK_F16, .encoding = YK_GEMM_INT4};
const yk_gemm_gpu hopper = {.n_multiprocessors = 132, .path = YK_GEMM_WGMMA};

yk_grouped_call call_of(const yk_combine_args *combine)
{
  yk_grouped_call call = {};
  call.weights = some;
  call.matrix_bytes = 128;
  call.n_matrices = 4;
  call.n_rows = 2;
  call.x = some;
  call.max_slots = 2;
  call.y = const_cast<char *>(some);
  call.combine = combine;
  return call;
}

void expect_refusal(const yk_gemm_gpu &gpu, const yk_grouped_call &call, const char *part)
{
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_gemm_grouped_forward(&gpu, &desc, &call, nullptr, &err), YK_E_INVAL);
  if (!strstr(err.message, part)) fail_msg("\"%s\" does not have \"%s\"", err.message, part);
}

/* With one row if the combination of its slots expects the shared expert; with more rows if the kernel for many rows
 * supports it. */
void a_shared_experts_weight(void **)
{
  static char shared[256];
  yk_combine_args one_row = {};
  one_row.shared = shared;
  one_row.n_tokens = 1;
  one_row.hidden = 64;
  yk_grouped_call call = call_of(&one_row);
  call.shared_expert = {some, some, shared, 256, 64, 1};
  assert_true(yk_gemm_grouped_combines(&hopper, &desc, &call));
  assert_true(yk_gemm_grouped_takes_shared_expert(&hopper, &desc, &call));

  const yk_gemm_gpu ampere = {.n_multiprocessors = 108, .path = YK_GEMM_MMA};
  const char none_expected[] = "expected no shared expert's weight, found one of 256 x 64 for 1 rows";
  expect_refusal(ampere, call, none_expected);
  yk_grouped_call other = call;
  other.combine = nullptr;
  expect_refusal(hopper, other, none_expected);
  other = call;
  other.shared_expert.y = shared + 128;
  expect_refusal(hopper, other, none_expected);
  other = call;
  other.shared_expert.n = 128;
  expect_refusal(hopper, other, "found one of 256 x 128 for 1 rows");
  one_row.n_tokens = 2;
  expect_refusal(hopper, call, none_expected);

  other = call_of(nullptr);
  other.shared_expert = {some, some, shared, 256, 64, 2};
  expect_refusal(hopper, other, "found one of 256 x 64 for 2 rows"); /* fewer slots than matrices */
  other.max_slots = other.n_matrices;
  assert_true(yk_gemm_grouped_takes_shared_expert(&hopper, &desc, &other));
  expect_refusal(ampere, other, "found one of 256 x 64 for 2 rows");
  other.shared_expert.n_rows = 128;
  assert_true(yk_gemm_grouped_takes_shared_expert(&hopper, &desc, &other));
  other.shared_expert.n_rows = 129; /* faster separately */
  expect_refusal(hopper, other, "found one of 256 x 64 for 129 rows");
  other.shared_expert.n_rows = 2;
  yk_gemm_desc groups_of_32 = desc;
  groups_of_32.group = other.shared_expert.k = 32; /* one group of scales in a K tile, the matrices have four */
  assert_false(yk_gemm_grouped_takes_shared_expert(&hopper, &groups_of_32, &other));
}

void matrices_and_addresses(void **)
{
  yk_grouped_call call = call_of(nullptr);
  for (int n : {0, YK_GROUPED_MAX_MATRICES + 1}) {
    call.n_matrices = n;
    expect_refusal(hopper, call, "expected 1 to 1024 matrices, found");
  }
  const char aligned[] = "matrices must be 128, x and y 16 bytes aligned";
  call = call_of(nullptr);
  call.weights = some + 64;
  expect_refusal(hopper, call, aligned);
  call = call_of(nullptr);
  call.matrix_bytes = 192;
  expect_refusal(hopper, call, aligned);
  call = call_of(nullptr);
  call.x = some + 8;
  expect_refusal(hopper, call, aligned);
  call = call_of(nullptr);
  call.y = const_cast<char *>(some) + 8;
  expect_refusal(hopper, call, aligned);
}

} // namespace

int main()
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shared_experts_weight),
      cmocka_unit_test(matrices_and_addresses),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
