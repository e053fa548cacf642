/* head_products.cuh - the products of few rows with kv_b_proj: K[h]^T q_nope before the attention, V[h] times the
 * weighted sums after it. Both read each head's weights once for a tile of rows, multiply by mma.sync, and load the
 * weights before they wait for the preceding kernel. */
#ifndef YK_KERNELS_CUDA_LATENT_HEAD_PRODUCTS_CUH
#define YK_KERNELS_CUDA_LATENT_HEAD_PRODUCTS_CUH

#include <type_traits>

#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/params.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace yk_latent {

using namespace yk_ptx;

/* Rows in shared memory are padded by 16 bytes against bank conflicts of ldmatrix. */
constexpr int PAD = 8;

constexpr int FEW_QUERIES = 16, MANY_QUERIES = 64; /* queries of a tile of the attention kernels */

/* ---- queries = K[h]^T q_nope ------------------------------------------------------------------------------------- */

constexpr int ABSORB_ROWS = 64, ABSORB_COLUMNS = 128, ABSORB_K = HEAD_MULTIPLE, ABSORB_THREADS = 128;

struct absorb_shared {
  alignas(16) uint16_t w[2][ABSORB_K][ABSORB_COLUMNS + PAD];
  alignas(16) uint16_t q[2][ABSORB_ROWS][ABSORB_K + PAD];
};

