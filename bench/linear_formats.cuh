/* linear_formats.cuh - the weight formats that bench_linear times: what each needs for a GEMM of its own, and its
 * limits.
 *
 * A format is a row of FORMATS. To add one, derive its GEMM from timed_gemm and list the function that makes it. */
#ifndef YK_BENCH_LINEAR_FORMATS_CUH
#define YK_BENCH_LINEAR_FORMATS_CUH

#include <memory>
#include <string>

#include "bench/linear_check.cuh"
#include "kernels/cuda/gemm/wna16_plan.h"

namespace linear {

struct gemm_shape {
  int64_t k, n, group;
  yk_dtype dtype;
  bool gate_up;
};

/* A GEMM of m tokens with random weights and inputs. */
struct timed_gemm {
  virtual ~timed_gemm() = default;

  /* Bytes of the checkpoint's weights, with scales and zeros: what the memory must deliver at least. */
  virtual double weight_bytes() const = 0;
  /* How many times the rate of 16-bit products the GEMM's matrix instruction has. */
  virtual double peak_factor() const
  {
    return 1.0;
  }
  /* Which kernel, for the report. */
  virtual std::string plan() const = 0;
  /* Normalised error against the format's definition in float64; a wrong result ends the program. */
  virtual double checked_error() = 0;
  /* The weights on the device, of which copies are made to have cold ones. */
  virtual const device_array<uint8_t> &packed() const = 0;
  /* One call with a copy of the weights. second_half: of two calls that follow each other, the second. */
  virtual void forward(const uint8_t *weights, bool second_half, cudaStream_t stream) = 0;
  /* W rounded to 16 bits, [n, k], for the GEMM of plain weights; and inputs and outputs of m tokens for it. */
  virtual void expand(uint16_t *out) const = 0;
  virtual const uint16_t *x() const = 0;
  virtual uint16_t *y() = 0;
};

/* Weights of 4 or 8 bits, activations of 16. */
class wna16_gemm : public timed_gemm {
public:
  wna16_gemm(const yk_wna16_gpu &on, yk_wna16_encoding encoding, const gemm_shape &s, int64_t tokens, uint64_t seed)
      : gpu(on), m(tokens), p(on, {s.k, s.n, s.group, s.dtype, s.gate_up, encoding}, 0, s.n, s.group, YK_F16, false,
                              {{0, s.n, 0}}, tokens, seed)
  {
    yk_wna16_plans_choose(&gpu, &p.desc, &plans);
  }
  /* A scale is 16 bits, a zero as many as a weight. Integers of 8 bits are symmetric. */
  double weight_bytes() const override
  {
    const bool is_int4 = p.desc.encoding == YK_WNA16_INT4;
    return double(p.desc.k) * p.desc.n / (is_int4 ? 2 : 1) + double(p.n_groups()) * p.desc.n * (is_int4 ? 2.5 : 2.0);
  }
  std::string plan() const override
  {
    return gpu.path == YK_WNA16_WGMMA ? yk_gemm::plan_name(plans.of_bucket[yk_gemm::row_bucket(m)]) : "";
  }
  double checked_error() override
  {
    errors e = compare(gpu, p, m, false, false);
    if (!e.bad && e.normalised < tolerance(p.desc.dtype, p.desc.gate_up, m * p.width())) return e.normalised;
    std::printf("k %lld n %lld m %lld: WRONG, error %.2e, %lld not finite\n", (long long)p.desc.k, (long long)p.desc.n,
                (long long)m, e.normalised, (long long)e.bad);
    std::exit(1);
  }
  const device_array<uint8_t> &packed() const override
  {
    return p.packed;
  }
  void forward(const uint8_t *weights, bool second_half, cudaStream_t stream) override
  {
    yk_err err = YK_ERR_INIT;
    yk_wna16_call call = {weights, nullptr, p.x.data, p.y.data, m, p.workspace.data, second_half};
    check(yk_wna16_forward(&gpu, &p.desc, &plans, &call, stream, &err), err);
  }
  void expand(uint16_t *out) const override
  {
    linear::expand<<<4096, 256>>>(p.source(), out, p.desc.k, p.desc.n, p.desc.dtype);
  }
  const uint16_t *x() const override
  {
    return p.x.data;
  }
  uint16_t *y() override
  {
    return p.y.data;
  }

  yk_wna16_gpu gpu;
  int64_t m; /* at most as many as p has inputs for */
  gemm_case p;
  yk_wna16_plans plans;
};

template <yk_wna16_encoding ENCODING>
std::unique_ptr<timed_gemm> make_wna16(const yk_wna16_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed)
{
  return std::make_unique<wna16_gemm>(gpu, ENCODING, shape, m, seed);
}

template <yk_wna16_encoding ENCODING>
bool check_wna16(yk_wna16_path path, const std::vector<int64_t> &tokens, uint64_t seed)
{
  return run_checks(ENCODING, path, tokens, seed);
}

struct format {
  const char *name;
  bool has_plans; /* of wna16_plan.h, for that encoding */
  yk_wna16_encoding encoding;
  std::unique_ptr<timed_gemm> (*make)(const yk_wna16_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed);
  /* Odd shapes against float64; whether any failed. */
  bool (*check)(yk_wna16_path path, const std::vector<int64_t> &tokens, uint64_t seed);
};

const format FORMATS[] = {
    {"awq", true, YK_WNA16_INT4, make_wna16<YK_WNA16_INT4>, check_wna16<YK_WNA16_INT4>},
    {"int8", true, YK_WNA16_INT8, make_wna16<YK_WNA16_INT8>, check_wna16<YK_WNA16_INT8>},
    {"fp8", true, YK_WNA16_FP8, make_wna16<YK_WNA16_FP8>, check_wna16<YK_WNA16_FP8>},
};
const char *const FORMAT_NAMES[] = {FORMATS[0].name, FORMATS[1].name, FORMATS[2].name, nullptr};

} // namespace linear

#endif
