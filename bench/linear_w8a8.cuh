/* linear_w8a8.cuh - the GEMM of 8-bit weights and 8-bit activations for bench_linear: rows of x are quantised, then
 * multiplied. Integers must equal those of a reference with one thread per element. Results are compared with the
 * values of the integers in float64. */
#ifndef YK_BENCH_LINEAR_W8A8_CUH
#define YK_BENCH_LINEAR_W8A8_CUH

#include <memory>

#include "bench/linear_check.cuh"
#include "bench/linear_timed_gemm.cuh"
#include "kernels/cuda/rows/quantise.h"
#include "kernels/cuda/rows/row_quantiser.cuh"
#include "kernels/cuda/w8a8/w8a8.h"
#include "kernels/cuda/w8a8/wgmma.cuh"

namespace linear {

/* Uniform in -127 .. 127. */
static __global__ void fill_integers(int8_t *out, size_t n, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = static_cast<int8_t>(static_cast<int>(mix(seed * 0x100000001B3u + i) % 255) - 127);
}

static __global__ void expand_integers(const int8_t *w, const float *scales, uint16_t *out, int64_t k, int64_t n,
                                       yk_dtype dtype)
{
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < k * n; i += int64_t(gridDim.x) * blockDim.x) {
    const float v = w[i] * scales[i / k];
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

/* Compares quantised rows of x with a reference, one thread per row; counts the scales and integers that differ. */
static __global__ void count_wrong_quants(const uint16_t *x, yk_dtype dtype, const int8_t *quants, const float *scales,
                                          int64_t m, int64_t k, int64_t k_padded, unsigned *wrong)
{
  const int64_t row = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (row >= m) return;
  float largest = 0.0f;
  for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf(half_value(x[row * k + i], dtype)));
  const float scale = __fdiv_rn(largest, 127.0f);
  unsigned n = scale != scales[row];
  for (int64_t i = 0; i < k_padded; i++) {
    const float v = i < k ? rintf(__fdiv_rn(half_value(x[row * k + i], dtype), scale)) : 0.0f;
    n += quants[row * k_padded + i] != static_cast<int>(v);
  }
  if (n) atomicAdd(wrong, n);
}

/* Counts the integers that differ from those of exact quotients, for the two 11-bit numbers next to every midpoint
 * between two integers, for all 2^23 scales from 1 to 2. Scales and numbers times powers of two round alike. */
static __global__ void count_wrong_quotients(unsigned *wrong)
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

__device__ inline int exact_integer_sum(const int8_t *x, const int8_t *w, int64_t k)
{
  int sum = 0;
  for (int64_t i = 0; i < k; i++) sum += x[i] * w[i];
  return sum;
}

/* Counts the sums [m, n] that differ from products of x [m, k_padded] and w [n, k], one thread per sum. */
static __global__ void count_wrong_sums(const int8_t *x, const int8_t *w, const int32_t *sums, int64_t m, int64_t n,
                                        int64_t k, int64_t k_padded, unsigned *wrong)
{
  const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (at < m * n && exact_integer_sum(x + at / n * k_padded, w + at % n * k, k) != sums[at]) atomicAdd(wrong, 1u);
}

/* out[i, column] in float64 for the tokens named in rows. */
static __global__ void integer_reference(const int8_t *x, const float *x_scales, const int8_t *w, const float *w_scales,
                                         yk_w8a8_desc d, int64_t k_padded, const int64_t *rows, double *out)
{
  const int64_t width = d.activation.is_gated ? d.n / 2 : d.n, column = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (column >= width) return;
  const int64_t row = rows[blockIdx.y];
  const auto value = [&](int64_t of) {
    return exact_integer_sum(x + row * k_padded, w + of * d.k, d.k) * static_cast<double>(x_scales[row]) * w_scales[of];
  };
  double v = value(column);
  if (d.activation.is_gated) v = v / (1 + exp(-v)) * value(width + column);
  out[blockIdx.y * width + column] = v;
}

class w8a8_gemm : public timed_gemm {
public:
  w8a8_gemm(const yk_gemm_gpu &on, const gemm_shape &s, int64_t tokens, uint64_t seed)
      : gpu(on), desc{s.k, s.n, 0, bench::silu_where(s.gate_up)}, dtype(s.dtype), m(tokens), w(s.k * s.n),
        quants(tokens * yk_w8a8_k_padded(s.k)), w_scales(s.n), x_scales(tokens + YK_W8A8_ROW_MULTIPLE),
        x_values(tokens * s.k), y_values(tokens * s.n), weights(yk_w8a8_packed_bytes(&desc))
  {
    yk_err err = YK_ERR_INIT;
    check(yk_w8a8_init(&gpu, &w8a8, &err), err);
    fill_integers<<<1024, 256>>>(w.data, w.count, seed + 1);
    fill_floats<<<256, 256>>>(w_scales.data, w_scales.count, 2e-4f, 2e-3f, 0, seed + 2);
    fill_halves<<<1024, 256>>>(x_values.data, x_values.count, dtype, -1.0f, 1.0f, seed + 3);
    pack(desc, weights);
  }
  double weight_bytes() const override
  {
    return double(desc.k) * desc.n + 4.0 * desc.n;
  }
  std::string plan() const override
  {
    if (gpu.path != YK_GEMM_WGMMA) return "";
    const yk_w8a8::gemm_plan plan = yk_w8a8::wgmma_plan(w8a8, desc, m);
    const yk_w8a8::tile_shape &tile = yk_w8a8::TILES[plan.tile];
    return "wgmma:m" + std::to_string(64 * tile.warpgroups * tile.cluster) + ",n" + std::to_string(tile.n) +
           ":split_k" + std::to_string(plan.splits);
  }
  double checked_error() override
  {
    const unsigned n_wrong = wrong_quants() + wrong_sums();
    const errors e = compare();
    if (n_wrong == 0 && e.bad == 0 && e.normalised < tolerance(dtype, desc.activation.is_gated, m * width()))
      return e.normalised;
    std::printf("k %lld n %lld m %lld: WRONG, %u integers, error %.2e, %lld not finite\n", (long long)desc.k,
                (long long)desc.n, (long long)m, n_wrong, e.normalised, (long long)e.bad);
    std::exit(1);
  }
  const device_array<uint8_t> &packed() const override
  {
    return weights;
  }
  void forward(const uint8_t *packed_weights, bool, cudaStream_t stream) override
  {
    quantise(stream);
    multiply(desc, packed_weights, m, y_values.data, nullptr, stream);
  }
  std::vector<step> steps() override
  {
    return {{"quantise", [this](const uint8_t *, cudaStream_t stream) { quantise(stream); }},
            {"gemm", [this](const uint8_t *packed_weights, cudaStream_t stream) {
               multiply(desc, packed_weights, m, y_values.data, nullptr, stream);
             }}};
  }
  void expand(uint16_t *out) const override
  {
    expand_integers<<<4096, 256>>>(w.data, w_scales.data, out, desc.k, desc.n, dtype);
  }
  const uint16_t *x() const override
  {
    return x_values.data;
  }
  uint16_t *y() override
  {
    return y_values.data;
  }

private:
  int64_t width() const
  {
    return desc.activation.is_gated ? desc.n / 2 : desc.n;
  }
  void pack(const yk_w8a8_desc &d, const device_array<uint8_t> &to)
  {
    yk_err err = YK_ERR_INIT;
    const yk_w8a8_source source = {w.data, w_scales.data};
    check(cudaMemset(to.data, 0, to.count), "weights");
    check(yk_w8a8_pack(&d, to.data, &source, 0, d.n, nullptr, &err), err);
    check(cudaDeviceSynchronize(), "pack");
  }
  void quantise(cudaStream_t stream)
  {
    const yk_cuda_quantise_args args = {
        x_values.data, quants.data, x_scales.data, nullptr, m, desc.k, yk_w8a8_k_padded(desc.k), 0.0f, 0};
    check(yk_cuda_launch_quantise(dtype, &args, stream), "quantising");
  }
  /* Computes y, or sums if y is NULL. */
  void multiply(const yk_w8a8_desc &d, const void *packed_weights, int64_t n_rows, uint16_t *to, int32_t *sums,
                cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    yk_w8a8_call call = {};
    call.packed = packed_weights;
    call.x = quants.data;
    call.x_scales = x_scales.data;
    call.y = to;
    call.y_dtype = dtype;
    call.y_stride = width();
    call.sums = sums;
    call.m = n_rows;
    check(yk_w8a8_forward(&w8a8, &d, &call, stream, &err), err);
  }
  unsigned fetch(const device_array<unsigned> &wrong)
  {
    unsigned n = 0;
    check(cudaMemcpy(&n, wrong.data, sizeof n, cudaMemcpyDeviceToHost), "comparison");
    return n;
  }
  unsigned wrong_quants()
  {
    const device_array<unsigned> wrong(1);
    check(cudaMemset(wrong.data, 0, sizeof(unsigned)), "comparison");
    check(cudaMemset(quants.data, 0x55, quants.count), "poison");
    quantise(nullptr);
    count_wrong_quants<<<unsigned((m + 63) / 64), 64>>>(x_values.data, dtype, quants.data, x_scales.data, m, desc.k,
                                                        yk_w8a8_k_padded(desc.k), wrong.data);
    return fetch(wrong);
  }
  /* Sums of quantised rows, without gate_up, which has no sums. */
  unsigned wrong_sums()
  {
    yk_w8a8_desc d = desc;
    d.activation = {};
    const int64_t n_rows = std::min<int64_t>(m, 300);
    const device_array<unsigned> wrong(1);
    const device_array<int32_t> sums(n_rows * d.n);
    const device_array<uint8_t> without_gate(yk_w8a8_packed_bytes(&d));
    pack(d, without_gate);
    check(cudaMemset(wrong.data, 0, sizeof(unsigned)), "comparison");
    check(cudaMemset(sums.data, 0x55, sums.count * 4), "poison");
    multiply(d, without_gate.data, n_rows, nullptr, sums.data, nullptr);
    count_wrong_sums<<<unsigned((n_rows * d.n + 255) / 256), 256>>>(quants.data, w.data, sums.data, n_rows, d.n, d.k,
                                                                    yk_w8a8_k_padded(d.k), wrong.data);
    return fetch(wrong);
  }
  /* Results of quantised rows. */
  errors compare()
  {
    const std::vector<int64_t> rows = compared_rows(m);
    const device_array<int64_t> rows_device(rows.size());
    const device_array<double> exact(rows.size() * width());
    check(cudaMemcpy(rows_device.data, rows.data(), rows.size() * 8, cudaMemcpyHostToDevice), "rows");
    check(cudaMemset(y_values.data, 0xFF, y_values.count * 2), "poison"); /* NaN */
    multiply(desc, weights.data, m, y_values.data, nullptr, nullptr);
    integer_reference<<<dim3(unsigned((width() + 63) / 64), unsigned(rows.size())), 64>>>(
        quants.data, x_scales.data, w.data, w_scales.data, desc, yk_w8a8_k_padded(desc.k), rows_device.data,
        exact.data);
    return errors_of(y_values, dtype, m, width(), rows, exact);
  }

