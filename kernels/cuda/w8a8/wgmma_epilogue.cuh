/* wgmma_epilogue.cuh - end of a tile of the wgmma kernel: partial sums of the thread blocks that share the tile, and
 * results, transposed through shared memory and written as 16-byte pieces of rows of y.
 *
 * Thread blocks that share a tile (split-K) are a cluster and read each other's sums in shared memory. gemm/split_k.cuh
 * assigns the tokens that each of them finishes. */
#ifndef YK_KERNELS_CUDA_W8A8_WGMMA_EPILOGUE_CUH
#define YK_KERNELS_CUDA_W8A8_WGMMA_EPILOGUE_CUH

#include "kernels/cuda/gemm/split_k.cuh"
#include "kernels/cuda/ptx/cluster_memory.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/w8a8/output.cuh"

namespace yk_w8a8 {

constexpr int RING_READ_BARRIER = 4; /* barrier of all consumer warps; each lower barrier is used by one warpgroup */

/* Each of a tile's K ranges is a thread block of one cluster, the last range being the first block. All blocks write to
 * the memory of their rings the sums of the tokens that others finish, and add those of their own tokens.
 *   ring     start of the ring, which all warps have read by now
 *   BATCH, AHEAD   pieces (a thread's part of 8 tokens) of a range, and ranges, that are read together */
template <int WARPGROUPS, int N>
__device__ __forceinline__ void exchange_sums(uint32_t ring, const yk_gemm::tile_peers &peers, int warpgroup,
                                              int (&acc)[N / 8][4])
{
  constexpr int N8 = N / 8, BATCH = N8 < 4 ? N8 : 4, AHEAD = 8 / BATCH, PIECE_BYTES = 128 * 16;
  const uint32_t pieces = ring + warpgroup * N8 * PIECE_BYTES + threadIdx.x % 128 * 16;
  yk_ptx::named_barrier_sync(RING_READ_BARRIER, WARPGROUPS * 128);
#pragma unroll
  for (int i = 0; i < N8; i++)
    if (!peers.own.holds(i)) yk_ptx::store_shared16(pieces + i * PIECE_BYTES, *reinterpret_cast<const uint4 *>(acc[i]));
  yk_ptx::cluster_sync();
  for (int other = 1; other < peers.count; other += AHEAD) {
    uint32_t from[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int at = peers.index + min(other + a, peers.count - 1), index = at < peers.count ? at : at - peers.count;
      from[a] = yk_ptx::remote_address(pieces, peers.count - 1 - index);
    }
#pragma unroll
    for (int i0 = 0; i0 < N8; i0 += BATCH) {
      if (i0 >= peers.own.end || i0 + BATCH <= peers.own.first) continue;
      uint4 v[AHEAD][BATCH];
#pragma unroll
      for (int i = 0; i < AHEAD * BATCH; i++)
        v[i / BATCH][i % BATCH] =
            yk_ptx::load_remote16_if(from[i / BATCH] + (i0 + i % BATCH) * PIECE_BYTES,
                                     other + i / BATCH < peers.count && peers.own.holds(i0 + i % BATCH));
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          acc[i0 + i][0] += static_cast<int>(v[a][i].x);
          acc[i0 + i][1] += static_cast<int>(v[a][i].y);
          acc[i0 + i][2] += static_cast<int>(v[a][i].z);
          acc[i0 + i][3] += static_cast<int>(v[a][i].w);
        }
      }
    }
  }
}

/* Shared memory of one consumer warpgroup for its results: the scales of the tile's tokens, and two staging buffers,
 * used alternately. A row of a staging buffer is a token's part of 64 rows, and 16 bytes against bank conflicts. */
constexpr int STAGING_PITCH = 64 * 2 + 16;

/* Tokens in a staging buffer at a time. */
__host__ __device__ constexpr int staged_tokens(int tokens)
{
  return tokens < 32 ? tokens : 32;
}

__host__ __device__ constexpr int result_bytes(int tokens)
{
  return tokens * 4 + 2 * staged_tokens(tokens) * STAGING_PITCH;
}

template <int N> struct result_memory {
  static constexpr int STAGED = staged_tokens(N), STAGING_BYTES = STAGED * STAGING_PITCH;
  static constexpr int BYTES = result_bytes(N);
  uint32_t scales, first_staging;

  /* memory: result_bytes of the most tokens of any tile of the kernel, so that the scales of one tile never overlap the
   * staging buffers of another tile of more or fewer tokens. */
  __device__ __forceinline__ result_memory(uint32_t memory, int most_tokens = N)
      : scales(memory), first_staging(memory + most_tokens * 4)
  {
  }

  __device__ __forceinline__ uint32_t staging(int block) const
  {
    return first_staging + block % 2 * STAGING_BYTES;
  }

  /* Loads the scales of a tile before its main loop: the barriers of the epilogue separate this from their use, and
   * their last use from the next tile. */
  __device__ __forceinline__ void fetch_scales(const float *x_scales, int token0) const
  {
    for (int i = threadIdx.x % 128; i < N; i += 128) yk_ptx::store_shared4(scales + i * 4, x_scales[token0 + i]);
  }

  /* Scales of a thread's two tokens among the 8 that begin with token. */
  __device__ __forceinline__ float2 scales_of(int token, int lane) const
  {
    const uint2 bits = yk_ptx::load_shared8(scales + (token + lane % 4 * 2) * 4);
    return make_float2(__uint_as_float(bits.x), __uint_as_float(bits.y));
  }
};

