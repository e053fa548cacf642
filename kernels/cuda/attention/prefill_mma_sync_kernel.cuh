/* prefill_mma_sync_kernel.cuh - prefill on GPUs without wgmma: mma.sync fed by cp.async.
 *
 * A thread block of 4 warps computes work tiles number blockIdx.x, blockIdx.x + gridDim.x, ... A work tile has 64
 * packed rows (tile M), 16 per warp; keys are processed in tiles of 64 tokens (tile N; 32 for heads of 256), from the
 * last visible tile to the first. K and V have two stages: all warps issue the copies of the next key tile, compute the
 * current tile, and synchronise, after which the copies have landed for every thread. Queries arrive in the stage that
 * the first key tile does not use and stay in registers. Rows in shared memory are padded by 16 bytes, so that the 8
 * rows of a matrix that ldmatrix reads are in different banks. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_MMA_SYNC_KERNEL_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_MMA_SYNC_KERNEL_CUH

#include "kernels/cuda/attention/gates.cuh"
#include "kernels/cuda/attention/prefill_mma_sync.cuh"
#include "kernels/cuda/attention/prefill_scheduler.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_attn {

constexpr int MMA_SYNC_THREADS = 128, MMA_SYNC_TILE_M = 64;

template <int HD> struct mma_sync_shared {
  static constexpr int TILE_N = HD > 128 ? 32 : 64, ROW_BYTES = HD * 2 + 16;
  struct alignas(16) key_tile {
    char k[TILE_N * ROW_BYTES], v[TILE_N * ROW_BYTES];
  };
  key_tile stage[2];
  static_assert(sizeof(key_tile) >= MMA_SYNC_TILE_M * ROW_BYTES, "a stage holds the queries");
};

/* A thread's part of a work tile. Lane (g, t) = (lane / 4, lane % 4) of warp i holds rows 16 i + g + {0, 8}. */
template <typename T, int HD> struct mma_sync_tile {
  static constexpr int ROW_BYTES = mma_sync_shared<HD>::ROW_BYTES, CHUNKS = HD / 8; /* chunks of 16 bytes in a row */
  static constexpr int N_K = HD / 16; /* mma steps of Q K^T along head_dim */
  static constexpr int TILE_N = mma_sync_shared<HD>::TILE_N;
  static constexpr int N_O = HD / 8, N_S = TILE_N / 8; /* tiles of 8 columns: of the output, of the scores */

  mma_sync_shared<HD> &s;
  const params &p;
  const work_tile &w;
  uint32_t q[N_K][4];
  float o[N_O][4], scale_log2[2], m[2], l[2];

  /* The queries' place: the stage that the first key tile does not use. */
  __device__ uint32_t q_address() const
  {
    return shared_address(&s.stage[w.key_tile_end % 2]);
  }

  /* Issues the copies of the queries; rows past the tile's last row become zeros. */
  __device__ void load_q()
  {
    const T *src = static_cast<const T *>(p.q) + static_cast<int64_t>(w.row) * p.q_stride +
                   static_cast<int64_t>(w.head_begin) * HD;
    for (int i = threadIdx.x; i < MMA_SYNC_TILE_M * CHUNKS; i += MMA_SYNC_THREADS) {
      const int r = i / CHUNKS, c = i % CHUNKS;
      const bool valid = r < w.n_rows;
      const int64_t at = valid ? r / w.n_heads * p.q_stride + r % w.n_heads * HD + c * 8 : 0;
      cp_async_16(q_address() + r * ROW_BYTES + c * 16, src + at, valid);
    }
  }

  /* Issues the copies of a key tile's K and V into stage tile % 2; tokens past the sequence's last token become
   * zeros. */
  __device__ void load_kv(int32_t tile)
  {
    const int32_t *table = p.block_tables + static_cast<int64_t>(w.seq) * p.block_table_stride;
    const uint32_t k = shared_address(s.stage[tile % 2].k), v = shared_address(s.stage[tile % 2].v);
    for (int i = threadIdx.x; i < TILE_N * CHUNKS; i += MMA_SYNC_THREADS) {
      const int r = i / CHUNKS, c = i % CHUNKS, token = tile * TILE_N + r;
      const bool valid = token < w.kv_tokens;
      int64_t at = 0;
      if (valid) {
        const int64_t page = static_cast<int64_t>(table[token / PAGE_TOKENS]) * p.heads.n_kv_heads + w.kv_head;
        at = (page * PAGE_TOKENS + token % PAGE_TOKENS) * HD + c * 8;
      }
      cp_async_16(k + r * ROW_BYTES + c * 16, static_cast<const T *>(p.k) + at, valid);
      cp_async_16(v + r * ROW_BYTES + c * 16, static_cast<const T *>(p.v) + at, valid);
    }
  }

  /* Loads the queries, whose copies have landed, into registers; clears the output. */
  __device__ void start()
  {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < N_K; i++)
      ldmatrix_x4(q[i], q_address() + (warp * 16 + lane % 16) * ROW_BYTES + i * 32 + lane / 16 * 16);
#pragma unroll
    for (int i = 0; i < N_O; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[i][e] = 0.0f;
    }
    for (int e = 0; e < 2; e++) scale_log2[e] = scale_log2_at(p, position(e));
    m[0] = m[1] = -INFINITY;
    l[0] = l[1] = 0.0f;
  }

  /* The position in its sequence of the lane's row g + 8 e. */
  __device__ int32_t position(int e) const
  {
    const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
    return w.position + min(r, w.n_rows - 1) / w.n_heads;
  }

  /* Scores, online softmax and output of one key tile. */
  __device__ void compute(int32_t tile)
  {
    const int lane = threadIdx.x % 32;
    const uint32_t k = shared_address(s.stage[tile % 2].k), v = shared_address(s.stage[tile % 2].v);
    float score[N_S][4] = {};
#pragma unroll
    for (int i = 0; i < N_K; i++) {
#pragma unroll
      for (int j = 0; j < N_S / 2; j++) {
        uint32_t b[4]; /* dimensions 0..7 and 8..15 of tokens 16 j .. +7, then of tokens 16 j + 8 .. */
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

  /* Masks, then applies the online softmax: scores become probabilities, the output so far is rescaled to the new
   * maximum. */
  __device__ void softmax(int32_t tile, float (&score)[N_S][4])
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t high = position(e) - tile * TILE_N - 2 * t;
      const int32_t low = first_visible_at(p, position(e)) - tile * TILE_N - 2 * t - 1;
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
      const float shift = top == -INFINITY ? 0.0f : top * scale_log2[e]; /* no visible token so far */
      const float rescale = exp2_approx(m[e] * scale_log2[e] - shift);
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          score[i][2 * e + c] = exp2_approx(score[i][2 * e + c] * scale_log2[e] - shift);
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

  /* Divides by the sums, applies the gates and writes the output. */
  __device__ void store()
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float sum = l[e];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      const int32_t row = w.row + r / w.n_heads, head = w.head_begin + r % w.n_heads;
      sum = add_sink(p, head, m[e] * scale_log2[e], sum);
      if (p.heads.has_gates) gate_row(p.dtype, gates_of(p, row, head), o, e, r < w.n_rows);
      if (r >= w.n_rows) continue;
      T *y = static_cast<T *>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * HD;
#pragma unroll
      for (int i = 0; i < N_O; i++)
        *reinterpret_cast<uint32_t *>(y + 8 * i + 2 * t) = round_pair<T>(o[i][2 * e] / sum, o[i][2 * e + 1] / sum);
    }
  }
};

