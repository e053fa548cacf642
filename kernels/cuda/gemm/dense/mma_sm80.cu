/* mma_sm80.cu - WNA16 GEMM for compute capability 8.0 and later, by mma.sync m16n8k16.
 *
 *   tile    a thread block has 128 columns of W by 16 or 64 tokens, each of its four warps two panels of 16 columns
 *   loads   every thread, by cp.async into a ring of three stages of one K tile each: x and panels
 *   K       split among blocks (split-K, grid dimension z) if the tiles alone do not fill the GPU; partial sums go to
 *           the workspace, and a second kernel adds them in order and runs the epilogue */
#include "kernels/cuda/gemm/dense/mma_sm80.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_gemm {
namespace {

constexpr int THREADS = 128;
constexpr int STAGES = 3;
constexpr int PANELS = 8;                      /* panels per block, two per warp */
constexpr int TILE_M = PANELS * PANEL_COLUMNS; /* columns of W of a block */
constexpr int X_ROW_BYTES = TILE_K * 2;        /* one token of a stage */
constexpr int MAX_SPLITS = 16;

struct mma_params {
  const uint8_t *packed;
  const float *row_scales; /* NULL for an encoding without */
  const void *bias, *x;
  void *y;
  float *partial; /* [split][m][rows_padded], NULL without a split */
  int64_t m, k, n, rows_padded;
  int k_tiles, panels, groups, panel_bytes, splits;
  yk_activation activation;
  int64_t y_stride; /* elements between rows of float32 results; others are contiguous */
};

/* Issues cp.async for one stage: TOKENS rows of x, whose 16-byte pieces are permuted within the row (swizzle) so that
 * ldmatrix has no bank conflicts, then PANELS panels. Elements past m, k or the last panel are filled with zeros. */
template <int TOKENS>
__device__ __forceinline__ void load_stage(const mma_params &p, uint32_t stage, int64_t token0, int k_tile)
{
  const uint8_t *x = static_cast<const uint8_t *>(p.x);
  for (int i = threadIdx.x; i < TOKENS * (X_ROW_BYTES / 16); i += THREADS) {
    int token = i / 16, piece = i % 16;
    int64_t k = static_cast<int64_t>(k_tile) * TILE_K + piece * 8;
    bool valid = token0 + token < p.m && k < p.k;
    const uint8_t *from = valid ? x + ((token0 + token) * p.k + k) * 2 : x;
    cp_async_16(stage + token * X_ROW_BYTES + ((piece ^ (token & 7)) * 16), from, valid);
  }
  uint32_t weights = stage + TOKENS * X_ROW_BYTES;
  int panel = blockIdx.x * PANELS, bytes = min(PANELS, p.panels - panel) * p.panel_bytes;
  const uint8_t *from = p.packed + (static_cast<int64_t>(k_tile) * p.panels + panel) * p.panel_bytes;
  for (int at = threadIdx.x * 16; at < PANELS * p.panel_bytes; at += THREADS * 16)
    cp_async_16(weights + at, at < bytes ? from + at : from, at < bytes);
}

/* A lane's packed words of a quarter of a K tile (two k16 steps): two words of 4 bits, in .x and .y, or four of 8
 * bits. */
template <yk_gemm_encoding ENCODING>
__device__ __forceinline__ uint4 load_words(const uint8_t *panel, int quarter, int lane)
{
  if constexpr (yk_gemm_traits(ENCODING).bits == 8)
    return *reinterpret_cast<const uint4 *>(panel + quarter * PANEL_LOAD_BYTES + lane * LANE_BYTES);
  const uint8_t *from = panel + quarter / 2 * PANEL_LOAD_BYTES + lane * LANE_BYTES + quarter % 2 * 8;
  uint2 words = *reinterpret_cast<const uint2 *>(from);
  return make_uint4(words.x, words.y, 0, 0);
}

/* acc += one stage, of the warp's two panels; acc[panel][group of 8 tokens] is a fragment. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int TOKENS>
__device__ __forceinline__ void multiply_stage(const mma_params &p, const uint8_t *stage, uint32_t stage_address,
                                               float (&acc)[2][TOKENS / 8][4])
{
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint8_t *weights = stage + TOKENS * X_ROW_BYTES;
  /* Lane i gives ldmatrix the address of row i%8 of matrix i/8: tokens +0, +0, +8, +8, inputs +0, +8, +0, +8. */
  int token = lane % 8 + lane / 16 * 8, piece0 = lane / 8 % 2;
#pragma unroll
  for (int quarter = 0; quarter < 4; quarter++) { /* 32 inputs: in one group, or in two of 4-bit floats */
    dequant<ENCODING, DTYPE> scales[2];
    uint4 words[2];
#pragma unroll
    for (int panel = 0; panel < 2; panel++)
      words[panel] = load_words<ENCODING>(weights + (warp * 2 + panel) * p.panel_bytes, quarter, lane);
#pragma unroll
    for (int step = 0; step < 2; step++) {
      uint32_t a[2][4];
      for (int panel = 0; panel < 2; panel++) {
        if (step == 0 || has_groups(ENCODING, 8))
          load_scales(scales[panel], weights + (warp * 2 + panel) * p.panel_bytes, quarter * 2 + step, p.groups, lane);
        scales[panel].expand(words[panel], step, a[panel]);
      }
#pragma unroll
      for (int pair = 0; pair < TOKENS / 16; pair++) {
        uint32_t b[4];
        int row = pair * 16 + token, piece = (quarter * 2 + step) * 2 + piece0;
        ldmatrix_x4(b, stage_address + row * X_ROW_BYTES + ((piece ^ (row & 7)) * 16));
        for (int panel = 0; panel < 2; panel++) {
          mma<DTYPE>(acc[panel][pair * 2], a[panel], b[0], b[1]);
          mma<DTYPE>(acc[panel][pair * 2 + 1], a[panel], b[2], b[3]);
        }
      }
    }
  }
}

