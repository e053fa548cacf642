/* awq_fused.cuh - 16-bit weights to AWQ's tensors in one pass: read once, written once.
 *
 * A thread block takes a tile of N_TILE outputs and K_TILE inputs, which is whole groups:
 *
 *   global [n, k]                a lane of four holds 32 inputs of an output, in four vectors of 8
 *        |  min, max over the vectors of a group, then over the four lanes
 *        |  scale and zero of a group by one of the lanes, broadcast to the other three
 *        v  8 inputs -> 8 nibbles of a word, of one output
 *   shared [output][octet of inputs]      rows PITCH words apart, and SKEW words more every 8 rows
 *        |  a lane takes the words of 8 outputs: 8 x 8 nibbles, transposed in registers
 *        v
 *   global [k, n / 8]            a warp writes N_TILE / 8 neighbouring words of each of 8 inputs
 *
 * Banks: the 8 rows that a warp writes begin at banks 0, 20, 8, 28, 16, 4, 24, 12 and take four banks each; lanes that
 * read are 8 rows apart, that is 8 * PITCH + SKEW = SKEW banks, and SKEW octets fill them. Neither has conflicts.
 *
 * The quotient w / scale itself is not needed, only the integer to which it rounds. With w and scale of at most 11 bits
 * and |w / scale| at most 16, the quotient is half-way between two integers, or at least 2^-13 from such a number. So w
 * * (1 / scale), whose error is below 2^-18, is first rounded to a multiple of 2^-14, which is half-way exactly if the
 * quotient is, and then to an integer, ties to even. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_FUSED_CUH
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_FUSED_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/quantize/awq_group.cuh"

namespace yk_awq {

constexpr int K_TILE = 128, OCTETS = K_TILE / 8, PITCH = OCTETS + 4, LANES = 4, VECTORS = K_TILE / 8 / LANES;

struct fused_args {
  const void *w; /* [n, k], 16-byte aligned rows */
  uint32_t *qweight, *qzeros;
  uint16_t *scales;
  int64_t *first_bad;
  int64_t n, k;
  int64_t begin; /* the first output: a multiple of 8; the grid defines the last */
  /* For all inputs as one group: this many thread blocks at the start compute scale and zero of 8 outputs each, from
   * ranges_begin on. */
  int64_t n_range_blocks, ranges_begin;
};

/* ---- Two 16-bit floats in a word --------------------------------------------------------------------------------- */

template <typename T> struct pair;

template <> struct pair<__half> {
  using type = __half2;
  static constexpr uint32_t INFINITE = 0x7C00u;
  static __device__ __forceinline__ float low(uint32_t v)
  {
    return __low2float(*reinterpret_cast<__half2 *>(&v));
  }
  static __device__ __forceinline__ float high(uint32_t v)
  {
    return __high2float(*reinterpret_cast<__half2 *>(&v));
  }
};

template <> struct pair<__nv_bfloat16> {
  using type = __nv_bfloat162;
  static constexpr uint32_t INFINITE = 0x7F80u;
  static __device__ __forceinline__ float low(uint32_t v)
  {
    return __uint_as_float(v << 16);
  }
  static __device__ __forceinline__ float high(uint32_t v)
  {
    return __uint_as_float(v & 0xFFFF0000u);
  }
};

/* The lesser of each pair; NaN if either is a NaN. */
template <typename T> __device__ __forceinline__ uint32_t least(uint32_t a, uint32_t b)
{
  using V = typename pair<T>::type;
  V least = __hmin2_nan(*reinterpret_cast<V *>(&a), *reinterpret_cast<V *>(&b));
  return *reinterpret_cast<uint32_t *>(&least);
}

template <typename T> __device__ __forceinline__ uint32_t greatest(uint32_t a, uint32_t b)
{
  using V = typename pair<T>::type;
  V most = __hmax2_nan(*reinterpret_cast<V *>(&a), *reinterpret_cast<V *>(&b));
  return *reinterpret_cast<uint32_t *>(&most);
}

