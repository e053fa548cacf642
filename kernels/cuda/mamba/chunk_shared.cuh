/* chunk_shared.cuh - shared memory of a thread block that goes through a sequence in chunks of up to 64 rows, and the
 * copies of a chunk's inputs to it: see chunk_kernel.cuh. */
#ifndef YK_KERNELS_CUDA_MAMBA_CHUNK_SHARED_CUH
#define YK_KERNELS_CUDA_MAMBA_CHUNK_SHARED_CUH

#include "kernels/cuda/common/chunk_products.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/mamba/inputs.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"

namespace yk_mamba {

using yk_cuda::left_factor;
using yk_cuda::WARP;

constexpr int CHUNK = yk_cuda::STATE_CHUNK, HALF = yk_cuda::HALF_CHUNK;
constexpr int CHUNK_HEAD = 64, CHUNK_STATE = 128; /* elements of a head, and of b and c */
constexpr int CHUNK_WARPS = CHUNK_HEAD / 16, CHUNK_THREADS = CHUNK_WARPS * WARP; /* of a group of warps */
constexpr int BC_STRIDE = CHUNK_STATE + 8, X_STRIDE = CHUNK_HEAD + 8;            /* padded: see chunk_products.cuh */

/* Inputs of a chunk. Rows after the chunk's last one are zeros, with steps of 0. */
template <typename T> struct chunk_inputs {
  T b[CHUNK][BC_STRIDE], c[CHUNK][BC_STRIDE], x[CHUNK][X_STRIDE]; /* x: later the results of its columns */
  /* For each row: the sum of log decays up to it; exp of that; its step; its step times the decay from it to the
   * chunk's end. */
  alignas(8) float log_decay[CHUNK], decay[CHUNK], step[CHUNK], weight[CHUNK];
};

template <typename T> struct chunk_shared {
  chunk_inputs<T> inputs[2]; /* of a chunk and of the next */
  T mixed[CHUNK]
         [yk_cuda::SQUARE_STRIDE]; /* [row][earlier row]: c b times decays and steps, on and below the diagonal */
};

/* Rows of a chunk. */
struct chunk_rows {
  int64_t first;
  int n; /* 0: none */
};

/* Begins to copy the results of the convolution. */
template <typename T, int THREADS>
__device__ __forceinline__ void copy_chunk(const params &p, const head &h, const chunk_rows &rows, chunk_inputs<T> &to)
{
  constexpr int PIECE = 16 / sizeof(T), BC_PIECES = CHUNK_STATE / PIECE, X_PIECES = CHUNK_HEAD / PIECE;
  const auto copy = [&](T *target, int row, int32_t channel) {
    const bool is_there = row < rows.n;
    const T *from = reinterpret_cast<const T *>(p.scratch + (rows.first + (is_there ? row : 0)) * p.scratch_stride);
    yk_ptx::cp_async_16(yk_ptx::shared_address(target), from + channel, is_there);
  };
#pragma unroll 4
  for (int i = threadIdx.x; i < CHUNK * BC_PIECES; i += THREADS) {
    const int row = i / BC_PIECES, at = i % BC_PIECES * PIECE;
    copy(&to.b[row][at], row, h.b.channel + at);
    copy(&to.c[row][at], row, h.c.channel + at);
  }
#pragma unroll
  for (int i = threadIdx.x; i < CHUNK * X_PIECES; i += THREADS)
    copy(&to.x[i / X_PIECES][i % X_PIECES * PIECE], i / X_PIECES, h.x.channel + i % X_PIECES * PIECE);
  yk_ptx::cp_async_commit();
}

/* Steps and decays of a chunk's rows, by one warp: lane l has rows l and l + 32. `load` comes first and waits for
 * nothing. */
struct chunk_steps {
  float dt[2];

  template <typename T> __device__ __forceinline__ void load(const params &p, const head &h, const chunk_rows &rows)
  {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = HALF * half + threadIdx.x % WARP;
      dt[half] = 0.0f;
      if (row < rows.n) dt[half] = to_float(static_cast<const T *>(p.x)[(rows.first + row) * p.x_stride + h.dt]);
    }
  }

  template <typename T>
  __device__ __forceinline__ void store(const params &p, const head &h, const chunk_rows &rows,
                                        chunk_inputs<T> &to) const
  {
    const int lane = threadIdx.x % WARP;
    const float rate = p.rate[h.index], dt_bias = p.dt_bias[h.index];
    float sum = 0.0f, logs[2], steps[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      steps[half] = HALF * half + lane < rows.n ? limited_step(p, dt[half] + dt_bias) : 0.0f;
      logs[half] = sum + yk_cuda::warp_prefix_sum(-rate * steps[half]);
      sum = __shfl_sync(yk_cuda::ALL_LANES, logs[half], WARP - 1);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = HALF * half + lane;
      to.log_decay[row] = logs[half];
      to.decay[row] = expf(logs[half]);
      to.step[row] = steps[half];
      to.weight[row] = steps[half] * expf(sum - logs[half]);
    }
  }
};

} // namespace yk_mamba

#endif
