/* mma_sm80.cu - grouped GEMM for compute capability 8.0 and later, by mma.sync m16n8k16, of packed weights or of plain
 * 16-bit ones.
 *
 *   block   128 columns of W by 16 or 64 rows of one matrix; each of its four warps has two panels of 16 columns. There
 *           are as many blocks as the maximum number of row tiles; those past the last tile end at once
 *   loads   every thread, by cp.async into a ring of stages of one K tile each: rows of x and weights
 *
 * Plain weights have the order of packed weights in shared memory, so that a panel is 8 gates and their 8 ups. */
#include "kernels/cuda/gemm/grouped/params.cuh"

#include <algorithm>

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_gemm {
namespace {

constexpr int THREADS = 128;
constexpr int PANELS = 8;                      /* panels per block, two per warp */
constexpr int TILE_M = PANELS * PANEL_COLUMNS; /* columns of W of a block */
constexpr int ROW_BYTES = TILE_K * 2;          /* a row of x, or of plain weights, in a stage */

struct sm80_params {
  yk_grouped_call call;
  int64_t k, n;
  int k_tiles, panels, groups, panel_bytes;
  int64_t row_scales_at; /* offset of the row scales, in bytes from a matrix's first panel */
  yk_activation activation;
  bool whole_pieces; /* k is a multiple of 8: rows are copied in pieces of 16 bytes */
};

/* Kind of weights: packed in an encoding of yk_gemm_encoding, or plain. */
constexpr int PLAIN = -1;
constexpr int N_WEIGHT_KINDS = YK_GEMM_N_ENCODINGS + 1;

/* A row tile of one matrix. */
struct row_tile {
  int matrix, first_slot, rows;
};

__host__ __device__ constexpr int n_stages(int weights)
{
  const bool is_small = weights != PLAIN && yk_gemm_traits(static_cast<yk_gemm_encoding>(weights)).bits == 4;
  return is_small ? 3 : 2; /* limited by the shared memory of compute capability 8.6 */
}

__host__ __device__ inline int weight_bytes_of_stage(int weights, int panel_bytes)
{
  return weights == PLAIN ? TILE_M * ROW_BYTES : PANELS * panel_bytes;
}

/* One piece of 8 inputs; zeros past k or if the row is missing. */
__device__ __forceinline__ void load_piece(const sm80_params &p, uint32_t to, const uint16_t *row, int64_t k)
{
  const bool valid = row && k < p.k;
  if (p.whole_pieces) {
    cp_async_16(to, valid ? row + k : p.call.x, valid);
    return;
  }
  uint32_t words[4] = {};
  for (int i = 0; i < 8; i++)
    if (row && k + i < p.k) words[i / 2] |= static_cast<uint32_t>(row[k + i]) << (i % 2 * 16);
  store_shared16(to, make_uint4(words[0], words[1], words[2], words[3]));
}

/* Offset of a piece within rows of a K tile: permuted within the row (swizzle), so that ldmatrix has no bank
 * conflicts. */
__device__ __forceinline__ uint32_t piece_at(int row, int piece)
{
  return row * ROW_BYTES + ((piece ^ (row & 7)) * 16);
}

/* rows: row of x for each row of the tile. */
template <int TOKENS, int WEIGHTS>
__device__ __forceinline__ void load_stage(const sm80_params &p, uint32_t stage, const row_tile &tile, const int *rows,
                                           int k_tile)
{
  const uint16_t *x = static_cast<const uint16_t *>(p.call.x);
  const uint8_t *matrix = static_cast<const uint8_t *>(p.call.weights) + tile.matrix * p.call.matrix_bytes;
  const int64_t k0 = static_cast<int64_t>(k_tile) * TILE_K;
  for (int i = threadIdx.x; i < TOKENS * (ROW_BYTES / 16); i += THREADS) {
    const int row = i / 16;
    load_piece(p, stage + piece_at(row, i % 16), row < tile.rows ? x + rows[row] * p.k : nullptr, k0 + i % 16 * 8);
  }
  const uint32_t weights = stage + TOKENS * ROW_BYTES;
  if constexpr (WEIGHTS != PLAIN) {
    const int panel = blockIdx.x * PANELS, bytes = min(PANELS, p.panels - panel) * p.panel_bytes;
    const uint8_t *from = matrix + (static_cast<int64_t>(k_tile) * p.panels + panel) * p.panel_bytes;
    for (int at = threadIdx.x * 16; at < PANELS * p.panel_bytes; at += THREADS * 16)
      cp_async_16(weights + at, at < bytes ? from + at : from, at < bytes);
  } else {
    for (int i = threadIdx.x; i < TILE_M * (ROW_BYTES / 16); i += THREADS) {
      const int64_t column =
          column_of_row(static_cast<int64_t>(blockIdx.x) * TILE_M + i / 16, p.n, p.activation.is_gated);
      const uint16_t *row = column < p.n ? reinterpret_cast<const uint16_t *>(matrix) + column * p.k : nullptr;
      load_piece(p, weights + piece_at(i / 16, i % 16), row, k0 + i % 16 * 8);
    }
  }
}

/* The A fragments of a warp's panel for the two steps of a quarter of a K tile: 32 inputs, in one group, or in two of
 * 4-bit floats. */
template <yk_dtype DTYPE, int WEIGHTS>
__device__ __forceinline__ void load_a(const sm80_params &p, const uint8_t *weights, uint32_t address, int panel,
                                       int quarter, uint32_t (&a)[2][4])
{
  const int lane = threadIdx.x % 32;
  if constexpr (WEIGHTS != PLAIN) {
    constexpr yk_gemm_encoding ENCODING = static_cast<yk_gemm_encoding>(WEIGHTS);
    /* QUARTER_BYTES: per lane */
    constexpr int SCALES = YK_GEMM_PANEL_WEIGHT_BYTES(ENCODING), QUARTER_BYTES = SCALES / 4 / 32;
    constexpr int LOAD_QUARTERS = LANE_BYTES / QUARTER_BYTES;
    const uint8_t *from = weights + panel * p.panel_bytes;
    dequant<ENCODING, DTYPE> scales;
    load_scales(scales, from, quarter * 2, p.groups, lane);
    from += quarter / LOAD_QUARTERS * PANEL_LOAD_BYTES + lane * LANE_BYTES + quarter % LOAD_QUARTERS * QUARTER_BYTES;
    uint4 words = {};
    if constexpr (QUARTER_BYTES == LANE_BYTES) {
      words = *reinterpret_cast<const uint4 *>(from);
    } else {
      const uint2 half = *reinterpret_cast<const uint2 *>(from);
      words = make_uint4(half.x, half.y, 0, 0);
    }
    scales.expand(words, 0, a[0]);
    if constexpr (has_groups(ENCODING, 8))
      load_scales(scales, weights + panel * p.panel_bytes, quarter * 2 + 1, p.groups, lane);
    scales.expand(words, 1, a[1]);
  } else {
    for (int step = 0; step < 2; step++)
      ldmatrix_x4(a[step], address + piece_at(panel * PANEL_COLUMNS + lane % 16, (quarter * 2 + step) * 2 + lane / 16));
  }
}

/* acc[panel][8 rows][4] += one stage. */
template <yk_dtype DTYPE, int TOKENS, int WEIGHTS>
__device__ __forceinline__ void multiply_stage(const sm80_params &p, const uint8_t *stage, uint32_t address,
                                               float (&acc)[2][TOKENS / 8][4])
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  /* Lane i gives ldmatrix the address of row i%8 of matrix i/8: rows +0, +0, +8, +8, inputs +0, +8, +0, +8. */
  const int row0 = lane % 8 + lane / 16 * 8, piece0 = lane / 8 % 2;
#pragma unroll
  for (int quarter = 0; quarter < 4; quarter++) {
    uint32_t a[2][2][4];
    for (int panel = 0; panel < 2; panel++)
      load_a<DTYPE, WEIGHTS>(p, stage + TOKENS * ROW_BYTES, address + TOKENS * ROW_BYTES, warp * 2 + panel, quarter,
                             a[panel]);
#pragma unroll
    for (int step = 0; step < 2; step++) {
#pragma unroll
      for (int pair = 0; pair < TOKENS / 16; pair++) {
        uint32_t b[4];
        ldmatrix_x4(b, address + piece_at(pair * 16 + row0, (quarter * 2 + step) * 2 + piece0));
        for (int panel = 0; panel < 2; panel++) {
          mma<DTYPE>(acc[panel][pair * 2], a[panel][step], b[0], b[1]);
          mma<DTYPE>(acc[panel][pair * 2 + 1], a[panel][step], b[2], b[3]);
        }
      }
    }
  }
}

/* Epilogue of two accumulators, for rows row and row + 8 of a panel: gate and up, or two columns. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void store(const sm80_params &p, const row_tile &tile, int token, int64_t row, float lower,
                                      float upper)
{
  if (token >= tile.rows) return;
  const void *bias =
      p.call.bias ? static_cast<const uint8_t *>(p.call.bias) + tile.matrix * p.call.matrix_bytes : nullptr;
  const int64_t width = p.activation.is_gated ? p.n / 2 : p.n;
  uint16_t *y = static_cast<uint16_t *>(p.call.y) + (tile.first_slot + token) * width;
  float results[2] = {lower, upper};
  for (int i = 0; i < 2; i++) {
    const int64_t column = column_of_row(row + 8 * i, p.n, p.activation.is_gated);
    if (bias && column < p.n)
      results[i] +=
          p.call.bias_dtype == YK_F32 ? static_cast<const float *>(bias)[column] : load_float<DTYPE>(bias, column);
    if (!p.activation.is_gated && column < p.n)
      y[column] = static_cast<uint16_t>(round_pair<element<DTYPE>>(results[i], 0.0f));
  }
  const int64_t column = column_of_row(row, p.n, p.activation.is_gated);
  if (p.activation.is_gated && column < width)
    y[column] =
        static_cast<uint16_t>(round_pair<element<DTYPE>>(yk_cuda::gated(p.activation, results[0], results[1]), 0.0f));
}

template <yk_dtype DTYPE, int TOKENS, int WEIGHTS>
__global__ void __launch_bounds__(THREADS) grouped_mma_kernel(const __grid_constant__ sm80_params p)
{
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ int rows[TOKENS];
  __shared__ row_tile own;
  constexpr int STAGES = n_stages(WEIGHTS);
  const uint32_t memory = shared_address(shared);
  const int stage_bytes = TOKENS * ROW_BYTES + weight_bytes_of_stage(WEIGHTS, p.panel_bytes);
  const grouped_table table = grouped_table_at(shared + STAGES * stage_bytes, p.call.n_matrices);
  if (threadIdx.x < 32) build_grouped_table<TOKENS>(table, p.call.starts, p.call.n_matrices);
  __syncthreads();
  const int wanted = blockIdx.y;
  if (wanted >= table.size->y) return;
  for (int i = threadIdx.x; i < table.size->x; i += THREADS) {
    const grouped_entry e = table.entries[i];
    if (wanted < e.first_tile || wanted >= table.entries[i + 1].first_tile) continue;
    const int slot = e.first_slot + (wanted - e.first_tile) * TOKENS;
    own = {e.matrix, slot, min(TOKENS, e.end_slot - slot)};
  }
  __syncthreads();
  const row_tile tile = own;
  for (int i = threadIdx.x; i < tile.rows; i += THREADS)
    rows[i] = p.call.row_of_slot ? p.call.row_of_slot[tile.first_slot + i] : tile.first_slot + i;
  __syncthreads();

  float acc[2][TOKENS / 8][4] = {};
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < p.k_tiles) load_stage<TOKENS, WEIGHTS>(p, memory + i * stage_bytes, tile, rows, i);
    cp_async_commit();
  }
  for (int k_tile = 0, stage = 0; k_tile < p.k_tiles; k_tile++, stage = (stage + 1) % STAGES) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    const int next = (stage + STAGES - 1) % STAGES;
    if (k_tile + STAGES - 1 < p.k_tiles)
      load_stage<TOKENS, WEIGHTS>(p, memory + next * stage_bytes, tile, rows, k_tile + STAGES - 1);
    cp_async_commit();
    multiply_stage<DTYPE, TOKENS, WEIGHTS>(p, shared + stage * stage_bytes, memory + stage * stage_bytes, acc);
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int panel = 0; panel < 2; panel++) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * TILE_M + (warp * 2 + panel) * PANEL_COLUMNS + lane / 4;
    if constexpr (WEIGHTS != PLAIN && has_row_scales(static_cast<yk_gemm_encoding>(WEIGHTS))) {
      const float *row_scales = reinterpret_cast<const float *>(static_cast<const uint8_t *>(p.call.weights) +
                                                                tile.matrix * p.call.matrix_bytes + p.row_scales_at);
      scale_rows(load_row_scales(row_scales,
                                 min(static_cast<int>(blockIdx.x) * PANELS + warp * 2 + panel, p.panels - 1), lane),
                 acc[panel]);
    }
#pragma unroll
    for (int block = 0; block < TOKENS / 8; block++) {
#pragma unroll
      for (int i = 0; i < 2; i++)
        store<DTYPE>(p, tile, block * 8 + lane % 4 * 2 + i, row, acc[panel][block][i], acc[panel][block][2 + i]);
    }
  }
}

template <yk_dtype DTYPE, int WEIGHTS> const void *kernel_of(int tokens)
{
  return tokens == 16 ? reinterpret_cast<const void *>(grouped_mma_kernel<DTYPE, 16, WEIGHTS>)
                      : reinterpret_cast<const void *>(grouped_mma_kernel<DTYPE, 64, WEIGHTS>);
}

const void *kernel_of(yk_dtype dtype, int weights, int tokens)
{
  if (weights == PLAIN) return dtype == YK_F16 ? kernel_of<YK_F16, PLAIN>(tokens) : kernel_of<YK_BF16, PLAIN>(tokens);
  return with_types(static_cast<yk_gemm_encoding>(weights), dtype,
                    [=](auto types) { return kernel_of<types.DTYPE, types.ENCODING>(tokens); });
}

int shared_bytes(int weights, int tokens, int panel_bytes, int n_matrices)
{
  return n_stages(weights) * (tokens * ROW_BYTES + weight_bytes_of_stage(weights, panel_bytes)) +
         grouped_table_bytes(n_matrices);
}

} // namespace

/* A kernel may use the GPU's maximum; a launch requests what its table needs. */
cudaError_t grouped_sm80_init()
{
  int device = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  for (int i = 0; i < 4 * N_WEIGHT_KINDS && error == cudaSuccess; i++) {
    const void *kernel = kernel_of(i & 1 ? YK_BF16 : YK_F16, i / 4 + PLAIN, i & 2 ? 16 : 64);
    cudaFuncAttributes code;
    error = cudaFuncGetAttributes(&code, kernel);
    if (error != cudaSuccess) break;
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most - static_cast<int>(code.sharedSizeBytes));
  }
  return error;
}

