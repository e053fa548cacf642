/* linear_w8a8.cuh - the GEMM of 8-bit weights and 8-bit activations for bench_linear: rows of x are quantised, then
 * multiplied. */
#ifndef YK_BENCH_LINEAR_W8A8_CUH
#define YK_BENCH_LINEAR_W8A8_CUH

#include <memory>

#include "bench/linear_timed_gemm.cuh"
#include "kernels/cuda/rows/quantise.h"
#include "kernels/cuda/w8a8/w8a8.h"
#include "kernels/cuda/w8a8/wgmma.cuh"

namespace linear {

/* Uniform in -127 .. 127. */
static __global__ void fill_integers(int8_t *out, size_t n, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = static_cast<int8_t>(static_cast<int>(mix(seed * 0x100000001B3u + i) % 255) - 127);
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
    pack();
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
  const device_array<uint8_t> &packed() const override
  {
    return weights;
  }
  void forward(const uint8_t *packed_weights, bool, cudaStream_t stream) override
  {
    quantise(stream);
    multiply(packed_weights, stream);
  }
  std::vector<step> steps() override
  {
    return {{"quantise", [this](const uint8_t *, cudaStream_t stream) { quantise(stream); }},
            {"gemm", [this](const uint8_t *packed_weights, cudaStream_t stream) { multiply(packed_weights, stream); }}};
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
  void pack()
  {
    yk_err err = YK_ERR_INIT;
    const yk_w8a8_source source = {w.data, w_scales.data};
    check(cudaMemset(weights.data, 0, weights.count), "weights");
    check(yk_w8a8_pack(&desc, weights.data, &source, 0, desc.n, nullptr, &err), err);
    check(cudaDeviceSynchronize(), "pack");
  }
  void quantise(cudaStream_t stream)
  {
    const yk_cuda_quantise_args args = {
        x_values.data, quants.data, x_scales.data, nullptr, m, desc.k, yk_w8a8_k_padded(desc.k), 0.0f, 0};
    check(yk_cuda_launch_quantise(dtype, &args, stream), "quantising");
  }
  void multiply(const void *packed_weights, cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    yk_w8a8_call call = {};
    call.packed = packed_weights;
    call.x = quants.data;
    call.x_scales = x_scales.data;
    call.y = y_values.data;
    call.y_dtype = dtype;
    call.y_stride = desc.activation.is_gated ? desc.n / 2 : desc.n;
    call.m = m;
    check(yk_w8a8_forward(&w8a8, &desc, &call, stream, &err), err);
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

} // namespace linear

#endif
