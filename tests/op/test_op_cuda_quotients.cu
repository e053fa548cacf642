/* test_op_cuda_quotients.cu - the quotients by which inputs become 8-bit integers (rows/row_quantiser.cuh), all that
 * decide to which integer an input rounds. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

extern "C" { /* cmocka.h is C alone */
#include <cmocka.h>
}

#include "kernels/cuda/rows/row_quantiser.cuh"
#include "op/op_gpu_gate.h"

namespace {

/* Counts the integers that differ from those of exact quotients, for the two 11-bit numbers next to every midpoint
 * between two integers, for all 2^23 scales from 1 to 2. Scales and numbers times powers of two round in the same
 * way. */
__global__ void count_wrong_quotients(unsigned *wrong)
{
  constexpr int MOST = 256; /* larger values are clamped */
  constexpr uint32_t LAST_BIT = 1u << 13;
  const float scale = __uint_as_float(0x3F800000u + blockIdx.x * blockDim.x + threadIdx.x);
  const yk_cuda::row_quantiser quantise(scale, 0.0f, 0);
  unsigned n = 0;
  for (int i = 0; i < MOST; i++) {
    const uint32_t below = __float_as_uint((static_cast<float>(i) + 0.5f) * scale) & ~(LAST_BIT - 1);
    for (uint32_t bits : {below, below + LAST_BIT}) {
      const float x = __uint_as_float(bits);
      n += rintf(quantise.quotient(x)) != rintf(__fdiv_rn(x, scale));
    }
  }
  if (n) atomicAdd(wrong, n);
}

void every_integer_is_that_of_the_exact_quotient(void **)
{
  unsigned *wrong, n_wrong = 1;
  assert_int_equal(cudaMalloc(&wrong, sizeof *wrong), cudaSuccess);
  assert_int_equal(cudaMemset(wrong, 0, sizeof *wrong), cudaSuccess);
  count_wrong_quotients<<<1 << 15, 1 << 8>>>(wrong);
  assert_int_equal(cudaMemcpy(&n_wrong, wrong, sizeof n_wrong, cudaMemcpyDeviceToHost), cudaSuccess);
  assert_int_equal(n_wrong, 0);
  cudaFree(wrong);
}

} // namespace

int main()
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_integer_is_that_of_the_exact_quotient)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
