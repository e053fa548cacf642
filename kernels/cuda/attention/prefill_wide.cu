/* prefill_wide.cu - prefill of heads of 512 on mma.sync fed by cp.async.
 *
 * As in prefill_mma_sync_kernel.cuh, but the registers of a warp do not hold the queries and the output of 16 rows: two
 * warps, a pair, share the rows, each with half of the dimensions. Each multiplies its half of Q and K; they exchange
 * these scores in shared memory and add them, so that both have the same probabilities; each then computes its half of
 * the output. A thread block has four pairs: tile M 64, tile N 32. */
#include "kernels/cuda/attention/prefill_wide.cuh"

#include "kernels/cuda/attention/gates.cuh"
#include "kernels/cuda/attention/prefill_scheduler.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_attn {

constexpr int WIDE_HD = 512, WIDE_HALF = WIDE_HD / 2;
constexpr int WIDE_PAIRS = 4, WIDE_THREADS = WIDE_PAIRS * 64, WIDE_TILE_M = WIDE_PAIRS * 16, WIDE_TILE_N = 32;
constexpr int WIDE_ROW_BYTES = WIDE_HD * 2 + 16, WIDE_CHUNKS = WIDE_HD / 8; /* chunks of 16 bytes in a row */
constexpr int WIDE_S = WIDE_TILE_N / 8, WIDE_O = WIDE_HALF / 8; /* tiles of 8 columns: of scores; of half the output */

struct wide_shared {
  struct alignas(16) key_tile {
    char k[WIDE_TILE_N * WIDE_ROW_BYTES], v[WIDE_TILE_N * WIDE_ROW_BYTES];
  };
  key_tile stage[2];
  float scores[WIDE_PAIRS][2][WIDE_S * 4][32]; /* of a pair's warps; of each lane */
  static_assert(sizeof(key_tile) >= WIDE_TILE_M * WIDE_ROW_BYTES, "a stage holds the queries");
};

/* A thread's part of a work tile. Lane (g, t) = (lane / 4, lane % 4) of pair i holds rows 16 i + g + {0, 8}. */
template <typename T> struct wide_tile {
  wide_shared &s;
  const params &p;
  const work_tile &w;
  uint32_t q[WIDE_HALF / 16][4];
  float o[WIDE_O][4], scale_log2[2], m[2], l[2];

  __device__ static int pair()
  {
    return threadIdx.x / 32 % WIDE_PAIRS;
  }

  /* The warp's half of the dimensions: 0 or 1. */
  __device__ static int half()
  {
    return threadIdx.x / 32 / WIDE_PAIRS;
  }

  /* The queries' place: the stage that the first key tile does not use. */
  __device__ uint32_t q_address() const
  {
    return shared_address(&s.stage[w.key_tile_end % 2]);
  }

  /* Issues the copies of the queries; rows past the tile's last row become zeros. */
  __device__ void load_q()
  {
    const T *src = static_cast<const T *>(p.q) + static_cast<int64_t>(w.row) * p.q_stride +
                   static_cast<int64_t>(w.head_begin) * WIDE_HD;
    for (int i = threadIdx.x; i < WIDE_TILE_M * WIDE_CHUNKS; i += WIDE_THREADS) {
      const int r = i / WIDE_CHUNKS, c = i % WIDE_CHUNKS;
      const bool valid = r < w.n_rows;
      const int64_t at = valid ? r / w.n_heads * p.q_stride + r % w.n_heads * WIDE_HD + c * 8 : 0;
      cp_async_16(q_address() + r * WIDE_ROW_BYTES + c * 16, src + at, valid);
    }
  }

  /* Issues the copies of a key tile's K and V into stage tile % 2; tokens past the sequence's last token become
   * zeros. */
  __device__ void load_kv(int32_t tile)
  {
    const int32_t *table = p.block_tables + static_cast<int64_t>(w.seq) * p.block_table_stride;
    const uint32_t k = shared_address(s.stage[tile % 2].k), v = shared_address(s.stage[tile % 2].v);
    for (int i = threadIdx.x; i < WIDE_TILE_N * WIDE_CHUNKS; i += WIDE_THREADS) {
      const int r = i / WIDE_CHUNKS, c = i % WIDE_CHUNKS, token = tile * WIDE_TILE_N + r;
      const bool valid = token < w.kv_tokens;
      int64_t at = 0;
      if (valid) {
        const int64_t page = static_cast<int64_t>(table[token / PAGE_TOKENS]) * p.heads.n_kv_heads + w.kv_head;
        at = (page * PAGE_TOKENS + token % PAGE_TOKENS) * WIDE_HD + c * 8;
      }
      cp_async_16(k + r * WIDE_ROW_BYTES + c * 16, static_cast<const T *>(p.k) + at, valid);
      cp_async_16(v + r * WIDE_ROW_BYTES + c * 16, static_cast<const T *>(p.v) + at, valid);
    }
  }

  /* The position in its sequence of the lane's row g + 8 e. */
  __device__ int32_t position(int e) const
  {
    const int r = pair() * 16 + threadIdx.x % 32 / 4 + 8 * e;
    return w.position + min(r, w.n_rows - 1) / w.n_heads;
  }

  /* Loads the warp's half of the queries, whose copies have landed, into registers; clears the output. */
  __device__ void start()
  {
    const int lane = threadIdx.x % 32;
    const uint32_t row = q_address() + (pair() * 16 + lane % 16) * WIDE_ROW_BYTES + half() * WIDE_HALF * 2;
#pragma unroll
    for (int i = 0; i < WIDE_HALF / 16; i++) ldmatrix_x4(q[i], row + i * 32 + lane / 16 * 16);
#pragma unroll
    for (int i = 0; i < WIDE_O; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[i][e] = 0.0f;
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      scale_log2[e] = scale_log2_at(p, position(e));
      m[e] = -INFINITY;
      l[e] = 0.0f;
    }
  }

  /* Adds the scores over the pair's other half of the dimensions. A barrier of the pair; the thread block's barrier
   * after each key tile protects the exchanged data. */
  __device__ void add_other_half(float (&score)[WIDE_S][4])
  {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < WIDE_S * 4; i++) s.scores[pair()][half()][i][lane] = score[i / 4][i % 4];
    named_barrier_sync(1 + pair(), 64);
#pragma unroll
    for (int i = 0; i < WIDE_S * 4; i++) score[i / 4][i % 4] += s.scores[pair()][half() ^ 1][i][lane];
  }

  /* Sets scores of tokens that the rows do not attend to to minus infinity. */
  __device__ void mask(int32_t tile, float (&score)[WIDE_S][4]) const
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t high = position(e) - tile * WIDE_TILE_N - 2 * t;
      const int32_t low = first_visible_at(p, position(e)) - tile * WIDE_TILE_N - 2 * t - 1;
