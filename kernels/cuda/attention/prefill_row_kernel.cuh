/* prefill_row_kernel.cuh - decode with the bits of prefill on Hopper: the key tiles, the online softmax and the order
 * of all sums are those of prefill_wgmma_consumer.cuh, and mma.sync gives the bits of wgmma.
 *
 *   grid        two thread blocks per multiprocessor, at most one for each work item; a work item is a sequence with
 *               one row, times a KV head. Thread block i takes items i, i + gridDim.x, and so on
 *   producer    warp 4: key tiles, from the last visible one to the first: pages of K, then of V (TMA, 128-byte
 *               swizzle) --> a ring of stages. Pages past the sequence's end are not copied
 *   consumers   warps 0 to 3, of one work item: the query heads are the rows of an A operand of 16 rows
 *                 S = Q K^T: 32 tokens each | maximum of all warps | probabilities --> shared memory
 *                 O += P V: a quarter of the dimensions each
 *               A lane's sum of probabilities in prefill is over columns of the whole key tile: warps 0 and 1 add them
 *               in that order, rows 0 to 7 and rows 8 to 15
 *
 * Tokens past the end have the probability 0, so their scores and products are left out, which changes no bit.
 *
 *   barrier   arrivals          waits
 *   full      TMA               consumers
 *   empty     consumer warps    producer, before reusing the stage */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_KERNEL_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_KERNEL_CUH

#include <cuda.h>

#include "kernels/cuda/attention/prefill_row.cuh"
#include "kernels/cuda/attention/prefill_tensor_map.cuh"
#include "kernels/cuda/attention/prefill_wgmma_shared.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_attn {

constexpr int ROW_WARPS = 4, ROW_THREADS = (ROW_WARPS + 1) * 32; /* consumers; of a thread block */
constexpr int ROW_STAGES = 3;                                    /* two thread blocks fit on a multiprocessor */
constexpr int ROW_HEADS = 16;                                    /* rows of the A operand */
constexpr int ROW_CONSUMERS_BARRIER = 1;

template <int HD> struct row_shared {
  using tiles = prefill_tiles<HD>;
  static constexpr int TILE_N = tiles::TILE_N;
  /* 16 and 32 bytes more than a row: rows of a column are in different banks. */
  static constexpr int PROB_BYTES = TILE_N * 2 + 16, SUM_FLOATS = TILE_N + 8;
  alignas(1024) char kv[ROW_STAGES][tiles::N_COLUMN_BLOCKS * tiles::KV_BLOCK_BYTES];
  alignas(16) char prob[ROW_HEADS * PROB_BYTES]; /* T [heads, tokens] */
  float exact[ROW_HEADS][SUM_FLOATS];            /* the same before they are rounded */
  float largest[ROW_WARPS][ROW_HEADS], sum[ROW_HEADS];
  uint64_t full[ROW_STAGES], empty[ROW_STAGES];
};

/* A work item: kv_tokens is 0 if there is none, or if its sequence has another number of rows. */
struct row_item {
  int32_t seq, kv_head, row, kv_tokens;

  __device__ static row_item at(const params &p, int32_t index)
  {
    row_item item = {yk_cuda::quotient(index, p.heads.n_kv_heads), 0, 0, 0};
    if (item.seq >= p.n_seqs) return item;
    item.kv_head = index - item.seq * p.heads.n_kv_heads;
    item.row = p.row_starts[item.seq];
    if (p.row_starts[item.seq + 1] - item.row == 1) item.kv_tokens = p.kv_tokens[item.seq];
    return item;
  }

  /* Number of key tiles from the first token to the last, and of the first visible one. */
  template <int TILE_N> __device__ int32_t tile_end() const
  {
    return (kv_tokens + TILE_N - 1) / TILE_N;
  }
  template <int TILE_N> __device__ int32_t tile_begin(const params &p) const
  {
    return kv_tokens > 0 ? first_visible_at(p, kv_tokens - 1) / TILE_N : 0;
  }
};

#if defined(YK_HAVE_SM90A)

