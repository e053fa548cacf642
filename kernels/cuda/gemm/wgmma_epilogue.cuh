/* wgmma_epilogue.cuh - epilogue of the wgmma kernel: accumulators plus bias, gated activation, rounded, transposed
 * through shared memory and written as 16-byte pieces of rows of y; or written as float32. */
#ifndef YK_KERNELS_CUDA_GEMM_WGMMA_EPILOGUE_CUH
#define YK_KERNELS_CUDA_GEMM_WGMMA_EPILOGUE_CUH

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/split_k.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_gemm {

/* Tokens of a warp's results that its staging buffer holds at a time. */
__host__ __device__ constexpr int staged_tokens(int tokens)
{
  return tokens == 64 || tokens == 128 ? 32 : tokens < 16 ? tokens : 16;
}

/* Bytes between tokens of the staging buffer: 16 more than the results of a token, against bank conflicts. */
__host__ __device__ constexpr int staging_pitch(int wgmma_m)
{
  return wgmma_m * 32 + 16;
}

/* Bytes of the staging buffer of one warp. */
__host__ __device__ constexpr int staging_bytes(int wgmma_m, int tokens)
{
  return staged_tokens(tokens) * staging_pitch(wgmma_m);
}

/* The biases of a lane's rows of a warp's panels, in 16 bits: rows 0 to 7 of a panel, upper rows. Columns past the last
 * have any. All are requested before one is used.
 *   bias   [n] or NULL: 0
 *   row0   packed row of the warp's first column */
template <int WGMMA_M>
__device__ __forceinline__ void load_biases(const void *bias, int64_t n, bool is_gated, int64_t row0, int lane,
                                            uint16_t (&bits)[WGMMA_M][2])
{
#pragma unroll
  for (int i = 0; i < WGMMA_M * 2; i++) bits[i / 2][i % 2] = 0;
  if (!bias) return;
#pragma unroll
  for (int i = 0; i < WGMMA_M * 2; i++) {
    const int64_t column = column_of_row(row0 + i * 8 + lane / 4, n, is_gated);
    bits[i / 2][i % 2] = __ldg(static_cast<const uint16_t *>(bias) + min(column, n - 1));
  }
}

/* A gated activation other than those of swiglu: gates in acc become f(gate) * up, without a bias. A loop over copies
 * in local memory, since the unrolled code of these kinds would be most of a kernel's. */
template <int N, int WGMMA_M, int CAPACITY8>
__device__ __forceinline__ void apply_other_gates(const yk_activation &activation, float (&bias)[WGMMA_M][2],
                                                  float (&acc)[WGMMA_M][CAPACITY8][4])
{
  constexpr int PAIRS = N / 4; /* of a panel */
  float2 pairs[WGMMA_M * PAIRS];
#pragma unroll
  for (int i = 0; i < WGMMA_M * PAIRS; i++) {
    const float(&v)[4] = acc[i / PAIRS][i % PAIRS / 2], (&b)[2] = bias[i / PAIRS];
    pairs[i] = make_float2(v[i % 2] + b[0], v[2 + i % 2] + b[1]);
  }
#pragma unroll 1
  for (int i = 0; i < WGMMA_M * PAIRS; i++) pairs[i].x = yk_cuda::gated(activation, pairs[i].x, pairs[i].y);
#pragma unroll
  for (int i = 0; i < WGMMA_M * PAIRS; i++) acc[i / PAIRS][i % PAIRS / 2][i % 2] = pairs[i].x;
#pragma unroll
  for (int c = 0; c < WGMMA_M; c++) bias[c][0] = 0.0f;
}

/* f of a gate and its up; or the gate alone, which apply_other_gates has replaced. No branch: a branch for each chunk
 * of tokens would expose the latency of the exponentials. */
__device__ __forceinline__ float gated_unless_done(const yk_cuda::swiglu &f, bool is_done, float gate, float up)
{
  const float y = f(gate, up);
  return is_done ? gate : y;
}

/* Writes one warp's results, with biases that have been loaded (load_biases). A piece is 8 columns of one token, 16
 * bytes; with gates a panel's 8 gates and 8 ups make one.
 *   staging  address in shared memory, 16-byte aligned
 *   row0     packed row of the warp's first column
 *   acc      changed if GATED
 *   own      groups of 8 tokens to write; the others' accumulators are not complete */
template <yk_dtype DTYPE, int WGMMA_M, int N, bool GATED, int CAPACITY8>
__device__ __forceinline__ void write_biased(const wgmma_params &p, uint32_t staging, int64_t row0, int token0,
                                             n8_range own, int lane, const uint16_t (&bias_bits)[WGMMA_M][2],
                                             float (&acc)[WGMMA_M][CAPACITY8][4])
{
  constexpr int PIECES = GATED ? WGMMA_M : 2 * WGMMA_M, PITCH = staging_pitch(WGMMA_M), STAGED = staged_tokens(N);
  constexpr int ROWS = 32 / PIECES < STAGED ? 32 / PIECES : STAGED; /* tokens that the warp stores at once */
  int64_t width = GATED ? p.n / 2 : p.n, column = (GATED ? row0 / 2 : row0) + lane % PIECES * 8;
  float bias[WGMMA_M][2];
#pragma unroll
  for (int i = 0; i < WGMMA_M * 2; i++) bias[i / 2][i % 2] = load_float<DTYPE>(&bias_bits[i / 2][i % 2], 0);
  const yk_cuda::swiglu f = yk_cuda::swiglu::of(p.activation);
  const bool is_done = !yk_cuda::swiglu::covers(p.activation);
  if (GATED && is_done) apply_other_gates<N>(p.activation, bias, acc);
  int token = lane / PIECES, last = min(own.end * 8, p.m - token0);
  uint16_t *to = static_cast<uint16_t *>(p.y) + (token0 + token) * width + column;
  if (column >= width || token >= ROWS) last = 0;
  uint32_t put = staging + lane % 8 * PITCH + lane / 8 % PIECES * 16;
  uint32_t take = staging + lane / PIECES * PITCH + lane % PIECES * 16;
#pragma unroll
  for (int first = 0; first < N; first += STAGED, to += STAGED * width) {
    if (first >= own.end * 8 || first + STAGED <= own.first * 8) continue;
#pragma unroll
    for (int i = 0; i < STAGED / 8; i++) {
      if (first + i * 8 >= N) continue;
      uint32_t matrices[PIECES];
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++) {
        const float(&v)[4] = acc[c][first / 8 + i];
        float low0 = v[0] + bias[c][0], low1 = v[1] + bias[c][0], up0 = v[2] + bias[c][1], up1 = v[3] + bias[c][1];
        if constexpr (GATED) {
          matrices[c] = round_pair<element<DTYPE>>(gated_unless_done(f, is_done, low0, up0),
                                                   gated_unless_done(f, is_done, low1, up1));
        } else {
          matrices[c * 2] = round_pair<element<DTYPE>>(low0, low1);
          matrices[c * 2 + 1] = round_pair<element<DTYPE>>(up0, up1);
        }
      }
      stmatrix_trans<PIECES>(put + i * 8 * PITCH, matrices);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGED; i += ROWS) {
      int at = first + i + token;
      if (at >= own.first * 8 && at < last) store_global16(to + i * width, load_shared16(take + i * PITCH));
    }
    __syncwarp();
  }
}

