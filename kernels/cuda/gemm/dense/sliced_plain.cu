/* sliced_plain.cu - see sliced_plain.h; here the kernel by mma.sync.
 *
 *   block   128 or 256 columns of W by ROWS rows of x; each of its eight warps has 16 or 32 columns, as the A operand
 *           of mma.sync, and all rows as B. Blocks of the same columns are neighbours, so that W is read from memory
 *           once
 *   loads   every thread, by cp.async into a ring of stages of 64 inputs each; the weights of the first stages before
 *           griddepcontrol.wait */
#include "kernels/cuda/gemm/dense/sliced_plain.h"

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/gemm/dense/pending_sums.cuh"
#include "kernels/cuda/gemm/dense/sliced_plain_wgmma.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int STAGE_INPUTS = 64, ROW_BYTES = STAGE_INPUTS * 2, ROW_PIECES = ROW_BYTES / 16;
constexpr int STAGES = 4;

struct plain_params {
  yk_plain_gemm gemm;
  int stages_of_k, stages_of_slice;
};

/* Columns of a block; panels: of 16 columns, per warp. */
__host__ __device__ constexpr int columns_of(int panels)
{
  return WARPS * 16 * panels;
}

__host__ __device__ constexpr int stage_bytes(int panels, int rows)
{
  return (columns_of(panels) + rows) * ROW_BYTES;
}

/* Offset of a piece of 16 bytes: permuted within the row, so that ldmatrix has no bank conflicts. */
__device__ __forceinline__ uint32_t piece_at(int row, int piece)
{
  return row * ROW_BYTES + (piece ^ row % 8) * 16;
}

/* Copies the inputs of one stage of `rows` rows from `first` on of a matrix [n_rows, k]; zeros past its edges. */
__device__ __forceinline__ void load_rows(uint32_t to, const void *matrix, int rows, int64_t first, int64_t n_rows,
                                          int64_t k, int stage)
{
  for (int i = threadIdx.x; i < rows * ROW_PIECES; i += THREADS) {
    const int64_t row = first + i / ROW_PIECES, at = stage * STAGE_INPUTS + i % ROW_PIECES * 8;
    const bool is_there = row < n_rows && at < k;
    cp_async_16(to + piece_at(i / ROW_PIECES, i % ROW_PIECES),
                static_cast<const uint16_t *>(matrix) + (is_there ? row * k + at : 0), is_there);
  }
}

/* acc += one stage of the warp's columns times all rows. */
template <typename T, int PANELS, int ROWS>
__device__ __forceinline__ void multiply_stage(uint32_t weights, uint32_t x, float (&acc)[PANELS * ROWS / 8][4])
{
  const int lane = threadIdx.x % 32, column = threadIdx.x / 32 * 16 * PANELS + lane % 16;
#pragma unroll
  for (int pair = 0; pair < STAGE_INPUTS / 32; pair++) {
    uint32_t a[PANELS][2][4];
#pragma unroll
    for (int i = 0; i < PANELS * 2; i++)
      ldmatrix_x4(a[i / 2][i % 2], weights + piece_at(column + i / 2 * 16, pair * 4 + i % 2 * 2 + lane / 16));
#pragma unroll
    for (int r = 0; r < ROWS / 8; r++) {
      uint32_t b[4];
      ldmatrix_x4(b, x + piece_at(r * 8 + lane % 8, pair * 4 + lane / 8));
#pragma unroll
      for (int i = 0; i < PANELS * 2; i++) {
        const uint32_t(&of_step)[4] = a[i / 2][i % 2];
        mma_m16n8k16<T>(acc[i / 2 * (ROWS / 8) + r], of_step[0], of_step[1], of_step[2], of_step[3], b[i % 2 * 2],
                        b[i % 2 * 2 + 1]);
      }
    }
  }
}

template <typename T, int PANELS, int ROWS>
__device__ __forceinline__ void store(const yk_plain_gemm &g, int64_t column0, int64_t row0,
                                      const float (&acc)[PANELS * ROWS / 8][4])
{
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < PANELS * ROWS / 8 * 4; i++) {
    const int panel = threadIdx.x / 32 * PANELS + i / 4 / (ROWS / 8), r = i / 4 % (ROWS / 8);
    const int64_t column = column0 + panel * 16 + lane / 4 + i % 4 / 2 * 8;
    const int64_t row = row0 + r * 8 + lane % 4 * 2 + i % 2, at = row * g.y_stride + column;
    if (row >= g.m || column >= g.n) continue;
    if (g.y_dtype == YK_F32)
      static_cast<float *>(g.y)[at] = acc[i / 4][i % 4];
    else
      static_cast<T *>(g.y)[at] = from_float<T>(acc[i / 4][i % 4]);
  }
}