template <yk_dtype DTYPE> __device__ __forceinline__ void store_rounded(const mma_params &p, int64_t at, float value)
{
  static_cast<uint16_t *>(p.y)[at] = static_cast<uint16_t>(round_pair<element<DTYPE>>(value, 0.0f));
}

/* Results of one packed row as float32, without bias. token: of the first of each 8 tokens' two. */
template <int VALUES>
__device__ __forceinline__ void store_floats(const mma_params &p, int64_t token, int64_t column,
                                             const float (&acc)[VALUES])
{
  if (column >= p.n) return;
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const int64_t at = token + i / 2 * 8 + i % 2;
    if (at < p.m) static_cast<float *>(p.y)[at * p.y_stride + column] = acc[i];
  }
}

template <yk_dtype DTYPE> __device__ __forceinline__ float bias_of(const mma_params &p, int64_t column)
{
  return p.bias ? load_float<DTYPE>(p.bias, column) : 0.0f;
}

/* Epilogue of accumulators of one packed row: bias, rounding. token: of the first of each 8 tokens' two. */
template <yk_dtype DTYPE, int VALUES>
__device__ __forceinline__ void store_row(const mma_params &p, int64_t token, int64_t row, const float (&acc)[VALUES])
{
  const int64_t column = column_of_row(row, p.n, false);
  if (column >= p.n) return;
  const float bias = bias_of<DTYPE>(p, column);
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const int64_t at = token + i / 2 * 8 + i % 2;
    if (at < p.m) store_rounded<DTYPE>(p, at * p.n + column, acc[i] + bias);
  }
}

/* The same for a gate and its up, with the gated activation. row: the gate's packed row. */
template <yk_dtype DTYPE, int VALUES>
__device__ __forceinline__ void store_gated(const mma_params &p, int64_t token, int64_t row, float (&gate)[VALUES],
                                            float (&up)[VALUES])
{
  const int64_t width = p.n / 2, column = column_of_row(row, p.n, true);
  if (column >= width) return;
  const float bias = bias_of<DTYPE>(p, column), up_bias = bias_of<DTYPE>(p, width + column);
#pragma unroll
  for (int i = 0; i < VALUES; i++) gate[i] += bias, up[i] += up_bias;
  yk_cuda::gate_pairs(p.activation, gate, up);
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const int64_t at = token + i / 2 * 8 + i % 2;
    if (at < p.m) store_rounded<DTYPE>(p, at * width + column, gate[i]);
  }
}