/* Lane l copies column block l / KEY_TILE_PAGES of page l % KEY_TILE_PAGES of each key tile. */
template <int HD> struct row_producer {
  using tiles = prefill_tiles<HD>;

  row_shared<HD> &s;
  const params &p;
  const void *k_map, *v_map;
  yk_cuda::ring_position at;

  __device__ __forceinline__ static int page()
  {
    return threadIdx.x % 32 % tiles::KEY_TILE_PAGES;
  }

  /* The tensor map's row of the lane's page of a key tile; past the end, of the last page. */
  __device__ __forceinline__ int32_t map_row(const row_item &item, int32_t tile) const
  {
    if (item.kv_tokens == 0) return 0;
    const int32_t last = (item.kv_tokens - 1) / PAGE_TOKENS;
    const int32_t block = p.block_tables[static_cast<int64_t>(item.seq) * p.block_table_stride +
                                         min(tile * tiles::KEY_TILE_PAGES + page(), last)];
    return (block * p.heads.n_kv_heads + item.kv_head) * PAGE_TOKENS;
  }

  __device__ __forceinline__ void copy(const void *map, int32_t row, int32_t n_pages)
  {
    const int block = threadIdx.x % 32 / tiles::KEY_TILE_PAGES;
    mbarrier_wait_loop(&s.empty[at.stage], at.phase ^ 1);
    if (elect_one()) mbarrier_arrive_expect(&s.full[at.stage], n_pages * tiles::N_COLUMN_BLOCKS * PAGE_TOKENS * 128);
    __syncwarp();
    if (block < tiles::N_COLUMN_BLOCKS && page() < n_pages)
      tensor_copy(shared_address(s.kv[at.stage]) + block * tiles::KV_BLOCK_BYTES + page() * PAGE_TOKENS * 128, map,
                  block * 64, row, &s.full[at.stage]);
    __syncwarp();
    at.advance(ROW_STAGES);
  }

  __device__ void run()
  {
    row_item item = row_item::at(p, blockIdx.x);
    int32_t tile = item.tile_end<tiles::TILE_N>() - 1, row = map_row(item, tile);
    wait_for_previous_kernel();
    for (int32_t index = blockIdx.x; index < p.n_seqs * p.heads.n_kv_heads; index += gridDim.x) {
      const row_item next = row_item::at(p, index + gridDim.x);
      const int32_t begin = item.tile_begin<tiles::TILE_N>(p), next_tile = next.tile_end<tiles::TILE_N>() - 1;
      if (tile < begin) row = map_row(next, next_tile);
      for (; tile >= begin; tile--) {
        const int32_t next_row = tile > begin ? map_row(item, tile - 1) : map_row(next, next_tile);
        const int32_t n_tokens = min(item.kv_tokens - tile * tiles::TILE_N, tiles::TILE_N);
        const int32_t n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
        copy(k_map, row, n_pages);
        copy(v_map, row, n_pages);
        row = next_row;
      }
      item = next;
      tile = next_tile;
    }
  }
};

