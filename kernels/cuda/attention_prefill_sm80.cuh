/* attention_prefill_sm80.cuh - many query rows per sequence on GPUs without warpgroup matrix instructions.
 *
 * A work tile is 64 packed rows, 16 a warp; keys are taken in tiles of 64 tokens, the next tile on its way while this
 * one is computed. Shared rows are padded by 16 bytes, so that 8 rows of a matrix read hit different banks. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_SM80_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_SM80_CUH

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_attn {

constexpr int SM80_THREADS = 128, SM80_ROWS = 64, SM80_TOKENS = 64;

template <int HD> struct prefill_sm80_shared {
  static constexpr int ROW_BYTES = HD * 2 + 16;
  alignas(16) char q[SM80_ROWS * ROW_BYTES];
  alignas(16) char k[2][SM80_TOKENS * ROW_BYTES];
  alignas(16) char v[2][SM80_TOKENS * ROW_BYTES];
};

template <typename T, int HD> struct prefill_sm80_tile {
  static constexpr int ROW_BYTES = prefill_sm80_shared<HD>::ROW_BYTES, CHUNKS = HD / 8;
  static constexpr int N_K = HD / 16, N_O = HD / 8, N_S = SM80_TOKENS / 8;

  prefill_sm80_shared<HD> &s;
  const params &p;
  const work_tile &w;
  uint32_t q[N_K][4];
  float o[N_O][4], m[2], l[2];

  __device__ void load_q()
  {
    const T *src = (const T *)p.q + (int64_t)w.row * p.q_stride + (int64_t)w.head_begin * HD;
    for (int i = threadIdx.x; i < SM80_ROWS * CHUNKS; i += SM80_THREADS) {
      const int r = i / CHUNKS, c = i % CHUNKS;
      const bool valid = r < w.n_rows;
      const int64_t at = valid ? r / w.n_heads * p.q_stride + r % w.n_heads * HD + c * 8 : 0;
      cp_async_16(shared_address(s.q) + r * ROW_BYTES + c * 16, src + at, valid);
    }
  }

  __device__ void load_kv(int32_t tile)
  {
    const int32_t *table = p.block_tables + (int64_t)w.seq * p.block_table_stride;
    const uint32_t k = shared_address(s.k[tile % 2]), v = shared_address(s.v[tile % 2]);
    for (int i = threadIdx.x; i < SM80_TOKENS * CHUNKS; i += SM80_THREADS) {
      const int r = i / CHUNKS, c = i % CHUNKS, token = tile * SM80_TOKENS + r;
      const bool valid = token < w.kv_tokens;
      int64_t at = 0;
      if (valid) {
        const int64_t page = (int64_t)table[token / PAGE_TOKENS] * p.heads.n_kv_heads + w.kv_head;
        at = (page * PAGE_TOKENS + token % PAGE_TOKENS) * HD + c * 8;
      }
      cp_async_16(k + r * ROW_BYTES + c * 16, (const T *)p.k + at, valid);
      cp_async_16(v + r * ROW_BYTES + c * 16, (const T *)p.v + at, valid);
    }
  }

  __device__ void start()
  {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < N_K; i++)
      ldmatrix_x4(q[i], shared_address(s.q) + (warp * 16 + lane % 16) * ROW_BYTES + i * 32 + lane / 16 * 16);
#pragma unroll
    for (int i = 0; i < N_O; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[i][e] = 0.0f;
    }
    m[0] = m[1] = -INFINITY;
    l[0] = l[1] = 0.0f;
  }

  __device__ int32_t position(int e) const
  {
    const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
    return w.position + min(r, w.n_rows - 1) / w.n_heads;
  }

  __device__ void compute(int32_t tile)
  {
    const int lane = threadIdx.x % 32;
    const uint32_t k = shared_address(s.k[tile % 2]), v = shared_address(s.v[tile % 2]);
    float score[N_S][4] = {};
#pragma unroll
    for (int i = 0; i < N_K; i++) {
#pragma unroll
      for (int j = 0; j < N_S / 2; j++) {
        uint32_t b[4]; /* k 0..7 and 8..15 of tokens 16 j .. +7, then of tokens 16 j + 8 .. */
        ldmatrix_x4(b, k + (j * 16 + lane / 16 * 8 + lane % 8) * ROW_BYTES + i * 32 + lane / 8 % 2 * 16);
        mma_m16n8k16<T>(score[2 * j], q[i][0], q[i][1], q[i][2], q[i][3], b[0], b[1]);
        mma_m16n8k16<T>(score[2 * j + 1], q[i][0], q[i][1], q[i][2], q[i][3], b[2], b[3]);
      }
    }
    softmax(tile, score);