template <typename T, int PANELS, int ROWS>
__global__ void __launch_bounds__(THREADS) sliced_plain_kernel(const __grid_constant__ plain_params p)
{
  constexpr int COLUMNS = columns_of(PANELS), STAGE_BYTES = stage_bytes(PANELS, ROWS);
  extern __shared__ __align__(128) uint8_t shared[];
  const yk_plain_gemm &g = p.gemm;
  const uint32_t memory = shared_address(shared);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * ROWS, column0 = static_cast<int64_t>(blockIdx.y) * COLUMNS;
  const auto weights_of = [&](int stage) { return memory + stage % STAGES * STAGE_BYTES; };
  const auto x_of = [&](int stage) { return weights_of(stage) + COLUMNS * ROW_BYTES; };
  float acc[PANELS * ROWS / 8][4] = {};
  yk_gemm::pending_sums<PANELS * ROWS / 8, false> pending;
  for (int stage = 0; stage < min(STAGES - 1, p.stages_of_k); stage++)
    load_rows(weights_of(stage), g.w, COLUMNS, column0, g.n, g.k, stage);
  let_next_kernel_start();
  wait_for_previous_kernel();
  for (int stage = 0; stage < STAGES - 1; stage++) {
    if (stage < p.stages_of_k) load_rows(x_of(stage), g.x, ROWS, row0, g.m, g.k, stage);
    cp_async_commit();
  }
  for (int slice = 0, stage = 0; stage < p.stages_of_k; slice++) {
#pragma unroll
    for (int i = 0; i < PANELS * ROWS / 8 * 4; i++) acc[i / 4][i % 4] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < p.stages_of_slice; i++, stage++) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      const int next = stage + STAGES - 1;
      if (next < p.stages_of_k) {
        load_rows(weights_of(next), g.w, COLUMNS, column0, g.n, g.k, next);
        load_rows(x_of(next), g.x, ROWS, row0, g.m, g.k, next);
      }
      cp_async_commit();
      multiply_stage<T, PANELS, ROWS>(weights_of(stage), x_of(stage), acc);
    }
    pending.add(slice, stage >= p.stages_of_k, acc);
  }
  store<T, PANELS, ROWS>(g, column0, row0, acc);
}

template <typename T, int PANELS, int ROWS> cudaError_t launch(const plain_params &p, cudaStream_t stream)
{
  const auto kernel = sliced_plain_kernel<T, PANELS, ROWS>;
  constexpr int BYTES = STAGES * stage_bytes(PANELS, ROWS);
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(ceil_div(p.gemm.m, ROWS)),
                  static_cast<unsigned>(ceil_div(p.gemm.n, columns_of(PANELS))));
  return launch_dependent(kernel, {grid, THREADS, BYTES, 1}, stream, p);
}

} // namespace

extern "C" cudaError_t yk_sliced_plain_launch(const yk_gemm_gpu *gpu, const yk_plain_gemm *gemm, int k_slices,
                                              cudaStream_t stream)
{
  if (gemm->m <= 0 || gemm->n <= 0) return cudaSuccess;
  if (gemm->k % 8 || k_slices < 1 || (k_slices > 1 && gemm->k % (128 * k_slices))) return cudaErrorInvalidValue;
  if (yk_gemm::sliced_plain_wgmma_takes(*gpu, *gemm))
    return yk_gemm::sliced_plain_wgmma_launch(*gpu, *gemm, k_slices, stream);
  const int stages = static_cast<int>(ceil_div(gemm->k, STAGE_INPUTS));
  const plain_params p = {*gemm, stages, stages / k_slices};
  return with_act_type(gemm->dtype, [&](auto type) {
    using T = decltype(type);
    return gemm->m <= 8    ? launch<T, 1, 8>(p, stream)
           : gemm->m <= 32 ? launch<T, 1, 32>(p, stream)
                           : launch<T, 2, 64>(p, stream);
  });
}