/* Lane (g, t) = (lane / 4, lane % 4) of every consumer warp has query heads g (e = 0) and g + 8 (e = 1). */
template <typename T, int HD> struct row_consumer {
  using tiles = prefill_tiles<HD>;
  using shared = row_shared<HD>;
  static constexpr int TILE_N = tiles::TILE_N, N_K16 = HD / 16;
  static constexpr int N_S = TILE_N / 8 / ROW_WARPS, WARP_TOKENS = N_S * 8; /* of the warp's scores */
  static constexpr int N_O = (HD / 8 + ROW_WARPS - 1) / ROW_WARPS;          /* of the warp's output */

  shared &s;
  const params &p;
  const int warp, g, t;
  yk_cuda::ring_position at;
  uint32_t q[N_K16][4];
  float scale_log2, m[2], l; /* l: of heads g (warp 0) or g + 8 (warp 1), the lane's own */

  __device__ row_consumer(shared &memory, const params &arguments)
      : s(memory), p(arguments), warp(threadIdx.x / 32), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4)
  {
  }

  __device__ __forceinline__ static void sync()
  {
    named_barrier_sync(ROW_CONSUMERS_BARRIER, ROW_WARPS * 32);
  }

  /* Address in a stage of the 16 bytes of dimensions 8 chunk .. 8 chunk + 7 of a token. */
  __device__ __forceinline__ static uint32_t piece_at(uint32_t stage, int token, int chunk)
  {
    return stage + chunk / 8 * tiles::KV_BLOCK_BYTES + token * 128 + ((chunk ^ token) & 7) * 16;
  }

  __device__ __forceinline__ uint32_t wait()
  {
    mbarrier_wait_loop(&s.full[at.stage], at.phase);
    return shared_address(s.kv[at.stage]);
  }

  __device__ __forceinline__ void release()
  {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&s.empty[at.stage]);
    at.advance(ROW_STAGES);
  }

  __device__ __forceinline__ void load_queries(const row_item &item, const head_range &heads)
  {
    const T *row = static_cast<const T *>(p.q) + item.row * p.q_stride + static_cast<int64_t>(heads.begin) * HD;
    const int n_heads = heads.end - heads.begin;
#pragma unroll
    for (int i = 0; i < N_K16 * 4; i++) {
      const int head = g + i % 2 * 8, column = i / 4 * 16 + i % 4 / 2 * 8 + 2 * t;
      q[i / 4][i % 4] = head < n_heads ? *reinterpret_cast<const uint32_t *>(row + head * HD + column) : 0;
    }
  }

  /* The warp's scores of a key tile with n_tokens tokens. */
  __device__ __forceinline__ void multiply_keys(float (&score)[N_S][4], int n_tokens)
  {
    const uint32_t keys = wait();
#pragma unroll
    for (int i = 0; i < N_S; i++) {
      const int token = warp * WARP_TOKENS + i * 8;
#pragma unroll
      for (int e = 0; e < 4; e++) score[i][e] = token < n_tokens ? 0.0f : -INFINITY;
      if (token >= n_tokens) continue;
#pragma unroll
      for (int pair = 0; pair < (N_K16 + 1) / 2; pair++) {
        uint32_t b[4];
        ldmatrix_x4(b, piece_at(keys, token + threadIdx.x % 8,
                                min(pair * 4 + static_cast<int>(threadIdx.x % 32 / 8), HD / 8 - 1)));
#pragma unroll
        for (int j = 0; j < 2; j++) {
          if (pair * 2 + j >= N_K16) continue;
          const uint32_t(&a)[4] = q[pair * 2 + j];
          mma_m16n8k16<T>(score[i], a[0], a[1], a[2], a[3], b[2 * j], b[2 * j + 1]);
        }
      }
    }
    release();
  }

  /* Scores of tokens after the row's position, or before its window, become minus infinity. first: of the warp's tokens
   * in the sequence. */
  __device__ __forceinline__ void mask(float (&score)[N_S][4], int32_t first, int32_t position) const
  {
    const int32_t visible = first_visible_at(p, position);
#pragma unroll
    for (int i = 0; i < N_S * 4; i++) {
      const int32_t token = first + i / 4 * 8 + 2 * t + i % 2;
      if (token > position || token < visible) score[i / 4][i % 4] = -INFINITY;
    }
  }

  /* One step of the online softmax, as yk_cuda::online_softmax of the whole key tile; the probabilities go to shared
   * memory. */
  __device__ __forceinline__ void softmax(float (&score)[N_S][4], float (&rescale)[2])
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float top = yk_cuda::quad_max(yk_cuda::row_max(score, e, -INFINITY));
      if (t == 0) s.largest[warp][g + 8 * e] = top;
    }
    sync();
    const float scales[2] = {scale_log2, scale_log2};
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float top = m[e];
#pragma unroll
      for (int w = 0; w < ROW_WARPS; w++) top = fmaxf(top, s.largest[w][g + 8 * e]);
      const float shift = yk_cuda::softmax_shift(top, scales[e]);
      rescale[e] = exp2_approx(m[e] * scales[e] - shift);
      m[e] = top;
      yk_cuda::exponentiate_row(score, e, scales[e], shift);