/* Grid: two thread blocks per multiprocessor. tokens_per_tile: as many as fill a work tile for the KV head with most
 * query heads. */
template <typename T, int HD>
__global__ void __launch_bounds__(MMA_SYNC_THREADS) prefill_mma_sync_kernel(const params p, int32_t tokens_per_tile)
{
  extern __shared__ __align__(128) char memory[];
  mma_sync_shared<HD> &s = *reinterpret_cast<mma_sync_shared<HD> *>(memory);
  wait_for_previous_kernel();
  tile_scheduler<mma_sync_shared<HD>::TILE_N> scheduler;
  for (int32_t index = blockIdx.x;; index += gridDim.x) {
    const work_tile w = scheduler.find(p, index, tokens_per_tile);
    if (w.seq < 0) break;
    mma_sync_tile<T, HD> tile = {s, p, w};
    tile.load_q();
    tile.load_kv(w.key_tile_end - 1);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    tile.start();
    __syncthreads(); /* every warp has loaded its queries, so their stage may be filled */
    for (int32_t i = w.key_tile_end - 1; i >= w.key_tile_begin; i--) {
      if (i > w.key_tile_begin) tile.load_kv(i - 1);
      cp_async_commit();
      tile.compute(i);
      cp_async_wait<0>();
      __syncthreads();
    }
    tile.store();
  }
}

template <typename T, int HD>
cudaError_t launch_prefill_mma_sync(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  return launch_kernel(prefill_mma_sync_kernel<T, HD>, device.n_sms * 2, MMA_SYNC_THREADS, sizeof(mma_sync_shared<HD>),
                       stream, p, MMA_SYNC_TILE_M / max_heads_per_kv(p.heads));
}

} // namespace yk_attn

#endif
