/* linear_w4a8.cuh - the GEMM of 4-bit weights and inputs in 8-bit floats or integers for bench_linear: rows of x are
 * quantised, then multiplied. The GEMM with 16-bit inputs is also timed, with the same packed weights. */
#ifndef YK_BENCH_LINEAR_W4A8_CUH
#define YK_BENCH_LINEAR_W4A8_CUH

#include <memory>

#include "bench/linear_timed_gemm.cuh"
#include "kernels/cuda/w4a8/w4a8.h"
#include "kernels/cuda/w4a8/wgmma.cuh"

namespace linear {

class w4a8_gemm : public timed_gemm {
public:
  w4a8_gemm(const yk_gemm_gpu &on, yk_w4a8_codes type, const gemm_shape &s, int64_t tokens, uint64_t seed)
      : gpu(on), type(type), m(tokens),
        p(on, {s.k, s.n, s.group, s.dtype, bench::silu_where(s.gate_up), YK_GEMM_INT4}, tokens, seed),
        codes(tokens * s.k), scales(tokens + YK_W4A8_SCALE_MULTIPLE)
  {
    yk_err err = YK_ERR_INIT;
    check(yk_w4a8_init(&gpu, &err), err);
    yk_gemm_plans_choose(&gpu, &p.desc, 0, &plans);
  }
  double weight_bytes() const override
  {
    return double(p.desc.k) * p.desc.n / 2 + double(p.n_groups) * p.desc.n * 2.5;
  }
  std::string plan() const override
  {
    const yk_w4a8::gemm_plan plan = yk_w4a8::best_plan(gpu, p.desc, m);
    const yk_w4a8::tile_shape &tile = yk_w4a8::TILES[plan.tile];
    return "wgmma:m" + std::to_string(128 * tile.cluster) + ",n" + std::to_string(tile.n) +
           (plan.splits == 0 ? ":stream_k" : ":split_k" + std::to_string(plan.splits));
  }
  const device_array<uint8_t> &packed() const override
  {
    return p.packed;
  }
  void forward(const uint8_t *weights, bool, cudaStream_t stream) override
  {
    quantise(stream);
    multiply(weights, stream);
  }
  std::vector<step> steps() override
  {
    return {{"quantise", [this](const uint8_t *, cudaStream_t stream) { quantise(stream); }},
            {"gemm", [this](const uint8_t *weights, cudaStream_t stream) { multiply(weights, stream); }},
            {"w4a16", [this](const uint8_t *weights, cudaStream_t stream) {
               yk_err err = YK_ERR_INIT;
               yk_gemm_call call = {weights, nullptr, p.x.data, p.y.data, m, p.workspace.data, false};
               check(yk_gemm_forward(&gpu, &p.desc, &plans, &call, stream, &err), err);
             }}};
  }
  const uint16_t *x() const override
  {
    return p.x.data;
  }
  uint16_t *y() override
  {
    return p.y.data;
  }

private:
  void quantise(cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    check(yk_w4a8_quantise(p.desc.dtype, type, p.x.data, codes.data, scales.data, m, p.desc.k, stream, &err), err);
  }
  void multiply(const uint8_t *weights, cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    const yk_w4a8_call call = {weights, nullptr, type, codes.data, scales.data, p.y.data, m, p.workspace.data};
    check(yk_w4a8_forward(&gpu, &p.desc, &call, stream, &err), err);
  }

  yk_gemm_gpu gpu;
  yk_w4a8_codes type;
  int64_t m;
  gemm_case p;
  device_array<uint8_t> codes;
  device_array<float> scales;
  yk_gemm_plans plans;
};

template <yk_w4a8_codes TYPE>
std::unique_ptr<timed_gemm> make_w4a8(const yk_gemm_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed)
{
  return std::make_unique<w4a8_gemm>(gpu, TYPE, shape, m, seed);
}

} // namespace linear

#endif