  yk_gemm_gpu gpu;
  yk_w8a8_gpu w8a8;
  yk_w8a8_desc desc;
  yk_dtype dtype;
  int64_t m;
  device_array<int8_t> w, quants; /* w [n, k] */
  device_array<float> w_scales, x_scales;
  device_array<uint16_t> x_values, y_values;
  device_array<uint8_t> weights;
};

inline std::unique_ptr<timed_gemm> make_w8a8(const yk_gemm_gpu &gpu, const gemm_shape &shape, int64_t m, uint64_t seed)
{
  return std::make_unique<w8a8_gemm>(gpu, shape, m, seed);
}

/* Every tile, and tiles that are partly filled on each side. A wrong result ends the program. */
inline bool check_w8a8(yk_gemm_path only, const std::vector<int64_t> &tokens, uint64_t seed)
{
  const device_array<unsigned> wrong(1);
  unsigned n_wrong = 0;
  check(cudaMemset(wrong.data, 0, sizeof(unsigned)), "quotients");
  count_wrong_quotients<<<1 << 15, 1 << 8>>>(wrong.data);
  check(cudaMemcpy(&n_wrong, wrong.data, sizeof n_wrong, cudaMemcpyDeviceToHost), "quotients");
  if (n_wrong > 0) {
    std::printf("quotients: WRONG, %u integers\n", n_wrong);
    return true;
  }
  static const gemm_shape SHAPES[] = {
      {128, 64, 0, YK_F16, false},   {40, 8, 0, YK_F16, false},      {4096, 1536, 0, YK_F16, false},
      {1000, 520, 0, YK_F16, false}, {12288, 96, 0, YK_F16, false},  {1032, 400, 0, YK_F16, true},
      {4096, 8192, 0, YK_F16, true}, {3072, 4096, 0, YK_F16, false}, {128, 6152, 0, YK_F16, false}};
  check_totals totals;
  bench::for_each_path(only, [&](const yk_gemm_gpu &gpu, yk_gemm_path) {
    std::vector<int64_t> ms = tokens;
    for (int64_t m : {3, 17, 33, 65, 100, 130, 200, 257, 300, 1000}) ms.push_back(m);
    for (gemm_shape shape : SHAPES)
      for (yk_dtype dtype : {YK_F16, YK_BF16})
        for (int64_t m : ms) {
          shape.dtype = dtype;
          totals.add(dtype, w8a8_gemm(gpu, shape, m, seed += 16).checked_error());
        }
  });
  totals.print();
  return false;
}

} // namespace linear

#endif