#pragma unroll
      for (int i = 0; i < N_S; i++) {
        const int column = warp * WARP_TOKENS + i * 8 + 2 * t;
        const float2 pair = make_float2(score[i][2 * e], score[i][2 * e + 1]);
        *reinterpret_cast<float2 *>(&s.exact[g + 8 * e][column]) = pair;
        *reinterpret_cast<uint32_t *>(s.prob + (g + 8 * e) * shared::PROB_BYTES + column * 2) =
            round_pair<T>(pair.x, pair.y);
      }
    }
    sync();
    if (warp < 2) add_probabilities(warp == 0 ? rescale[0] : rescale[1]);
  }

  /* The lane's sum over its columns of the key tile, in the order of exponentiate_row. */
  __device__ __forceinline__ void add_probabilities(float rescale)
  {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < TILE_N / 8; i++) {
      const float2 pair = *reinterpret_cast<const float2 *>(&s.exact[g + 8 * warp][i * 8 + 2 * t]);
      sum += pair.x;
      sum += pair.y;
    }
    l = l * rescale + sum;
  }

  /* o += the probabilities times the warp's dimensions of V. The cache may have any content after the last token, and a
   * NaN would survive a probability of 0: such values become 0. */
  __device__ __forceinline__ void multiply_values(float (&o)[N_O][4], int n_tokens)
  {
    const uint32_t values = wait(), prob = shared_address(s.prob);
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < n_tokens; first += 32) {
      uint32_t a[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
        ldmatrix_x4(a[j], prob + lane % 16 * shared::PROB_BYTES + (first + j * 16 + lane / 16 * 8) * 2);
#pragma unroll
      for (int i = 0; i < N_O; i++) {
        uint32_t b[4];
        const int chunk = min(warp * N_O + i, HD / 8 - 1);
        ldmatrix_x4_trans(b, piece_at(values, first + lane, chunk));
        if (first + 32 > n_tokens) {
#pragma unroll
          for (int j = 0; j < 4; j++) {
            const int token = first + j * 8 + 2 * t;
            b[j] &= (token < n_tokens ? 0xFFFFu : 0u) | (token + 1 < n_tokens ? 0xFFFF0000u : 0u);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
          if (first + j * 16 < n_tokens)
            mma_m16n8k16<T>(o[i], a[j][0], a[j][1], a[j][2], a[j][3], b[2 * j], b[2 * j + 1]);
      }
    }
    release();
  }

  /* Divides by the sums and writes the output. */
  __device__ __forceinline__ void store(const row_item &item, const head_range &heads, const float (&o)[N_O][4])
  {
    if (warp < 2) {
      const float sum = yk_cuda::quad_sum(l);
      if (t == 0) s.sum[g + 8 * warp] = sum;
    }
    sync();
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int head = heads.begin + g + 8 * e;
      if (head >= heads.end) continue;
      const float sum = add_sink(p, head, m[e] * scale_log2, s.sum[g + 8 * e]);
      const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
      T *y = static_cast<T *>(p.y) + item.row * p.y_stride + static_cast<int64_t>(head) * HD;
#pragma unroll
      for (int i = 0; i < N_O; i++) {
        const int column = (warp * N_O + i) * 8 + 2 * t;
        if (column < HD)
          *reinterpret_cast<uint32_t *>(y + column) = round_pair<T>(o[i][2 * e] * factor, o[i][2 * e + 1] * factor);
      }
    }
  }

  __device__ __forceinline__ void compute(const row_item &item)
  {
    const head_range heads = q_heads_of(p.heads, item.kv_head);
    const int32_t position = item.kv_tokens - 1, begin = item.tile_begin<TILE_N>(p);
    float o[N_O][4] = {};
    load_queries(item, heads);
    scale_log2 = scale_log2_at(p, position);
    m[0] = m[1] = -INFINITY;
    l = 0.0f;
    const int32_t last = item.tile_end<TILE_N>() - 1;
    for (int32_t tile = last; tile >= begin; tile--) {
      const int n_tokens = min(item.kv_tokens - tile * TILE_N, TILE_N);
      float score[N_S][4], rescale[2];
      multiply_keys(score, n_tokens);
      mask(score, tile * TILE_N + warp * WARP_TOKENS, position);
      softmax(score, rescale);
      if (tile < last) yk_cuda::scale_rows(o, rescale);
      multiply_values(o, n_tokens);
    }
    store(item, heads, o);
  }

  __device__ void run()
  {
    row_item item = row_item::at(p, blockIdx.x);
    wait_for_previous_kernel();
    let_next_kernel_start();
    for (int32_t index = blockIdx.x; index < p.n_seqs * p.heads.n_kv_heads; index += gridDim.x) {
      const row_item next = row_item::at(p, index + gridDim.x); /* while this one is computed */
      if (item.kv_tokens > 0) compute(item);
      item = next;
    }
  }
};

#endif

template <typename T, int HD>
__global__ void __launch_bounds__(ROW_THREADS, 2)
    prefill_row_kernel(const params p, const __grid_constant__ CUtensorMap k_map,
                       const __grid_constant__ CUtensorMap v_map)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  row_shared<HD> &s = *reinterpret_cast<row_shared<HD> *>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < ROW_STAGES; i++) {
      mbarrier_init(&s.full[i], 1);
      mbarrier_init(&s.empty[i], ROW_WARPS);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x / 32 == ROW_WARPS)
    row_producer<HD>{s, p, &k_map, &v_map, {}}.run();
  else
    row_consumer<T, HD>(s, p).run();
#endif
}

template <typename T, int HD>
cudaError_t launch_prefill_row(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  CUtensorMap k_map, v_map;
  cudaError_t error = encode_page_map<T>(device, p, p.k, &k_map);
  if (error == cudaSuccess) error = encode_page_map<T>(device, p, p.v, &v_map);
  if (error != cudaSuccess) return error;
  const int most = 2 * device.n_sms, n_items = p.n_seqs * p.heads.n_kv_heads;
  return launch_kernel(prefill_row_kernel<T, HD>, n_items < most ? n_items : most, ROW_THREADS, sizeof(row_shared<HD>),
                       stream, p, k_map, v_map);
}

} // namespace yk_attn

#endif