#pragma unroll
      for (int i = 0; i < WIDE_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++)
          if (8 * i + c > high || 8 * i + c <= low) score[i][2 * e + c] = -INFINITY;
      }
    }
  }

  /* Scores, online softmax and output of one key tile. */
  __device__ void compute(int32_t tile)
  {
    const int lane = threadIdx.x % 32;
    const uint32_t k = shared_address(s.stage[tile % 2].k) + half() * WIDE_HALF * 2;
    const uint32_t v = shared_address(s.stage[tile % 2].v) + half() * WIDE_HALF * 2;
    float score[WIDE_S][4] = {}, rescale[2];
    uint32_t prob[WIDE_S / 2][4];
#pragma unroll
    for (int i = 0; i < WIDE_HALF / 16; i++) {
#pragma unroll
      for (int j = 0; j < WIDE_S / 2; j++) {
        uint32_t b[4]; /* dimensions 0..7 and 8..15 of tokens 16 j .. +7, then of tokens 16 j + 8 .. */
        ldmatrix_x4(b, k + (j * 16 + lane / 16 * 8 + lane % 8) * WIDE_ROW_BYTES + i * 32 + lane / 8 % 2 * 16);
        mma_m16n8k16<T>(score[2 * j], q[i][0], q[i][1], q[i][2], q[i][3], b[0], b[1]);
        mma_m16n8k16<T>(score[2 * j + 1], q[i][0], q[i][1], q[i][2], q[i][3], b[2], b[3]);
      }
    }
    add_other_half(score);
    mask(tile, score);
    yk_cuda::online_softmax(score, scale_log2, m, l, rescale);
    yk_cuda::scale_rows(o, rescale);
    yk_cuda::round_to_operand<T>(score, prob);
#pragma unroll
    for (int j = 0; j < WIDE_S / 2; j++) {
#pragma unroll
      for (int i = 0; i < WIDE_O / 2; i++) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, v + (j * 16 + lane % 16) * WIDE_ROW_BYTES + i * 32 + lane / 16 * 16);
        mma_m16n8k16<T>(o[2 * i], prob[j][0], prob[j][1], prob[j][2], prob[j][3], b[0], b[1]);
        mma_m16n8k16<T>(o[2 * i + 1], prob[j][0], prob[j][1], prob[j][2], prob[j][3], b[2], b[3]);
      }
    }
  }

  /* Divides by the sums, applies the gates and writes the warp's half of the output. */
  __device__ void store()
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int r = pair() * 16 + threadIdx.x % 32 / 4 + 8 * e;
      const int32_t row = w.row + r / w.n_heads, head = w.head_begin + r % w.n_heads;
      const float sum = add_sink(p, head, m[e] * scale_log2[e], yk_cuda::quad_sum(l[e]));
      const int64_t first = static_cast<int64_t>(head) * WIDE_HD + half() * WIDE_HALF;
      if (p.heads.has_gates) gate_row(p.dtype, gates_of(p, row, head) + half() * WIDE_HALF, o, e, r < w.n_rows);
      yk_cuda::store_row<T>(static_cast<T *>(p.y) + row * p.y_stride + first, o, e, 1.0f / sum, r < w.n_rows);
    }
  }
};

/* Grid: one thread block per multiprocessor. tokens_per_tile: as many as fill a work tile for the KV head with most
 * query heads. */
template <typename T>
__global__ void __launch_bounds__(WIDE_THREADS, 1) prefill_wide_kernel(const params p, int32_t tokens_per_tile)
{
  extern __shared__ __align__(128) char memory[];
  wide_shared &s = *reinterpret_cast<wide_shared *>(memory);
  wait_for_previous_kernel();
  tile_scheduler<WIDE_TILE_N> scheduler;
  for (int32_t index = blockIdx.x;; index += gridDim.x) {
    const work_tile w = scheduler.find(p, index, tokens_per_tile);
    if (w.seq < 0) break;
    wide_tile<T> tile = {s, p, w};
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

template <typename T>
cudaError_t launch_prefill_wide(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  if (sizeof(wide_shared) > static_cast<size_t>(device.smem_bytes)) return cudaErrorNotSupported;
  return launch_kernel(prefill_wide_kernel<T>, device.n_sms, WIDE_THREADS, sizeof(wide_shared), stream, p,
                       WIDE_TILE_M / max_heads_per_kv(p.heads));
}

template cudaError_t launch_prefill_wide<__half>(const yk_cuda_attention &, const params &, cudaStream_t);
template cudaError_t launch_prefill_wide<__nv_bfloat16>(const yk_cuda_attention &, const params &, cudaStream_t);

} // namespace yk_attn
