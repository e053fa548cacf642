/* sliced_plain_wgmma.cu - see sliced_plain_wgmma.cuh.
 *
 *   grid       one thread block per multiprocessor; block i takes output tiles i, i + gridDim.x, and so on. Tiles of
 *              the same columns of W are neighbours, so that W is read from memory once
 *   tile       128 columns of W by N rows of x
 *   producer   warp 8:  64 inputs of the tile's W and x per stage, by tensor maps with the 128-byte swizzle; the first
 *              stages of W before griddepcontrol.wait
 *   consumers  two warpgroups of 64 columns each, the A operand of wgmma; both operands come from shared memory
 *
 * The main loop runs once for each slice of K, whose sums are added as in pending_sums.cuh. */
#include "kernels/cuda/gemm/dense/sliced_plain_wgmma.cuh"

#include <algorithm>

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/gemm/dense/pending_sums.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace yk_gemm {
namespace {

constexpr int WARPGROUPS = 2, COLUMNS = WARPGROUPS * 64, THREADS = (WARPGROUPS + 1) * 128;
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
constexpr int STAGE_INPUTS = 64, ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES; /* of 8 rows */
constexpr int W_BYTES = COLUMNS * ROW_BYTES;
constexpr int MOST_STAGES = 8, RING_BYTES = 224 * 1024;
constexpr int64_t FEW_ROWS = 32; /* up to this number the kernel by mma.sync reads W as fast */

using plain_ring = stage_ring<MOST_STAGES>;

template <int N> constexpr int STAGE_BYTES = W_BYTES + N *ROW_BYTES;
template <int N>
constexpr int STAGES = RING_BYTES / STAGE_BYTES<N> < MOST_STAGES ? RING_BYTES / STAGE_BYTES<N> : MOST_STAGES;

struct wgmma_plain_params {
  yk_plain_gemm gemm;
  int row_tiles, tiles, stages_of_k, stages_of_slice;
};

#ifdef YK_HAVE_SM90A

template <int N>
__device__ __forceinline__ void produce(const CUtensorMap *w_map, const CUtensorMap *x_map, const wgmma_plain_params &p,
                                        plain_ring r)
{
  r.start_producing();
  const int first = min(STAGES<N>, p.stages_of_k), column0 = blockIdx.x / p.row_tiles * COLUMNS;
  for (int stage = 0; stage < first; stage++) {
    mbarrier_arrive_expect(r.barriers + stage * 8, STAGE_BYTES<N>);
    tensor_copy(r.memory + stage * STAGE_BYTES<N>, w_map, stage * STAGE_INPUTS, column0, r.barriers + stage * 8);
  }
  wait_for_previous_kernel();
  for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    const int column = tile / p.row_tiles * COLUMNS, row = tile % p.row_tiles * N;
    for (int stage = 0; stage < p.stages_of_k; stage++) {
      const bool has_weights = tile == static_cast<int>(blockIdx.x) && stage < first;
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      if (!has_weights) {
        mbarrier_arrive_expect(r.full(), STAGE_BYTES<N>);
        tensor_copy(r.data(), w_map, stage * STAGE_INPUTS, column, r.full());
      }
      tensor_copy(r.data() + W_BYTES, x_map, stage * STAGE_INPUTS, row, r.full());
      r.advance();
    }
  }
}

/* acc = the sum of one slice: stages of K in order, one chain of wgmma. A stage is released once the next one's
 * products have been issued and its own are complete. */
template <typename T, int N>
__device__ __forceinline__ void multiply_slice(const wgmma_plain_params &p, plain_ring &r, int warpgroup,
                                               float (&acc)[N / 8][4])
{
  uint32_t read = 0; /* empty barrier of the previous stage */
#pragma unroll 1
  for (int i = 0; i < p.stages_of_slice; i++) {
    mbarrier_wait_asm_loop(r.full(), r.at.phase);
    const uint64_t w = tile_descriptor(r.data() + warpgroup * 64 * ROW_BYTES, GROUP_BYTES, 16);
    const uint64_t x = tile_descriptor(r.data() + W_BYTES, GROUP_BYTES, 16);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STAGE_INPUTS / 16; step++)
      wgmma<T, N>::run_ss(acc, w + descriptor_step(step * 32), x + descriptor_step(step * 32), i > 0 || step > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (read && threadIdx.x % 32 == 0) mbarrier_arrive(read);
    read = r.empty();
    r.advance();
  }
  wgmma_wait<0>();
  pin(acc);
  if (threadIdx.x % 32 == 0) mbarrier_arrive(read);
}

template <typename T, int N>
__device__ __forceinline__ void store(const yk_plain_gemm &g, int64_t column0, int64_t row0,
                                      const float (&acc)[N / 8][4])
{
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < N / 8 * 4; i++) {
    const int64_t column = column0 + lane / 4 + i % 4 / 2 * 8, row = row0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row >= g.m || column >= g.n) continue;
    if (g.y_dtype == YK_F32)
      static_cast<float *>(g.y)[row * g.y_stride + column] = acc[i / 4][i % 4];
    else
      static_cast<T *>(g.y)[row * g.y_stride + column] = from_float<T>(acc[i / 4][i % 4]);
  }
}