/* Writes a warpgroup's results in 16-byte pieces of 8 columns of a token, so that it writes whole 128-byte lines, or
 * half lines with gates. row0: packed row of the warpgroup's first. */
template <int N, bool GATED>
__device__ __forceinline__ void write_pieces(const output_params &o, const result_memory<N> &memory, int64_t row0,
                                             int token0, yk_gemm::n8_range own, const row_terms (&rows)[2],
                                             const int (&acc)[N / 8][4])
{
  constexpr int MATRICES = GATED ? 1 : 2, PIECES = 4 * MATRICES, PITCH = PIECES * 16 + 16;
  constexpr int STAGED = result_memory<N>::STAGED, AT_ONCE = 128 / PIECES < STAGED ? 128 / PIECES : STAGED;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, warpgroup = threadIdx.x / 128;
  const int64_t width = GATED ? o.n / 2 : o.n, column = (GATED ? row0 / 2 : row0) + thread % PIECES * 8;
  const int token = thread / PIECES, last = column < width && token < AT_ONCE ? min(own.end * 8, o.m - token0) : 0;
  uint16_t *to = static_cast<uint16_t *>(o.y) + (token0 + token) * o.y_stride + column;
  const uint32_t put = lane % 8 * PITCH + (warp * MATRICES + lane / 8 % MATRICES) * 16;
  const uint32_t take = token * PITCH + thread % PIECES * 16;
#pragma unroll
  for (int first = 0; first < N; first += STAGED) {
    if (first >= own.end * 8 || first + STAGED <= own.first * 8) continue;
    const uint32_t staging = memory.staging(first / STAGED);
    float low[STAGED / 4], up[STAGED / 4]; /* of a thread's two rows, [8 tokens][2 tokens] */
#pragma unroll
    for (int i = 0; i < STAGED / 4; i++) {
      const float2 scales = memory.scales_of(first + i / 2 * 8, lane);
      const int(&sum)[4] = acc[first / 8 + i / 2];
      low[i] = scaled(o, sum[i % 2], i % 2 ? scales.y : scales.x, rows[0]);
      up[i] = scaled(o, sum[2 + i % 2], i % 2 ? scales.y : scales.x, rows[1]);
    }
    if constexpr (GATED) yk_cuda::gate_pairs(o.activation, low, up);
#pragma unroll
    for (int i = 0; i < STAGED / 8; i++) {
      uint32_t matrices[MATRICES] = {round_pair_to(o.is_bf16, low[i * 2], low[i * 2 + 1])};
      if constexpr (!GATED) matrices[1] = round_pair_to(o.is_bf16, up[i * 2], up[i * 2 + 1]);
      yk_ptx::stmatrix_trans<MATRICES>(staging + put + i * 8 * PITCH, matrices);
    }
    yk_ptx::named_barrier_sync(1 + warpgroup, 128);
#pragma unroll
    for (int i = 0; i < STAGED; i += AT_ONCE) {
      const int at = first + i + token;
      if (at >= own.first * 8 && at < last)
        yk_ptx::store_global16(to + (first + i) * o.y_stride, yk_ptx::load_shared16(staging + take + i * PITCH));
    }
  }
}

/* Writes a warpgroup's results in the form that the output requires.
 *   own    groups of 8 tokens to write; the others' sums are not complete
 *   rows   of this thread */
template <int N>
__device__ __forceinline__ void write_output(const output_params &o, const result_memory<N> &memory, int64_t row0,
                                             int token0, yk_gemm::n8_range own, const row_terms (&rows)[2],
                                             const int (&acc)[N / 8][4])
{
  const int lane = threadIdx.x % 32;
  const int64_t row_of_warp = row0 + threadIdx.x / 32 % 4 * 16;
  if (!o.is_wide) {
    int sums[N / 8][4]; /* in local memory, for a loop: unrolled, this path would be most of the machine code */
#pragma unroll
    for (int i = 0; i < N / 2; i++) sums[i / 4][i % 4] = acc[i / 4][i % 4];
#pragma unroll 1
    for (int i = own.first; i < own.end; i++) write_fragment(o, row_of_warp, token0 + i * 8, lane, rows, sums[i]);
  } else if (o.activation.is_gated) {
    write_pieces<N, true>(o, memory, row0, token0, own, rows, acc);
  } else {
    write_pieces<N, false>(o, memory, row0, token0, own, rows, acc);
  }
}

} // namespace yk_w8a8

#endif