/* The same, with the biases of p. */
template <yk_dtype DTYPE, int WGMMA_M, int N, bool GATED, int CAPACITY8>
__device__ __forceinline__ void write_output(const wgmma_params &p, uint32_t staging, int64_t row0, int token0,
                                             n8_range own, int lane, float (&acc)[WGMMA_M][CAPACITY8][4])
{
  uint16_t bias[WGMMA_M][2];
  load_biases(p.bias, p.n, GATED, row0, lane, bias);
  write_biased<DTYPE, WGMMA_M, N, GATED>(p, staging, row0, token0, own, lane, bias, acc);
}

/* The same as float32, without bias and activation: eight lanes write 32 neighbouring bytes of a token. */
template <int WGMMA_M, int N>
__device__ __forceinline__ void write_floats(const wgmma_params &p, int64_t row0, int token0, n8_range own, int lane,
                                             const float (&acc)[WGMMA_M][N / 8][4])
{
#pragma unroll
  for (int i = 0; i < N / 8; i++) {
    if (!own.holds(i)) continue;
#pragma unroll
    for (int j = 0; j < 4 * WGMMA_M; j++) {
      const int token = token0 + i * 8 + lane % 4 * 2 + j % 2;
      const int64_t column = row0 + j / 4 * 16 + j % 4 / 2 * 8 + lane / 4;
      if (token < p.m && column < p.n) static_cast<float *>(p.y)[token * p.y_stride + column] = acc[j / 4][i][j % 4];
    }
  }
}

} // namespace yk_gemm

#endif