/* The least of a vector in the low half, the negated greatest in the high half, so that one minimum serves both. */
template <typename T> __device__ __forceinline__ uint32_t range_of_vector(const uint4 &v)
{
  const uint32_t low = least<T>(least<T>(v.x, v.y), least<T>(v.z, v.w));
  const uint32_t high = greatest<T>(greatest<T>(v.x, v.y), greatest<T>(v.z, v.w)) ^ 0x80008000u;
  return least<T>(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
}

/* The same over a group and 0; each of the four lanes has N vectors of the group. */
template <typename T, int N> __device__ __forceinline__ uint32_t range_of(const uint4 *v)
{
  uint32_t range = 0;
#pragma unroll
  for (int i = 0; i < N; i++) range = least<T>(range, range_of_vector<T>(v[i]));
#pragma unroll
  for (int lane = 1; lane < LANES; lane *= 2) range = least<T>(range, __shfl_xor_sync(0xffffffffu, range, lane));
  return range;
}

/* The rounding parameters of a group with this range. */
template <typename T> __device__ __forceinline__ group group_in(uint32_t range)
{
  constexpr uint32_t INFINITE = pair<T>::INFINITE;
  group g = group_of(pair<T>::low(range), -pair<T>::high(range));
  g.is_sound = g.is_sound && (range & INFINITE) != INFINITE && (range >> 16 & INFINITE) != INFINITE;
  return g;
}

/* ---- Rounding ---------------------------------------------------------------------------------------------------- */

/* Rounding parameters of a group, in the form that lanes exchange. */
struct rounding {
  float inverse;  /* 1 / scale */
  uint32_t zeros; /* in both halves */
};

/* The 8 inputs of a vector as nibbles, the first in the lowest. */
template <typename T> __device__ __forceinline__ uint32_t nibbles_of(const uint4 &v, const rounding &r)
{
  constexpr float FINE = WHOLE / 16384.0f; /* adding this rounds to a multiple of 2^-14 */
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
  uint32_t whole[8], out = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float w = i % 2 ? pair<T>::high(words[i / 2]) : pair<T>::low(words[i / 2]);
    whole[i] = __float_as_uint(__fadd_rn(__fmaf_rn(w, r.inverse, FINE), WHOLE - FINE));
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t two = __byte_perm(whole[i], whole[i + 4], 0x5410); /* 16-bit integers from -16 to 16 */
    out += __viaddmin_s16x2_relu(two, r.zeros, 0x000F000Fu) << 4 * i;
  }
  return out;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* GROUPS: of a tile. 0: all inputs are one group, whose scale and zero are already in p. */
template <int N_TILE, int GROUPS> struct fused_shared {
  static constexpr int SKEW = 256 / N_TILE;
  uint32_t nibbles[N_TILE * PITCH + N_TILE / 8 * SKEW]; /* an output row begins at row * PITCH + row / 8 * SKEW */
  uint16_t scales[GROUPS + (GROUPS == 0)][N_TILE];
  uint8_t zeros[GROUPS + (GROUPS == 0)][N_TILE];
};

/* Scales and zeros of an output's groups, computed from its inputs v. A lane's own is that of group lane % GROUPS. */
template <typename T, int N_TILE, int GROUPS>
__device__ __forceinline__ rounding find_rounding(const fused_args &p, fused_shared<N_TILE, GROUPS> &shared,
                                                  const uint4 (&v)[VECTORS], int row, int64_t output,
                                                  int64_t first_input)
{
  constexpr int GROUP = K_TILE / GROUPS;
  const int lane = threadIdx.x % LANES, own = lane % GROUPS;
  uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < GROUPS; i++) {
    const uint32_t range = range_of<T, VECTORS / GROUPS>(v + i * (VECTORS / GROUPS));
    if (own == i) mine = range;
  }
  const group g = group_in<T>(mine);
  const bool is_inside = output < p.n && first_input + own * GROUP < p.k;
  if (is_inside && !g.is_sound && lane < GROUPS)
    note_bad(p.first_bad, output * (p.k / GROUP) + first_input / GROUP + own);
  const uint32_t zero = static_cast<uint32_t>(g.zero);
  if (lane < GROUPS) {
    shared.scales[own][row] = g.scale_bits;
    shared.zeros[own][row] = static_cast<uint8_t>(zero);
  }
  return {__frcp_rn(g.scale), zero << 16 | zero};
}

