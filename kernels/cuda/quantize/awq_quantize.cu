/* awq_quantize.cu - the choice of kernels for a weight, and the kernels in two passes. */
#include "kernels/cuda/quantize/awq_quantize.h"

#include <algorithm>

#include "kernels/cuda/quantize/awq_rows.cuh"
#include "kernels/cuda/quantize/awq_source.cuh"

using namespace yk_awq;

namespace {

constexpr int QUANTIZE_THREADS = 256, QUANTIZE_WARPS = QUANTIZE_THREADS / WARP;

/* ---- Two passes -------------------------------------------------------------------------------------------------- */

/* Scales and zeros. A thread block takes a group of 8 outputs, one warp each. */
template <typename T> __global__ void range_kernel(const yk_awq_quantize_args p)
{
  __shared__ uint32_t zeros[QUANTIZE_WARPS];
  const yk_awq_floats &w = p.weight;
  const int64_t n_groups = w.k / w.group, which = blockIdx.x % n_groups, word = blockIdx.x / n_groups;
  const int warp = threadIdx.x / WARP;
  const int64_t n = word * 8 + warp;
  const group g = find_group<T>(w, n, which, limit_of(w, n, which), 0, p.found);
  if (threadIdx.x % WARP == 0) {
    zeros[warp] = static_cast<uint32_t>(g.zero) << 4 * nibble_of_output(warp);
    p.out.scales[which * w.n + n] = g.scale_bits;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  uint32_t all = 0;
  for (int i = 0; i < QUANTIZE_WARPS; i++) all |= zeros[i];
  p.out.qzeros[which * (w.n / 8) + word] = all;
}

/* Words, from scales and zeros: a thread block takes 32 inputs of 256 outputs. */
template <typename T> __global__ void words_kernel(const yk_awq_quantize_args p, int k_tiles)
{
  constexpr int OUTPUTS = 256, INPUTS = 32;
  __shared__ uint8_t tile[OUTPUTS][INPUTS + 1];
  const yk_awq_floats &w = p.weight;
  const int64_t first_k = static_cast<int64_t>(blockIdx.x % k_tiles) * INPUTS, k = first_k + threadIdx.x % INPUTS;
  const int64_t first_n = static_cast<int64_t>(blockIdx.x / k_tiles) * OUTPUTS, which = k / w.group;
  for (int row = threadIdx.x / INPUTS; row < OUTPUTS; row += QUANTIZE_THREADS / INPUTS) {
    const int64_t n = first_n + row;
    if (n >= w.n || k >= w.k) continue;
    group g;
    g.scale = __half2float(__ushort_as_half(p.out.scales[which * w.n + n]));
    g.zero = static_cast<float>(p.out.qzeros[which * (w.n / 8) + n / 8] >> 4 * nibble_of_output(row % 8) & 15u);
    tile[row][k - first_k] = static_cast<uint8_t>(whole_of(g, cut(scaled<T>(w, n, k), limit_of(w, n, which))));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < INPUTS * OUTPUTS / 8; i += QUANTIZE_THREADS) {
    const int column = i % (OUTPUTS / 8), input = i / (OUTPUTS / 8);
    if (first_n + column * 8 >= w.n || first_k + input >= w.k) continue;
    uint32_t word = 0;
    for (int j = 0; j < 8; j++) word |= static_cast<uint32_t>(tile[column * 8 + j][input]) << 4 * nibble_of_output(j);
    p.out.qweight[(first_k + input) * (w.n / 8) + first_n / 8 + column] = word;
  }
}

template <typename T> void launch_ranges(const yk_awq_quantize_args &p, cudaStream_t stream)
{
  const int64_t n_groups = p.weight.k / p.weight.group;
  range_kernel<T><<<static_cast<unsigned>(p.weight.n / 8 * n_groups), QUANTIZE_THREADS, 0, stream>>>(p);
}

template <typename T> cudaError_t launch_two_passes(const yk_awq_quantize_args &p, cudaStream_t stream)
{
  const int64_t k_tiles = (p.weight.k + 31) / 32, n_tiles = (p.weight.n + 255) / 256;
  launch_ranges<T>(p, stream);
  words_kernel<T>
      <<<static_cast<unsigned>(k_tiles * n_tiles), QUANTIZE_THREADS, 0, stream>>>(p, static_cast<int>(k_tiles));
  return cudaGetLastError();
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* If a row of words is not a whole number of sectors (32 bytes), thread blocks share the sectors at the ends of their
 * tiles: wider tiles have fewer ends. */
template <typename T, int GROUPS> cudaError_t launch_tile_kernel(const fused_args &p, int64_t end, cudaStream_t stream)
{
  constexpr int SECTOR_OUTPUTS = 64;
  if (p.n % SECTOR_OUTPUTS == 0) return launch_fused<T, 256, 64, 6, GROUPS>(p, end, stream);
  return launch_fused<T, 512, 128, 3, GROUPS>(p, end, stream);
}

/* All inputs as one group, for rows too long for a cluster: while some outputs, whose inputs are still in the L2 cache,
 * are quantised, the ranges of the next outputs are computed. */
template <typename T> cudaError_t launch_rows_twice(fused_args p, cudaStream_t stream)
{
  constexpr int64_t CACHED_BYTES = 16 << 20, OUTPUTS = 256;
  const int64_t step = std::max(CACHED_BYTES / (p.k * 2) / OUTPUTS, int64_t{1}) * OUTPUTS;
  for (int64_t end = 0; end < p.n; p.begin = end, end = p.ranges_begin) {
    const int64_t ranges_end = std::min(p.n, end + step);
    p.n_range_blocks = (ranges_end - end) / 8;
    p.ranges_begin = end;
    const cudaError_t error = launch_fused<T, 256, 64, 6, 0>(p, end, stream);
    if (error != cudaSuccess) return error;
    p.ranges_begin = ranges_end;
  }
  p.n_range_blocks = 0;
  return launch_fused<T, 256, 64, 6, 0>(p, p.n, stream);
}

/* All inputs as one group. With fewer tiles per thread block more thread blocks fit. */
template <typename T> cudaError_t launch_whole_rows(const fused_args &p, cudaStream_t stream)
{
  bool fits = false;
  cudaError_t error = launch_rows<T, 4, 3>(p, stream, &fits);
  if (error == cudaSuccess && !fits) error = launch_rows<T, 6, 2>(p, stream, &fits);
  return error == cudaSuccess && !fits ? launch_rows_twice<T>(p, stream) : error;
}

template <typename T> cudaError_t launch_tiles(const yk_awq_quantize_args &args, cudaStream_t stream)
{
  const yk_awq_floats &w = args.weight;
  const fused_args p = {w.w, args.out.qweight, args.out.qzeros, args.out.scales, &args.found->first_bad, w.n, w.k, 0, 0,
                        0};
  switch (w.group) {
  case 32: return launch_tile_kernel<T, 4>(p, p.n, stream);
  case 64: return launch_tile_kernel<T, 2>(p, p.n, stream);
  case 128: return launch_tile_kernel<T, 1>(p, p.n, stream);
  default: return launch_whole_rows<T>(p, stream);
  }
}

} // namespace

extern "C" bool yk_cuda_awq_takes(const yk_awq_floats *weight)
{
  const int64_t group = weight->group;
  return group == 32 || group == 64 || group == 128 || group == weight->k;
}

extern "C" cudaError_t yk_cuda_launch_awq_quantize(const yk_awq_quantize_args *args, cudaStream_t stream)
{
  const yk_awq_floats &w = args->weight;
  if (w.n == 0) return cudaSuccess;
  const bool is_plain = w.dtype != YK_F32 && !w.n_scales && !w.k_scales && !w.limits;
  if (is_plain && w.k % 8 == 0)
    return yk_cuda::with_act_type(w.dtype, [&](auto type) { return launch_tiles<decltype(type)>(*args, stream); });
  return yk_cuda::with_type(w.dtype, [&](auto type) { return launch_two_passes<decltype(type)>(*args, stream); });
}