/* The partial sums of rows `row` and row + 8 of a thread block's K range. */
template <int VALUES>
__device__ __forceinline__ void store_partial(const mma_params &p, int64_t token, int64_t row,
                                              const float (&lower)[VALUES], const float (&upper)[VALUES])
{
#pragma unroll
  for (int i = 0; i < VALUES; i++) {
    const int64_t at = token + i / 2 * 8 + i % 2;
    if (at >= p.m) continue;
    float *to = p.partial + (blockIdx.z * p.m + at) * p.rows_padded + row;
    to[0] = lower[i];
    to[8] = upper[i];
  }
}

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT, int TOKENS>
__global__ void __launch_bounds__(THREADS) mma_kernel(mma_params p)
{
  extern __shared__ __align__(128) uint8_t shared[];
  uint32_t memory = shared_address(shared);
  int stage_bytes = TOKENS * X_ROW_BYTES + PANELS * p.panel_bytes;
  int64_t token0 = static_cast<int64_t>(blockIdx.y) * TOKENS;
  int first = static_cast<int>(static_cast<int64_t>(p.k_tiles) * blockIdx.z / p.splits);
  int last = static_cast<int>(static_cast<int64_t>(p.k_tiles) * (blockIdx.z + 1) / p.splits);

  float acc[2][TOKENS / 8][4] = {};
  for (int i = 0; i < STAGES - 1; i++) {
    if (first + i < last) load_stage<TOKENS>(p, memory + i * stage_bytes, token0, first + i);
    cp_async_commit();
  }
  for (int k_tile = first, stage = 0; k_tile < last; k_tile++, stage = (stage + 1) % STAGES) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    int next = (stage + STAGES - 1) % STAGES;
    if (k_tile + STAGES - 1 < last) load_stage<TOKENS>(p, memory + next * stage_bytes, token0, k_tile + STAGES - 1);
    cp_async_commit();
    multiply_stage<ENCODING, DTYPE, TOKENS>(p, shared + stage * stage_bytes, memory + stage * stage_bytes, acc);
  }

  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int panel = 0; panel < 2; panel++) {
    int64_t row = static_cast<int64_t>(blockIdx.x) * TILE_M + (warp * 2 + panel) * PANEL_COLUMNS + lane / 4;
    if constexpr (has_row_scales(ENCODING))
      scale_rows(load_row_scales(p.row_scales, min(blockIdx.x * PANELS + warp * 2 + panel, p.panels - 1), lane),
                 acc[panel]);
    float lower[TOKENS / 4], upper[TOKENS / 4]; /* [8 tokens][2 tokens] */
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) lower[i] = acc[panel][i / 2][i % 2], upper[i] = acc[panel][i / 2][2 + i % 2];
    const int64_t token = token0 + lane % 4 * 2;
    if (p.partial) {
      store_partial(p, token, row, lower, upper);
    } else if constexpr (RESULT == YK_F32) {
      store_floats(p, token, row, lower);
      store_floats(p, token, row + 8, upper);
    } else if (p.activation.is_gated) {
      store_gated<DTYPE>(p, token, row, lower, upper);
    } else {
      store_row<DTYPE>(p, token, row, lower);
      store_row<DTYPE>(p, token, row + 8, upper);
    }
  }
}

/* Split-K reduction: adds the partial sums of the splits in order and runs the epilogue, one thread per result. */
template <yk_dtype DTYPE, yk_dtype RESULT> __global__ void __launch_bounds__(256) reduce_kernel(mma_params p)
{
  int64_t width = p.activation.is_gated ? p.n / 2 : p.n;
  int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= p.m * width) return;
  int64_t token = i / width, column = i % width;
  int64_t row = p.activation.is_gated ? column / 8 * 16 + column % 8 : column;
  float lower[1] = {}, upper[1] = {};
  for (int split = 0; split < p.splits; split++) {
    const float *from = p.partial + (split * p.m + token) * p.rows_padded + row;
    lower[0] += from[0];
    if (p.activation.is_gated) upper[0] += from[8];
  }
  if constexpr (RESULT == YK_F32)
    store_floats(p, token, row, lower);
  else if (p.activation.is_gated)
    store_gated<DTYPE>(p, token, row, lower, upper);
  else
    store_row<DTYPE>(p, token, row, lower);
}

/* Tile N. */
int tokens_per_block(int64_t m)
{
  return m <= 16 ? 16 : 64;
}