/* The same for all inputs as one group. */
__device__ __forceinline__ rounding read_rounding(const fused_args &p, int64_t output)
{
  if (output >= p.n) return {};
  const uint32_t zero = p.qzeros[output / 8] >> 4 * nibble_of_output(output % 8) & 15u;
  return {__frcp_rn(__half2float(__ushort_as_half(p.scales[output]))), zero << 16 | zero};
}

/* Computes the words of an output, a row of the tile. */
template <typename T, int N_TILE, int GROUPS>
__device__ __forceinline__ void quantise_row(const fused_args &p, fused_shared<N_TILE, GROUPS> &shared,
                                             const uint4 (&v)[VECTORS], int row, int64_t output, int64_t first_input)
{
  const int lane = threadIdx.x % LANES;
  rounding own;
  if constexpr (GROUPS > 0)
    own = find_rounding<T, N_TILE, GROUPS>(p, shared, v, row, output, first_input);
  else
    own = read_rounding(p, output);
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    rounding r = own;
    if constexpr (GROUPS > 1) {
      r.inverse = __shfl_sync(0xffffffffu, own.inverse, i / (VECTORS / GROUPS), LANES);
      r.zeros = __shfl_sync(0xffffffffu, own.zeros, i / (VECTORS / GROUPS), LANES);
    }
    shared.nibbles[row * PITCH + row / 8 * shared.SKEW + i * LANES + lane] = nibbles_of<T>(v[i], r);
  }
}

/* Writes the tile's scales and zeros. */
template <int THREADS, int N_TILE, int GROUPS>
__device__ __forceinline__ void write_groups(const fused_args &p, const fused_shared<N_TILE, GROUPS> &shared,
                                             int64_t first_output, int64_t first_input, int64_t n_columns)
{
  constexpr int COLUMNS = N_TILE / 8, GROUP = K_TILE / GROUPS;
  const int64_t n_words = p.n / 8, first_word = first_output / 8;
  const int64_t first_group = first_input / GROUP, n_groups = p.k / GROUP;
  for (int i = threadIdx.x; i < GROUPS * N_TILE; i += THREADS) {
    const int row = i % N_TILE, which = i / N_TILE;
    if (row < n_columns * 8 && first_group + which < n_groups)
      p.scales[(first_group + which) * p.n + first_output + row] = shared.scales[which][row];
  }
  for (int i = threadIdx.x; i < GROUPS * COLUMNS; i += THREADS) {
    const int column = i % COLUMNS, which = i / COLUMNS;
    if (column >= n_columns || first_group + which >= n_groups) continue;
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
      word |= static_cast<uint32_t>(shared.zeros[which][column * 8 + j]) << 4 * nibble_of_output(j);
    p.qzeros[(first_group + which) * n_words + first_word + column] = word;
  }
}