template <typename T, int N> __device__ __forceinline__ void consume(const wgmma_plain_params &p, plain_ring r)
{
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32 % 4;
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    const int64_t column0 = tile / p.row_tiles * COLUMNS + warpgroup * 64 + warp * 16, row0 = tile % p.row_tiles * N;
    pending_sums<N / 8, false> pending;
#pragma unroll 1
    for (int slice = 0, stage = 0; stage < p.stages_of_k; slice++) {
      float acc[N / 8][4]; /* new variables: wgmma would be serialised if other instructions wrote their registers */
      multiply_slice<T, N>(p, r, warpgroup, acc);
      stage += p.stages_of_slice;
      pending.add(slice, stage >= p.stages_of_k, acc);
      if (stage >= p.stages_of_k) store<T, N>(p.gemm, column0, row0, acc);
    }
  }
}
#endif

template <typename T, int N>
__global__ void __launch_bounds__(THREADS, 1)
    sliced_plain_wgmma_kernel(const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap x_map,
                              const __grid_constant__ wgmma_plain_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[plain_ring::BARRIERS];
  const plain_ring r(shared_address(shared), shared_address(barriers), STAGES<N>, STAGE_BYTES<N>);
  if (threadIdx.x == 0) {
    r.init(1, WARPGROUPS * 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= WARPGROUPS * 128) {
    lower_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x == WARPGROUPS * 128) produce<N>(&w_map, &x_map, p, r);
  } else {
    raise_registers<CONSUMER_REGISTERS>();
    consume<T, N>(p, r);
  }
#endif
}

template <typename T, int N>
cudaError_t launch(const yk_gemm_gpu &gpu, const yk_plain_gemm &g, int k_slices, cudaStream_t stream)
{
  CUtensorMap w_map, x_map;
  cudaError_t error = encode_matrix<T>(gpu.encode_tensor_map, g.w, g.k, g.n, g.k, COLUMNS, &w_map);
  if (error == cudaSuccess) error = encode_matrix<T>(gpu.encode_tensor_map, g.x, g.k, g.m, g.k, N, &x_map);
  if (error != cudaSuccess) return error;
  const int stages = static_cast<int>(ceil_div(g.k, STAGE_INPUTS)), row_tiles = static_cast<int>(ceil_div(g.m, N));
  const int tiles = row_tiles * static_cast<int>(ceil_div(g.n, COLUMNS));
  const wgmma_plain_params p = {g, row_tiles, tiles, stages, stages / k_slices};
  const auto kernel = sliced_plain_wgmma_kernel<T, N>;
  constexpr int BYTES = STAGES<N> * STAGE_BYTES<N>;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(std::min(tiles, gpu.n_multiprocessors)));
  return launch_dependent(kernel, {grid, THREADS, BYTES, 1}, stream, w_map, x_map, p);
}

} // namespace

bool sliced_plain_wgmma_takes(const yk_gemm_gpu &gpu, const yk_plain_gemm &gemm)
{
  return gpu.path == YK_GEMM_WGMMA && gemm.m > FEW_ROWS;
}

cudaError_t sliced_plain_wgmma_launch(const yk_gemm_gpu &gpu, const yk_plain_gemm &gemm, int k_slices,
                                      cudaStream_t stream)
{
  return with_act_type(gemm.dtype, [&](auto type) {
    using T = decltype(type);
    return gemm.m <= 64    ? launch<T, 64>(gpu, gemm, k_slices, stream)
           : gemm.m <= 128 ? launch<T, 128>(gpu, gemm, k_slices, stream)
                           : launch<T, 256>(gpu, gemm, k_slices, stream);
  });
}

} // namespace yk_gemm
