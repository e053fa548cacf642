/* w8a8_wgmma_epilogue.cuh - end of a tile of the wgmma kernel: partial sums of the thread blocks that share the tile,
 * and results, transposed through shared memory and written as 16-byte pieces of rows of y.
 *
 * Which thread block finishes which tokens, and where its peers leave theirs, is gemm/wna16_wgmma_split_k.cuh's, but
 * what is sent are integers: in any order, and shifted, so that 0 means "not written yet". */
#ifndef YK_KERNELS_CUDA_W8A8_W8A8_WGMMA_EPILOGUE_CUH
#define YK_KERNELS_CUDA_W8A8_W8A8_WGMMA_EPILOGUE_CUH

#include "kernels/cuda/gemm/wna16_wgmma_split_k.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/w8a8/w8a8_output.cuh"

namespace yk_w8a8 {

/* Sums are at most 2^30 in size, with 2^16 inputs. */
constexpr uint32_t SHIFT = (1u << 30) + 1;

__device__ __forceinline__ void send_sums(uint4 *to, const int (&sum)[4])
{
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(sum[0] + SHIFT),
               "r"(sum[1] + SHIFT), "r"(sum[2] + SHIFT), "r"(sum[3] + SHIFT)
               : "memory");
}

/* Send the peers the sums of the tokens that they finish, and complete those of this block's own tokens. A warp leaves
 * a polling loop as one, as in receive_partials of the WNA16 GEMM.
 *   BATCH, AHEAD   pieces of a range, and ranges, that are read together */
template <int WARPGROUPS, int N>
__device__ __forceinline__ void exchange_sums(const yk_gemm::wgmma_params &p, int range,
                                              const yk_gemm::tile_peers &peers, int warpgroup, int (&acc)[N / 8][4])
{
  constexpr int N8 = N / 8, BATCH = N8 < 8 ? N8 : 8, AHEAD = 8 / BATCH;
  uint4 *to = yk_gemm::pieces_of<1, N>(p, range, WARPGROUPS, warpgroup);
#pragma unroll
  for (int i = 0; i < N8; i++)
    if (!peers.own.holds(i)) send_sums(to + i * 128, acc[i]);
  if (peers.own.first == peers.own.end) return;
  for (int other = 0; other < peers.count - 1; other += AHEAD) {
    uint4 *from[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int of = yk_gemm::range_of_other(peers, min(other + a, peers.count - 2));
      from[a] = yk_gemm::pieces_of<1, N>(p, of, WARPGROUPS, warpgroup);
    }
#pragma unroll
    for (int i0 = 0; i0 < N8; i0 += BATCH) {
      if (i0 >= peers.own.end || i0 + BATCH <= peers.own.first) continue;
      uint4 v[AHEAD][BATCH];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          v[i / BATCH][i % BATCH] = yk_ptx::load_relaxed_gpu16(from[i / BATCH] + (i0 + i % BATCH) * 128);
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          complete = complete && (yk_gemm::is_written(v[i / BATCH][i % BATCH]) || !peers.own.holds(i0 + i % BATCH));
      } while (!__all_sync(~0u, complete));
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (other + a >= peers.count - 1) break;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          acc[i0 + i][0] += static_cast<int>(v[a][i].x - SHIFT);
          acc[i0 + i][1] += static_cast<int>(v[a][i].y - SHIFT);
          acc[i0 + i][2] += static_cast<int>(v[a][i].z - SHIFT);
          acc[i0 + i][3] += static_cast<int>(v[a][i].w - SHIFT);
          if (peers.own.holds(i0 + i)) yk_ptx::store_relaxed_gpu16(from[a] + (i0 + i) * 128, 0);
        }
      }
    }
  }
}

/* Shared memory of one consumer warpgroup for its results: the scales of the tile's tokens, and two pieces of staging
 * that are used in turn. A row of staging is what a token has of 64 rows, and 16 bytes against bank conflicts. */
constexpr int STAGING_PITCH = 64 * 2 + 16;

/* Tokens that are in staging at a time. */
__host__ __device__ constexpr int staged_tokens(int tokens)
{
  return tokens < 32 ? tokens : 32;
}

__host__ __device__ constexpr int result_bytes(int tokens)
{
  return tokens * 4 + 2 * staged_tokens(tokens) * STAGING_PITCH;
}