/* Writes the whole tile; columns are words of 8 outputs. */
template <int THREADS, int N_TILE, int GROUPS>
__device__ __forceinline__ void write_tile(const fused_args &p, const fused_shared<N_TILE, GROUPS> &shared,
                                           int64_t first_output, int64_t first_input)
{
  constexpr int COLUMNS = N_TILE / 8;
  const int64_t n_words = p.n / 8, first_word = first_output / 8;
  const int64_t n_columns = n_words - first_word < COLUMNS ? n_words - first_word : COLUMNS;
  for (int i = threadIdx.x; i < OCTETS * COLUMNS; i += THREADS) {
    const int octet = i / COLUMNS, column = i % COLUMNS;
    const int64_t input = first_input + octet * 8;
    if (column >= n_columns || input >= p.k) continue;
    const uint32_t *from = shared.nibbles + column * (8 * PITCH + shared.SKEW) + octet;
    uint32_t words[8];
#pragma unroll
    for (int j = 0; j < 8; j++) words[j] = from[output_of_nibble(j) * PITCH];
    transpose_nibbles(words);
    uint32_t *to = p.qweight + input * n_words + first_word + column;
#pragma unroll
    for (int j = 0; j < 8; j++, to += n_words) __stcs(to, words[j]);
  }
  if constexpr (GROUPS > 0) write_groups<THREADS, N_TILE, GROUPS>(p, shared, first_output, first_input, n_columns);
}
/* Scale and zero of 8 whole rows: one warp per output. */
template <typename T> __device__ __forceinline__ void find_row_ranges(const fused_args &p)
{
  __shared__ uint32_t zeros[8];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t n = p.ranges_begin + blockIdx.x * int64_t{8} + warp;
  const uint4 *row = reinterpret_cast<const uint4 *>(static_cast<const T *>(p.w) + n * p.k);
  uint32_t range = 0;
#pragma unroll 8
  for (int i = lane; i < p.k / 8; i += 32) range = least<T>(range, range_of_vector<T>(row[i]));
  for (int other = 16; other > 0; other /= 2) range = least<T>(range, __shfl_xor_sync(0xffffffffu, range, other));
  const group g = group_in<T>(range);
  if (lane == 0) {
    zeros[warp] = static_cast<uint32_t>(g.zero) << 4 * nibble_of_output(warp);
    p.scales[n] = g.scale_bits;
    if (!g.is_sound) note_bad(p.first_bad, n);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  uint32_t all = 0;
  for (int i = 0; i < 8; i++) all |= zeros[i];
  p.qzeros[n / 8] = all;
}

/* Grid: tiles of inputs times tiles of outputs, tiles of inputs next to each other. */
template <typename T, int THREADS, int N_TILE, int MIN_BLOCKS, int GROUPS>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) fused_kernel(const fused_args p, int k_tiles)
{
  constexpr int ROWS = THREADS / LANES, PASSES = N_TILE / ROWS;
  static_assert(N_TILE % ROWS == 0, "whole passes");
  __shared__ fused_shared<N_TILE, GROUPS> shared;
  int64_t tile = blockIdx.x;
  if constexpr (GROUPS == 0) {
    static_assert(THREADS == 256, "a warp for each output of a word");
    if (tile < p.n_range_blocks) {
      find_row_ranges<T>(p);
      return;
    }
    tile -= p.n_range_blocks;
  }
  const int64_t first_input = tile % k_tiles * K_TILE;
  const int64_t first_output = p.begin + tile / k_tiles * N_TILE;
  const int lane = threadIdx.x % LANES;
  uint4 v[PASSES][VECTORS];
#pragma unroll
  for (int pass = 0; pass < PASSES; pass++) {
    const int64_t output = first_output + pass * ROWS + threadIdx.x / LANES;
    const T *from = static_cast<const T *>(p.w) + output * p.k + first_input + lane * 8;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
      const bool is_inside = output < p.n && first_input + i * LANES * 8 + lane * 8 < p.k;
      v[pass][i] = is_inside ? __ldcs(reinterpret_cast<const uint4 *>(from + i * LANES * 8)) : make_uint4(0, 0, 0, 0);
    }
  }
#pragma unroll
  for (int pass = 0; pass < PASSES; pass++) {
    const int row = pass * ROWS + threadIdx.x / LANES;
    quantise_row<T, N_TILE, GROUPS>(p, shared, v[pass], row, first_output + row, first_input);
  }
  __syncthreads();
  write_tile<THREADS, N_TILE, GROUPS>(p, shared, first_output, first_input);
}

/* Outputs p.begin .. end - 1. */
template <typename T, int THREADS, int N_TILE, int MIN_BLOCKS, int GROUPS>
cudaError_t launch_fused(const fused_args &p, int64_t end, cudaStream_t stream)
{
  const int64_t k_tiles = (p.k + K_TILE - 1) / K_TILE, n_tiles = (end - p.begin + N_TILE - 1) / N_TILE;
  fused_kernel<T, THREADS, N_TILE, MIN_BLOCKS, GROUPS>
      <<<static_cast<unsigned>(p.n_range_blocks + k_tiles * n_tiles), THREADS, 0, stream>>>(p,
                                                                                            static_cast<int>(k_tiles));
  return cudaGetLastError();
}

} // namespace yk_awq

#endif
