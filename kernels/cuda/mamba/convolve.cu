/* convolve.cu - the convolution of sequences with many rows, to the scratch in the activation type. A thread has two
 * neighbouring channels of up to CONV_ROWS rows, which may belong to several sequences. */
#include "kernels/cuda/mamba/params.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_mamba {

namespace {

constexpr int CONVOLVE_THREADS = 128, ROWS = yk_cuda::CONV_ROWS;

template <typename T>
__global__ void __launch_bounds__(CONVOLVE_THREADS) convolve_kernel(const __grid_constant__ params p)
{
  const int32_t channel = 2 * static_cast<int32_t>(blockIdx.y * CONVOLVE_THREADS + threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * ROWS;
  const int64_t last = first + ROWS < p.n_tokens ? first + ROWS : p.n_tokens;
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (channel >= p.n_channels) return;
  for (int64_t row = first, end; row < last; row = end) {
    const sequence s = sequence::of(p, p.seq_of_row[row]);
    end = row < s.end && s.end < last ? s.end : last;
    if (row >= s.end) end = row + 1; /* padding */
    if (!s.is_long(p) || row >= s.end) continue;
    float2 results[ROWS];
    yk_cuda::convolve_pair<T, true>(p, s, row, p.x_stride, {channel, p.width + channel}, results);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      if (row + i < end)
        reinterpret_cast<uint32_t *>(p.scratch + (row + i) * p.scratch_stride)[channel / 2] =
            yk_ptx::round_pair<T>(results[i].x, results[i].y);
  }
}

} // namespace

cudaError_t launch_convolution(const params &p, yk_dtype dtype, cudaStream_t stream)
{
  const unsigned blocks = static_cast<unsigned>((p.n_tokens + ROWS - 1) / ROWS);
  const unsigned pairs = static_cast<unsigned>(p.n_channels / 2);
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    const yk_ptx::launch_shape shape = {dim3(blocks, (pairs + CONVOLVE_THREADS - 1) / CONVOLVE_THREADS),
                                        CONVOLVE_THREADS, 0, 1};
    return yk_ptx::launch_dependent(convolve_kernel<decltype(type)>, shape, stream, p);
  });
}

} // namespace yk_mamba
