/* linear_formats.cuh - the weight formats that bench_linear times: the data and limits of each format's GEMM.
 *
 * A format is a row of FORMATS. To add one, derive its GEMM from timed_gemm and list the function that makes it. */
#ifndef YK_BENCH_LINEAR_FORMATS_CUH
#define YK_BENCH_LINEAR_FORMATS_CUH

#include <memory>

#include "bench/linear_int8_peak.cuh"
#include "bench/linear_timed_gemm.cuh"
#include "bench/linear_w4a8.cuh"
#include "bench/linear_w8a8.cuh"
#include "kernels/cuda/gemm/dense/plan.h"

namespace linear {

/* 4-bit or 8-bit weights, 16-bit activations. */
class wna16_gemm : public timed_gemm {
public:
  wna16_gemm(const yk_gemm_gpu &on, yk_gemm_encoding encoding, const gemm_shape &s, int64_t tokens, uint64_t seed)
      : gpu(on), m(tokens), p(on, {s.k, s.n, s.group, s.dtype, bench::silu_where(s.gate_up), encoding}, tokens, seed)
  {
    yk_gemm_plans_choose(&gpu, &p.desc, 0, &plans);
  }
  /* A scale has 16 bits, that of 4-bit floats 8, and a zero as many bits as a weight. Only INT4 has zeros. */
  double weight_bytes() const override
  {
    const double scale_bytes = p.desc.encoding == YK_GEMM_INT4 ? 2.5 : p.desc.encoding == YK_GEMM_FP4 ? 1.0 : 2.0;
    return double(p.desc.k) * p.desc.n * yk_gemm_traits(p.desc.encoding).bits / 8 +
           double(p.n_groups) * p.desc.n * scale_bytes;
  }
  std::string plan() const override
  {
    return gpu.path == YK_GEMM_WGMMA ? yk_gemm::plan_name(plans.of_bucket[yk_gemm::row_bucket(m)]) : "";
  }
  const device_array<uint8_t> &packed() const override
  {
    return p.packed;
  }
  void forward(const uint8_t *weights, bool second_half, cudaStream_t stream) override
  {
    yk_err err = YK_ERR_INIT;
    yk_gemm_call call = {weights, nullptr, p.x.data, p.y.data, m, p.workspace.data, second_half};
    check(yk_gemm_forward(&gpu, &p.desc, &plans, &call, stream, &err), err);
  }
  const uint16_t *x() const override
  {
    return p.x.data;
  }
  uint16_t *y() override
  {
    return p.y.data;
  }

  yk_gemm_gpu gpu;
  int64_t m; /* at most the number of rows of p's inputs */
  gemm_case p;
  yk_gemm_plans plans;
};

template <yk_gemm_encoding ENCODING>
std::unique_ptr<timed_gemm> make_wna16(const yk_gemm_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed)
{
  return std::make_unique<wna16_gemm>(gpu, ENCODING, shape, m, seed);
}

struct format {
  const char *name;
  bool has_plans; /* the encoding's name in gemm/dense/plan.h */
  yk_gemm_encoding encoding;
  std::unique_ptr<timed_gemm> (*make)(const yk_gemm_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed);
  /* Measures the roofline's rate in TFLOP/s. NULL: the rate of 16-bit products from the command line. */
  double (*measure_peak)(cudaStream_t stream);
};

const format FORMATS[] = {
    {"int4", true, YK_GEMM_INT4, make_wna16<YK_GEMM_INT4>, nullptr},
    {"int8", true, YK_GEMM_INT8, make_wna16<YK_GEMM_INT8>, nullptr},
    {"fp8", true, YK_GEMM_FP8, make_wna16<YK_GEMM_FP8>, nullptr},
    {"fp4", true, YK_GEMM_FP4, make_wna16<YK_GEMM_FP4>, nullptr},
    {"w8a8", false, YK_GEMM_INT8, make_w8a8, measure_int8_peak},
    {"w4a8", false, YK_GEMM_INT4, make_w4a8<YK_W4A8_FP8>, nullptr},
    {"w4a8-int8", false, YK_GEMM_INT4, make_w4a8<YK_W4A8_INT8>, nullptr},
};
const char *const FORMAT_NAMES[] = {FORMATS[0].name, FORMATS[1].name, FORMATS[2].name, FORMATS[3].name,
                                    FORMATS[4].name, FORMATS[5].name, FORMATS[6].name, nullptr};

} // namespace linear

#endif