cudaError_t grouped_sm80_forward(const yk_gemm_desc &desc, bool is_packed, const yk_grouped_call &call,
                                 cudaStream_t stream)
{
  sm80_params p = {};
  p.call = call;
  p.k = desc.k;
  p.n = desc.n;
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.panels = static_cast<int>(desc.activation.is_gated ? ceil_div(desc.n / 2, 8) : n_panels(desc));
  p.groups = is_packed ? groups_per_k_tile(desc) : 0;
  p.panel_bytes = is_packed ? panel_bytes(desc) : 0;
  p.row_scales_at = yk_gemm_panels_bytes(&desc);
  p.activation = desc.activation;
  p.whole_pieces = desc.k % 8 == 0;
  const int weights = is_packed ? desc.encoding : PLAIN;
  const int tokens = call.max_slots <= 16 * static_cast<int64_t>(call.n_matrices) ? 16 : 64;
  const int64_t tiles = std::min(call.max_slots, call.n_matrices + call.max_slots / tokens);
  const dim3 grid(static_cast<unsigned>(ceil_div(p.panels, PANELS)), static_cast<unsigned>(tiles));
  void *args[] = {&p};
  return cudaLaunchKernel(kernel_of(desc.dtype, weights, tokens), grid, dim3(THREADS), args,
                          static_cast<size_t>(shared_bytes(weights, tokens, p.panel_bytes, call.n_matrices)), stream);
}

} // namespace yk_gemm