template <int N> struct result_memory {
  static constexpr int STAGED = staged_tokens(N), SCALE_BYTES = N * 4, STAGING_BYTES = STAGED * STAGING_PITCH;
  static constexpr int BYTES = result_bytes(N);
  uint32_t scales; /* the staging follows */

  __device__ __forceinline__ uint32_t staging(int block) const
  {
    return scales + SCALE_BYTES + block % 2 * STAGING_BYTES;
  }

  /* Fetch the scales of a tile before its main loop: the barriers of the epilogue lie between this and their use, and
   * between their last use and the next tile. */
  __device__ __forceinline__ void fetch_scales(const float *x_scales, int token0) const
  {
    for (int i = threadIdx.x % 128; i < N; i += 128)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(scales + i * 4), "f"(x_scales[token0 + i]) : "memory");
  }

  /* Of the two tokens of a thread in 8 that begin with token. */
  __device__ __forceinline__ float2 scales_of(int token, int lane) const
  {
    const uint2 bits = yk_ptx::load_shared8(scales + (token + lane % 4 * 2) * 4);
    return make_float2(__uint_as_float(bits.x), __uint_as_float(bits.y));
  }
};

/* Results of the 16 rows of a warp for 8 tokens, in fragments of 8 columns by 8 tokens: with gate_up one, else two. */
template <bool GATE_UP, int MATRICES>
__device__ __forceinline__ void finish_fragment(const output_params &o, float2 scales, const row_terms (&rows)[2],
                                                const int (&sum)[4], uint32_t (&matrices)[MATRICES])
{
  const float low0 = scaled(o, sum[0], scales.x, rows[0]), low1 = scaled(o, sum[1], scales.y, rows[0]);
  const float up0 = scaled(o, sum[2], scales.x, rows[1]), up1 = scaled(o, sum[3], scales.y, rows[1]);
  if constexpr (GATE_UP) {
    matrices[0] = round_pair_to(o.is_bf16, yk_gemm::silu(low0) * up0, yk_gemm::silu(low1) * up1);
  } else {
    matrices[0] = round_pair_to(o.is_bf16, low0, low1);
    matrices[1] = round_pair_to(o.is_bf16, up0, up1);
  }
}

/* A warpgroup's results in 16-byte pieces of 8 columns of a token, so that it writes whole 128-byte lines, or with
 * gate_up halves. row0: packed row of the warpgroup's first. */
template <int N, bool GATE_UP>
__device__ __forceinline__ void write_pieces(const output_params &o, const result_memory<N> &memory, int64_t row0,
                                             int token0, yk_gemm::n8_range own, const row_terms (&rows)[2],
                                             const int (&acc)[N / 8][4])
{
  constexpr int MATRICES = GATE_UP ? 1 : 2, PIECES = 4 * MATRICES, PITCH = PIECES * 16 + 16;
  constexpr int STAGED = result_memory<N>::STAGED, AT_ONCE = 128 / PIECES < STAGED ? 128 / PIECES : STAGED;
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, warpgroup = threadIdx.x / 128;
  const int64_t width = GATE_UP ? o.n / 2 : o.n, column = (GATE_UP ? row0 / 2 : row0) + thread % PIECES * 8;
  const int token = thread / PIECES, last = column < width && token < AT_ONCE ? min(own.end * 8, o.m - token0) : 0;
  uint16_t *to = static_cast<uint16_t *>(o.y) + (token0 + token) * o.y_stride + column;
  const uint32_t put = lane % 8 * PITCH + (warp * MATRICES + lane / 8 % MATRICES) * 16;
  const uint32_t take = token * PITCH + thread % PIECES * 16;
#pragma unroll
  for (int first = 0; first < N; first += STAGED) {
    if (first >= own.end * 8 || first + STAGED <= own.first * 8) continue;
    const uint32_t staging = memory.staging(first / STAGED);
#pragma unroll
    for (int i = 0; i < STAGED / 8; i++) {
      uint32_t matrices[MATRICES];
      finish_fragment<GATE_UP>(o, memory.scales_of(first + i * 8, lane), rows, acc[first / 8 + i], matrices);
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

/* A warpgroup's results, as the output wants them.
 *   own    groups of 8 tokens to write, the others' sums are not complete */
template <int N>
__device__ __forceinline__ void write_output(const output_params &o, const result_memory<N> &memory, int64_t row0,
                                             int token0, yk_gemm::n8_range own, const int (&acc)[N / 8][4])
{
  const int lane = threadIdx.x % 32;
  const int64_t row_of_warp = row0 + threadIdx.x / 32 % 4 * 16;
  const row_terms rows[2] = {row_terms(o, row_of_warp + lane / 4), row_terms(o, row_of_warp + lane / 4 + 8)};
  if (!o.is_wide) {
#pragma unroll
    for (int i = 0; i < N / 8; i++)
      if (own.holds(i)) write_fragment(o, row_of_warp, token0 + i * 8, lane, rows, acc[i]);
  } else if (o.gate_up) {
    write_pieces<N, true>(o, memory, row0, token0, own, rows, acc);
  } else {
    write_pieces<N, false>(o, memory, row0, token0, own, rows, acc);
  }
}

} // namespace yk_w8a8

#endif