#pragma unroll
    for (int j = 0; j < N_S / 2; j++) {
      const uint32_t a0 = round_pair<T>(score[2 * j][0], score[2 * j][1]),
                     a1 = round_pair<T>(score[2 * j][2], score[2 * j][3]);
      const uint32_t a2 = round_pair<T>(score[2 * j + 1][0], score[2 * j + 1][1]);
      const uint32_t a3 = round_pair<T>(score[2 * j + 1][2], score[2 * j + 1][3]);
#pragma unroll
      for (int i = 0; i < N_O / 2; i++) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, v + (j * 16 + lane % 16) * ROW_BYTES + i * 32 + lane / 16 * 16);
        mma_m16n8k16<T>(o[2 * i], a0, a1, a2, a3, b[0], b[1]);
        mma_m16n8k16<T>(o[2 * i + 1], a0, a1, a2, a3, b[2], b[3]);
      }
    }
  }

  __device__ void softmax(int32_t tile, float (&score)[N_S][4])
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t high = position(e) - tile * SM80_TOKENS - 2 * t;
      const int32_t low = p.window_tokens > 0 ? high - p.window_tokens : -SM80_TOKENS;
      float top = m[e];
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (8 * i + c > high || 8 * i + c <= low) score[i][2 * e + c] = -INFINITY;
          top = fmaxf(top, score[i][2 * e + c]);
        }
      }
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float shift = top == -INFINITY ? 0.0f : top * p.scale_log2; /* a row that has seen no token yet */
      const float rescale = exp2_approx(m[e] * p.scale_log2 - shift);
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          score[i][2 * e + c] = exp2_approx(score[i][2 * e + c] * p.scale_log2 - shift);
          sum += score[i][2 * e + c];
        }
      }
      m[e] = top;
      l[e] = l[e] * rescale + sum;
#pragma unroll
      for (int i = 0; i < N_O; i++) {
        o[i][2 * e] *= rescale;
        o[i][2 * e + 1] *= rescale;
      }
    }
  }

  __device__ void store()
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float sum = l[e];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      if (r >= w.n_rows) continue;
      T *y = (T *)p.y + (int64_t)(w.row + r / w.n_heads) * p.y_stride + (int64_t)(w.head_begin + r % w.n_heads) * HD;
#pragma unroll
      for (int i = 0; i < N_O; i++)
        *(uint32_t *)(y + 8 * i + 2 * t) = round_pair<T>(o[i][2 * e] / sum, o[i][2 * e + 1] / sum);
    }
  }
};

template <typename T, int HD>
__global__ void __launch_bounds__(SM80_THREADS) prefill_sm80_kernel(const params p, int32_t tokens_per_tile)
{
  extern __shared__ __align__(128) char memory[];
  prefill_sm80_shared<HD> &s = *(prefill_sm80_shared<HD> *)memory;
  wait_for_previous_kernel();
  tile_source<SM80_TOKENS> source;
  for (int32_t index = blockIdx.x;; index += gridDim.x) {
    const work_tile w = source.find(p, index, tokens_per_tile);
    if (w.seq < 0) break;
    prefill_sm80_tile<T, HD> tile = {s, p, w};
    tile.load_q();
    tile.load_kv(w.tile_end - 1);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    tile.start();
    for (int32_t i = w.tile_end - 1; i >= w.tile_begin; i--) {
      if (i > w.tile_begin) tile.load_kv(i - 1);
      cp_async_commit();
      tile.compute(i);
      cp_async_wait<0>();
      __syncthreads();
    }
    tile.store();
  }
}

template <typename T, int HD>
cudaError_t launch_prefill_sm80_as(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  return launch_blocks(prefill_sm80_kernel<T, HD>, device.n_sms * 2, SM80_THREADS, sizeof(prefill_sm80_shared<HD>),
                       stream, p, SM80_ROWS / max_heads_per_kv(p.heads));
}

template <typename T>
cudaError_t launch_prefill_sm80(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  switch (p.heads.head_dim) {
  case 64: return launch_prefill_sm80_as<T, 64>(device, p, stream);
  case 80: return launch_prefill_sm80_as<T, 80>(device, p, stream);
  case 96: return launch_prefill_sm80_as<T, 96>(device, p, stream);
  case 128: return launch_prefill_sm80_as<T, 128>(device, p, stream);
  default: return cudaErrorInvalidValue;
  }
}

} // namespace yk_attn

#endif
