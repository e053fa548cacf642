/* costs.cu - the costs of GEMMs by GPU type: see costs.h. */
#include "kernels/cuda/gemm/dense/costs.h"

#include <cstring>

namespace yk_gemm {

namespace {

#define COST(field, value) c.field = value;
#define COSTS(field, ...)                                                                                              \
  {                                                                                                                    \
    constexpr double values[] = {__VA_ARGS__};                                                                         \
    static_assert(sizeof values == sizeof c.field, #field ": a value for each tile");                                  \
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) c.field[i] = values[i];                                \
  }

constexpr gemm_costs h200_4_bits()
{
  gemm_costs c = {};
#include "kernels/cuda/gemm/dense/costs/h200_4_bits.inc"
  return c;
}

constexpr gemm_costs h200_8_bits()
{
  gemm_costs c = {};
#include "kernels/cuda/gemm/dense/costs/h200_8_bits.inc"
  return c;
}

/* Costs for GPUs whose name contains `name`. */
struct fitted_gpu {
  const char *name;
  gemm_costs of_4_bits, of_8_bits;
};

constexpr fitted_gpu fitted[] = {{"H200", h200_4_bits(), h200_8_bits()}};
constexpr const fitted_gpu &unfitted = fitted[0]; /* also used for GPUs without fitted costs */

} // namespace

const gemm_costs &costs_of(const yk_gemm_gpu &gpu, yk_gemm_encoding encoding)
{
  const fitted_gpu *found = &unfitted;
  for (const fitted_gpu &f : fitted)
    if (std::strstr(gpu.name, f.name)) found = &f;
  return yk_gemm_traits(encoding).bits == 4 ? found->of_4_bits : found->of_8_bits;
}

} // namespace yk_gemm
