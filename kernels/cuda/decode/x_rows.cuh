/* x_rows.cuh - the input row of a GEMM in shared memory, as integers of 15 bits for mma.sync of 8 bits.
 *
 * The inputs of a K tile share a power of two: x = 2^s (256 high + low), where high and low are signed bytes. Rounding
 * adds at most 2^-14 of the tile's largest input to the error of exchanged chunks.
 *
 * mma.sync sums over inputs in any order that both operands share. The bytes of weights come in the order in which the
 * packed words hold them (packed_layout.cuh): inputs 2t, 2t + 8, 2t + 1, 2t + 9 of a k16 step for lane 4 g + t. A K
 * tile of x is [half 2][high, low][t 4][k16 step 4] words of 4 bytes in this order, so a lane loads the words of four
 * steps at once. Two neighbouring lanes have the 16 inputs of a step, a chunk each; the first stores the words of t = 0
 * and 1, the second those of t = 2 and 3. */
#ifndef YK_KERNELS_CUDA_DECODE_X_ROWS_CUH
#define YK_KERNELS_CUDA_DECODE_X_ROWS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_decode {

/* A barrier of the warps that compute. */
__device__ __forceinline__ void sync_warps()
{
  yk_ptx::named_barrier_sync(1, THREADS);
}

constexpr int CHUNK_LANES = TILE_K / CHUNK;  /* neighbouring lanes whose chunks are a K tile */
constexpr int INTEGER_BIAS = CHUNK_BIAS + 1; /* x = v 2^(e - INTEGER_BIAS) for a tile's integers v, |v| < 2^14 */

/* Unit and sum of the integers of a K tile of x, for the lower rows of a panel and for the upper rows, whose weights
 * are multiplied as 16 q. */
struct x_scale {
  float lower, lower_sum, upper, upper_sum;
};

/* Addresses in shared memory of a warp's PASS_TILES K tiles of the input of a GEMM, and the x_scale of each. */
struct x_tiles {
  uint32_t rows, scales;
};

template <typename T> __device__ __forceinline__ float2 to_floats(uint32_t pair)
{
  const auto v = *reinterpret_cast<yk_cuda::vec<T, 2> *>(&pair);
  return make_float2(yk_cuda::to_float(v.at[0]), yk_cuda::to_float(v.at[1]));
}

/* The largest of the lanes that have a K tile. */
__device__ __forceinline__ int max_of_tile(int x)
{
#pragma unroll
  for (int offset = 1; offset < CHUNK_LANES; offset *= 2) x = max(x, __shfl_xor_sync(yk_cuda::ALL_LANES, x, offset));
  return x;
}

/* A byte of each of four integers plus offset; selector: of __byte_perm, for that byte of two words. */
__device__ __forceinline__ uint32_t four_bytes(const int *v, int offset, uint32_t selector)
{
  return __byte_perm(__byte_perm(v[0] + offset, v[1] + offset, selector),
                     __byte_perm(v[2] + offset, v[3] + offset, selector), 0x5410);
}

/* Stores one byte of the lane's integers, and of its neighbour's, as the two words at `to` and 16 bytes further. */
__device__ __forceinline__ void store_bytes(uint32_t to, uint32_t first, uint32_t second, bool is_second)
{
  const uint32_t other = __shfl_xor_sync(yk_cuda::ALL_LANES, is_second ? first : second, 1);
  const uint32_t low = is_second ? other : first, high = is_second ? second : other;
  yk_ptx::store_shared4(to, __uint_as_float(__byte_perm(low, high, 0x5140)));
  yk_ptx::store_shared4(to + 16, __uint_as_float(__byte_perm(low, high, 0x7362)));
}

/* Stores the integers of a lane's chunk, of a tile with this exponent. Called by all lanes: those of half a warp have
 * the chunks of a tile. */
__device__ __forceinline__ void store_integers(const int (&v)[CHUNK], int exponent, const x_tiles &to_tiles)
{
  const uint32_t high[2] = {four_bytes(v, 128, 0x0051), four_bytes(v + 4, 128, 0x0051)};
  const uint32_t low[2] = {four_bytes(v, 0, 0x0040), four_bytes(v + 4, 0, 0x0040)};
  constexpr int ONES = 0x01010101;
  int sum = 256 * __dp4a(static_cast<int>(high[0]), ONES, __dp4a(static_cast<int>(high[1]), ONES, 0));
  sum = __dp4a(static_cast<int>(low[0]), ONES, __dp4a(static_cast<int>(low[1]), ONES, sum));
#pragma unroll
  for (int offset = 1; offset < CHUNK_LANES; offset *= 2) sum += __shfl_xor_sync(yk_cuda::ALL_LANES, sum, offset);
  const int lane = threadIdx.x % WARP, step = lane / 2, tile = lane / CHUNK_LANES;
  const bool is_second = lane % 2 != 0;
  const uint32_t to = to_tiles.rows + step / 4 * 128 + lane % 2 * 32 + step % 4 * 4;
  store_bytes(to, high[0], high[1], is_second);
  store_bytes(to + 64, low[0], low[1], is_second);
  if (lane % CHUNK_LANES != 0) return;
  const float unit = __uint_as_float(static_cast<uint32_t>(exponent) << 23) * 0x1p-13f, total = static_cast<float>(sum);
  yk_ptx::store_shared16(to_tiles.scales + tile * static_cast<int>(sizeof(x_scale)),
                         make_uint4(__float_as_uint(unit), __float_as_uint(total), __float_as_uint(unit * 0.0625f),
                                    __float_as_uint(total * 16.0f)));
}

/* The same for an exchanged chunk. */
__device__ __forceinline__ void store_chunk(const uint4 &packet, const x_tiles &to)
{
  const int exponent = exponent_of(packet), largest = max_of_tile(exponent);
  int v[CHUNK];
  integers_of(packet, v);
  const int shift = min(16 + largest - exponent, 30);
#pragma unroll
  for (int i = 0; i < CHUNK; i++) v[i] = ((v[i] >> shift) + 1) >> 1; /* to nearest */
  store_integers(v, largest, to);
}

/* The same for floats. */
__device__ __forceinline__ void store_chunk(const float (&x)[CHUNK], const x_tiles &to)
{
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < CHUNK; i++) largest = yk_ptx::max_or_nan(largest, fabsf(x[i]));
  const int exponent = max_of_tile(exponent_of(largest));
  const float factor = __uint_as_float(static_cast<uint32_t>(127 + INTEGER_BIAS - exponent) << 23);
  int v[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; i++) v[i] = __float2int_rn(x[i] * factor);
  store_integers(v, exponent, to);
}

/* The lane's chunk of pass i over the warp's K tiles. */
__device__ __forceinline__ int chunk_of_pass(int i)
{
  const int lane = threadIdx.x % WARP;
  const int tile = threadIdx.x / WARP + WARPS * (PASS_TILES * i + lane / CHUNK_LANES);
  return tile * CHUNK_LANES + lane % CHUNK_LANES;
}

} // namespace yk_decode

#endif