/* Grid: heads x blocks of columns x tiles of rows. */
template <typename T> __global__ void __launch_bounds__(ABSORB_THREADS) absorb_kernel(const params p)
{
  extern __shared__ __align__(1024) char memory[];
  absorb_shared &s = *reinterpret_cast<absorb_shared *>(memory);
  const int head = blockIdx.x, first_column = blockIdx.y * ABSORB_COLUMNS, first_row = blockIdx.z * ABSORB_ROWS;
  const int n_rows = min(ABSORB_ROWS, p.n_rows - first_row), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int n_steps = p.layout.nope_dim / ABSORB_K;
  const T *w = static_cast<const T *>(p.kv_up) +
               static_cast<int64_t>(head) * (p.layout.nope_dim + p.layout.value_dim) * KV_RANK + first_column;
  const T *q = static_cast<const T *>(p.q) + static_cast<int64_t>(head) * (p.layout.nope_dim + ROPE_DIM);
  const auto load_w = [&](int step) {
    for (int i = threadIdx.x; i < ABSORB_K * ABSORB_COLUMNS / 8; i += ABSORB_THREADS) {
      const int k = i / (ABSORB_COLUMNS / 8), at = i % (ABSORB_COLUMNS / 8) * 8;
      cp_async_16(shared_address(&s.w[step % 2][k][at]), w + static_cast<int64_t>(step * ABSORB_K + k) * KV_RANK + at,
                  true);
    }
  };
  const auto load_q = [&](int step) {
    for (int i = threadIdx.x; i < ABSORB_ROWS * ABSORB_K / 8; i += ABSORB_THREADS) {
      const int row = i / (ABSORB_K / 8), at = i % (ABSORB_K / 8) * 8;
      cp_async_16(shared_address(&s.q[step % 2][row][at]),
                  q + step_row(p, first_row + (row < n_rows ? row : 0)) * p.q_stride + step * ABSORB_K + at,
                  row < n_rows);
    }
  };
  for (int step = 0; step < min(n_steps, 2); step++) load_w(step);
  wait_for_previous_kernel();
  let_next_kernel_start(); /* the cache is complete: the next kernel reads the cache before it waits */
  for (int step = 0; step < 2; step++) {
    if (step < n_steps) load_q(step);
    cp_async_commit();
  }
  float acc[ABSORB_ROWS / 16][4][4] = {};
  for (int step = 0; step < n_steps; step++) {
    cp_async_wait<1>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ABSORB_K; k += 16) {
      uint32_t b[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
        ldmatrix_x4_trans(b[j], shared_address(&s.w[step % 2][k + lane % 16][warp * 32 + j * 16 + lane / 16 * 8]));
#pragma unroll
      for (int m = 0; m < ABSORB_ROWS / 16; m++) {
        if (m * 16 >= n_rows) break;
        uint32_t a[4];
        ldmatrix_x4(a, shared_address(&s.q[step % 2][m * 16 + lane % 16][k + lane / 16 * 8]));
#pragma unroll
        for (int j = 0; j < 4; j++)
          mma_m16n8k16<T>(acc[m][j], a[0], a[1], a[2], a[3], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    if (step + 2 < n_steps) {
      __syncthreads(); /* the stage has been read */
      load_w(step + 2);
      load_q(step + 2);
    }
    cp_async_commit();
  }
#pragma unroll
  for (int m = 0; m < ABSORB_ROWS / 16; m++) {
    if (m * 16 >= n_rows) break;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = m * 16 + lane / 4 + 8 * e;
      T *to = static_cast<T *>(p.absorbed) +
              (static_cast<int64_t>(first_row + row) * p.layout.n_heads + head) * KV_RANK + first_column + warp * 32;
      yk_cuda::store_row<T>(to, acc[m], e, 1.0f, row < n_rows);
    }
  }
}

/* ---- y = V[h] sums ----------------------------------------------------------------------------------------------- */

constexpr int OUTPUT_COLUMNS = HEAD_MULTIPLE, OUTPUT_THREADS = 512, OUTPUT_WARPS = OUTPUT_THREADS / 32;
constexpr int OUTPUT_K = 128, OUTPUT_STEPS = KV_RANK / OUTPUT_K; /* columns of the sums of a stage of weights */

/* Shared memory for tiles of few rows. */
struct output_shared {
  static constexpr int ROWS = 16;
  alignas(16) uint16_t w[OUTPUT_STEPS][OUTPUT_COLUMNS][OUTPUT_K + PAD];
  alignas(16) uint16_t sums[ROWS][KV_RANK + PAD];

  /* Address of a row's sums from a column on, a multiple of 4. */
  __device__ uint32_t sums_at(int row, int column) const
  {
    return shared_address(&sums[row][column]);
  }
};

/* Shared memory for tiles of many rows, in the layout of wgmma: K-major in blocks of 64 columns with the 128-byte
 * swizzle. */
template <int COLUMNS> struct wide_output_shared {
  static constexpr int ROWS = 64, N_BLOCKS = KV_RANK / 64;
  alignas(1024) char w[N_BLOCKS][COLUMNS * 128];
  alignas(1024) char sums[N_BLOCKS][ROWS * 128];

  static __device__ uint32_t swizzled(int row, int column)
  {
    return row * 128 + ((column % 64 / 8 ^ row) & 7) * 16 + column % 8 * 2;
  }
  __device__ uint32_t sums_at(int row, int column) const
  {
    return shared_address(sums[column / 64]) + swizzled(row, column);
  }
};

/* Format of the partial results of a row and head from the kernel for QUERIES. Many queries: float sums of
 * probabilities times values. Few queries: the sums divided by the sum of the probabilities, in T as for unsplit
 * results, since fewer bytes shorten the critical path. A thread reads pieces of VALUES columns. */
template <typename T, int QUERIES> struct partial_sums {
  static constexpr bool ARE_MEANS = QUERIES == FEW_QUERIES;
  static constexpr int VALUES = ARE_MEANS ? 8 : 4, PIECES = KV_RANK / VALUES;
  using type = typename std::conditional<ARE_MEANS, T, float>::type;
  using piece = yk_cuda::vec<type, VALUES>;
};

/* Called by LANES threads, each with a share of the pieces: combines the partial results of one row and head into the
 * weighted sum, in the order of the thread blocks that wrote them. thread: number of this thread among them. */
template <typename T, int QUERIES, int LANES, typename SHARED>
__device__ void combine_row(SHARED &s, const params &p, const item_splits &of, int32_t row, int32_t head, int thread,
                            int to_row)
{
  using partial = partial_sums<T, QUERIES>;
  constexpr int VALUES = partial::VALUES, OWN = (partial::PIECES + LANES - 1) / LANES;
  constexpr int AT_ONCE = OWN == 4 ? 2 : 8 / OWN;
  const bool has_own = thread < partial::PIECES;
  const int32_t head_tile = p.n_head_tiles == 1 ? 0 : head / p.tile_heads;
  const int32_t n_heads = min(p.tile_heads, p.layout.n_heads - head_tile * p.tile_heads);
  const int32_t query = (row - of.first_row) * n_heads + head - head_tile * p.tile_heads;
  const auto *parts = reinterpret_cast<const typename partial::piece *>(p.partial_sums);
  float maximum = NO_SCORE, sum = 0.0f;
  float value[OWN][VALUES] = {};
  for (int first = 0; first < of.n; first += AT_ONCE) {
    float2 stats[AT_ONCE];
    typename partial::piece part[AT_ONCE][OWN];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const int split = first + i;
      const int64_t place =
          (static_cast<int64_t>(2 * (of.first_block + split) + (split == 0)) * p.n_head_tiles + head_tile) * QUERIES +
          query;
      const bool exists = split < of.n;
      stats[i] = exists ? p.partial_stats[place] : make_float2(NO_SCORE, 0.0f);
#pragma unroll
      for (int j = 0; j < OWN; j++) {
        part[i][j] = {};
        if (exists && has_own) part[i][j] = parts[place * partial::PIECES + thread + j * LANES];
      }
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const float top = fmaxf(maximum, stats[i].x);
      const float before = exp2_approx(maximum - top), relative = exp2_approx(stats[i].x - top);
      const float own_sum = stats[i].y * relative, weight = partial::ARE_MEANS ? own_sum : relative;
#pragma unroll
      for (int j = 0; j < OWN; j++) {
#pragma unroll
        for (int k = 0; k < VALUES; k++)
          value[j][k] = value[j][k] * before + yk_cuda::to_float(part[i][j].at[k]) * weight;
      }
      sum = sum * before + own_sum;
      maximum = top;
    }
  }
  const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
  for (int j = 0; j < OWN; j++) {
#pragma unroll
    for (float &v : value[j]) v *= inverse;
    if (!has_own) continue;
    const uint32_t to = s.sums_at(to_row, (thread + j * LANES) * VALUES);
    const uint2 first = make_uint2(round_pair<T>(value[j][0], value[j][1]), round_pair<T>(value[j][2], value[j][3]));
    if (VALUES == 4)
      store_shared8(to, first);
    else
      store_shared16(to, make_uint4(first.x, first.y, round_pair<T>(value[j][VALUES - 4], value[j][VALUES - 3]),
                                    round_pair<T>(value[j][VALUES - 2], value[j][VALUES - 1])));
  }
}

/* Loads the rows of a tile into shared memory: whole results unchanged, partial results combined. Rows after the last
 * keep their previous content, since a row of a product depends only on its own operands. LANES: threads of a row.
 * splits_of: of a row; n is 0 for a row without tokens. */
template <typename T, int QUERIES, int ALL_WARPS, int LANES, typename SHARED, typename F>
__device__ void load_sums_by(SHARED &s, const params &p, int32_t first_row, int32_t n_rows, int32_t head, int warp,
                             F splits_of)
{
  const int all = warp * 32 + threadIdx.x % 32, thread = all % LANES;
  for (int row = all / LANES; row < n_rows; row += ALL_WARPS * 32 / LANES) {
    const item_splits of = splits_of(first_row + row);
    const bool exists = of.n > 0;
    if (of.n > 1) {
      combine_row<T, QUERIES, LANES>(s, p, of, first_row + row, head, thread, row);
      continue;
    }
    const T *sums = static_cast<const T *>(p.sums) +
                    (static_cast<int64_t>(exists ? first_row + row : 0) * p.layout.n_heads + head) * KV_RANK;
    for (int i = thread; i < KV_RANK / 8; i += LANES) cp_async_16(s.sums_at(row, i * 8), sums + i * 8, exists);
  }
}

/* Called by ALL_WARPS warps: few rows have several warps each. QUERIES: of a tile of the attention kernel. */
template <typename T, int QUERIES, int ALL_WARPS, typename SHARED, typename F>
__device__ void load_sums(SHARED &s, const params &p, int32_t first_row, int32_t n_rows, int32_t head, int warp,
                          F splits_of)
{
  if (n_rows <= ALL_WARPS / 4)
    load_sums_by<T, QUERIES, ALL_WARPS, 128>(s, p, first_row, n_rows, head, warp, splits_of);
  else if (n_rows <= ALL_WARPS / 2)
    load_sums_by<T, QUERIES, ALL_WARPS, 64>(s, p, first_row, n_rows, head, warp, splits_of);
  else
    load_sums_by<T, QUERIES, ALL_WARPS, 32>(s, p, first_row, n_rows, head, warp, splits_of);
}

/* The splits that the preceding attention kernel has described, for rows that have tokens. */
struct described_splits {
  const params &p;

  __device__ item_splits operator()(int32_t row) const
  {
    const item_splits of = p.splits[row]; /* undefined for a padding row */
    return {of.first_row, of.first_block, p.kv_slots[row] < 0 ? 0 : of.n};
  }
};

/* The weights of a head's columns from first_column on. */
template <typename T> __device__ const T *output_weights(const params &p, int head, int first_column)
{
  return static_cast<const T *>(p.kv_up) +
         (static_cast<int64_t>(head) * (p.layout.nope_dim + p.layout.value_dim) + p.layout.nope_dim + first_column) *
             KV_RANK;
}

/* Address of a row of y from first_column on; NULL if the tile has no such row. */
template <typename T>
__device__ T *output_row(const params &p, int32_t row, int32_t end_row, int head, int first_column)
{
  if (row >= end_row) return nullptr;
  if (p.row_of && p.kv_slots[row] < 0) return nullptr; /* the entry of the list has no row */
  return static_cast<T *>(p.y) + (step_row(p, row) * p.layout.n_heads + head) * p.layout.value_dim + first_column;
}

/* Grid: heads x blocks of columns x tiles of 16 rows. A warp has 8 columns and one half of k; the halves are added in
 * shared memory. */
template <typename T> __global__ void __launch_bounds__(OUTPUT_THREADS) output_kernel(const params p)
{
  extern __shared__ __align__(1024) char memory[];
  constexpr int ROWS = output_shared::ROWS, K = OUTPUT_K / 2, PIECES = OUTPUT_K / 8;
  output_shared &s = *reinterpret_cast<output_shared *>(memory);
  const int head = blockIdx.x, first_column = blockIdx.y * OUTPUT_COLUMNS, first_row = blockIdx.z * ROWS;
  const int n_rows = min(ROWS, p.n_rows - first_row), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = warp % 8 * 8, k = warp / 8 * K;
  const T *w = output_weights<T>(p, head, first_column);
  for (int step = 0; step < OUTPUT_STEPS; step++) {
    for (int i = threadIdx.x; i < OUTPUT_COLUMNS * PIECES; i += OUTPUT_THREADS)
      cp_async_16(shared_address(&s.w[step][i / PIECES][i % PIECES * 8]),
                  w + i / PIECES * KV_RANK + step * OUTPUT_K + i % PIECES * 8, true);
  }
  let_next_kernel_start();
  wait_for_previous_kernel();
  load_sums<T, MANY_QUERIES, OUTPUT_WARPS>(s, p, first_row, n_rows, head, threadIdx.x / 32, described_splits{p});
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  float acc[4] = {};
#pragma unroll
  for (int step = 0; step < OUTPUT_STEPS; step++) {
    /* Addresses for B: columns i % 8, and 8 of 32 k for each group of 8 lanes. */
    const uint32_t b_at = shared_address(&s.w[step][column + lane % 8][k + lane / 8 * 8]);
#pragma unroll
    for (int i = 0; i < K; i += 32) {
      uint32_t b[4];
      ldmatrix_x4(b, b_at + i * 2);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        uint32_t a[4];
        ldmatrix_x4(a, shared_address(&s.sums[lane % 16][step * OUTPUT_K + k + i + j * 16 + lane / 16 * 8]));
        mma_m16n8k16<T>(acc, a[0], a[1], a[2], a[3], b[2 * j], b[2 * j + 1]);
      }
    }
  }
  float4 *halves = reinterpret_cast<float4 *>(s.w);
  __syncthreads();
  if (warp >= 8) halves[threadIdx.x - OUTPUT_THREADS / 2] = make_float4(acc[0], acc[1], acc[2], acc[3]);
  __syncthreads();
  if (warp >= 8) return;
  const float4 other = halves[threadIdx.x];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int row = first_row + lane / 4 + 8 * e;
    T *to = output_row<T>(p, row, first_row + n_rows, head, first_column + column + lane % 4 * 2);
    if (to)
      *reinterpret_cast<uint32_t *>(to) = e == 0 ? round_pair<T>(acc[0] + other.x, acc[1] + other.y)
                                                 : round_pair<T>(acc[2] + other.z, acc[3] + other.w);
  }
}