/* Dynamic shared memory of a thread block: the ring of stages. */
int shared_bytes(int tokens, int bytes_of_panel)
{
  return STAGES * (tokens * X_ROW_BYTES + PANELS * bytes_of_panel);
}

/* Number of K splits for about two blocks per multiprocessor, each with at least two K tiles. */
int n_splits(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  int64_t blocks = ceil_div(n_panels(desc), PANELS) * ceil_div(m, tokens_per_block(m));
  int64_t most = std::min<int64_t>(MAX_SPLITS, std::max<int64_t>(1, n_k_tiles(desc) / 2));
  return static_cast<int>(std::clamp<int64_t>(2 * gpu.n_multiprocessors / blocks, 1, most));
}

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT>
cudaError_t launch(const mma_params &p, int64_t m, cudaStream_t stream)
{
  int tokens = tokens_per_block(m);
  dim3 grid(static_cast<unsigned>(p.rows_padded / TILE_M), static_cast<unsigned>(ceil_div(m, tokens)),
            static_cast<unsigned>(p.splits));
  int bytes = shared_bytes(tokens, p.panel_bytes);
  if (tokens == 16)
    mma_kernel<ENCODING, DTYPE, RESULT, 16><<<grid, THREADS, bytes, stream>>>(p);
  else
    mma_kernel<ENCODING, DTYPE, RESULT, 64><<<grid, THREADS, bytes, stream>>>(p);
  if (p.partial) {
    int64_t results = m * (p.activation.is_gated ? p.n / 2 : p.n);
    reduce_kernel<DTYPE, RESULT><<<static_cast<unsigned>(ceil_div(results, 256)), 256, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

} // namespace

/* More tokens have fewer splits, so m_max need not be the worst case: takes the maximum over all numbers of token
 * tiles, each with its largest number of tokens. */
size_t mma_sm80_workspace_bytes(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m_max)
{
  int64_t rows = ceil_div(n_panels(desc), PANELS) * TILE_M, most = 0;
  for (int64_t tiles = 0; tiles <= ceil_div(m_max, 64); tiles++) {
    int64_t m = tiles == 0 ? std::min<int64_t>(16, m_max) : std::min(tiles * 64, m_max);
    int splits = n_splits(gpu, desc, m);
    if (splits > 1) most = std::max(most, splits * m * rows * 4);
  }
  return static_cast<size_t>(most);
}

cudaError_t mma_sm80_init()
{
  for (const kernel_types &t : DENSE_KERNEL_TYPES) {
    cudaError_t error = with_types(t, [](auto types) {
      constexpr int MOST_GROUPS = has_groups(types.ENCODING, 8) ? 8 : 4;
      const int most = shared_bytes(64, panel_layout<types.ENCODING, MOST_GROUPS>::BYTES);
      cudaError_t few = cudaFuncSetAttribute(mma_kernel<types.ENCODING, types.DTYPE, types.RESULT, 16>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, most);
      cudaError_t many = cudaFuncSetAttribute(mma_kernel<types.ENCODING, types.DTYPE, types.RESULT, 64>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, most);
      cudaFuncAttributes unused;
      cudaError_t reduce =
          cudaFuncGetAttributes(&unused, reinterpret_cast<const void *>(reduce_kernel<types.DTYPE, types.RESULT>));
      return few != cudaSuccess ? few : many != cudaSuccess ? many : reduce;
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t mma_sm80_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_gemm_call &call,
                             cudaStream_t stream)
{
  mma_params p = {};
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.row_scales = row_scales_of(desc, call.packed);
  p.bias = call.bias;
  p.x = call.x;
  p.y = call.y;
  p.m = call.m;
  p.k = desc.k;
  p.n = desc.n;
  p.rows_padded = ceil_div(n_panels(desc), PANELS) * TILE_M;
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.groups = groups_per_k_tile(desc);
  p.panels = static_cast<int>(n_panels(desc));
  p.panel_bytes = panel_bytes(desc);
  p.splits = n_splits(gpu, desc, call.m);
  p.partial = p.splits > 1 ? static_cast<float *>(call.workspace) : nullptr;
  p.activation = desc.activation;
  p.y_stride = call.y_stride;
  return with_types(types_of(desc),
                    [&](auto types) { return launch<types.ENCODING, types.DTYPE, types.RESULT>(p, call.m, stream); });
}

} // namespace yk_gemm