/* The same for tiles of 64 rows and COLUMNS columns, on wgmma: all warps load, four warps multiply. */
template <typename T, int COLUMNS>
__global__ void __launch_bounds__(OUTPUT_THREADS, 1) wide_output_kernel(const params p)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  using shared = wide_output_shared<COLUMNS>;
  constexpr int ROWS = shared::ROWS, PIECES = KV_RANK / 8;
  shared &s = *reinterpret_cast<shared *>(memory);
  const int head = blockIdx.x, first_column = blockIdx.y * COLUMNS, first_row = blockIdx.z * ROWS;
  const int n_rows = min(ROWS, p.n_rows - first_row);
  const T *w = output_weights<T>(p, head, first_column);
  for (int i = threadIdx.x; i < COLUMNS * PIECES; i += OUTPUT_THREADS) {
    const int row = i / PIECES, column = i % PIECES * 8;
    cp_async_16(shared_address(s.w[column / 64]) + shared::swizzled(row, column), w + row * KV_RANK + column, true);
  }
  let_next_kernel_start();
  wait_for_previous_kernel();
  load_sums<T, MANY_QUERIES, OUTPUT_WARPS>(s, p, first_row, n_rows, head, threadIdx.x / 32, described_splits{p});
  cp_async_commit();
  cp_async_wait<0>();
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x >= 128) return;
  float acc[COLUMNS / 8][4];
  const uint64_t a = tile_descriptor(shared_address(s.sums), 1024, 16),
                 b = tile_descriptor(shared_address(s.w), 1024, 16);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < KV_RANK / 16; i++)
    wgmma<T, COLUMNS>::run_ss(acc, a + descriptor_step(i / 4 * ROWS * 128 + i % 4 * 32),
                              b + descriptor_step(i / 4 * COLUMNS * 128 + i % 4 * 32), i > 0);
  wgmma_commit();
  wgmma_wait<0>();
  pin(acc);
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int row = first_row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
    T *to = output_row<T>(p, row, first_row + n_rows, head, first_column);
    yk_cuda::store_row<T>(to, acc, e, 1.0f, to != nullptr);
  }
#endif
}

} // namespace yk_latent

#endif
