/* attention_prefill_sm90.cuh - many query rows per sequence on Hopper: warpgroup matrix instructions fed by the copy
 * engine.
 *
 * A work tile is 128 rows of one (sequence, KV head), the query heads of the group packed beside each other; keys are
 * taken in tiles of 128 tokens (8 pages) from the last visible one to the first. Persistent blocks draw work tiles from
 * a counter, long ones first; which block computes a tile does not change its bits. Of a block's three warpgroups the
 * first supplies: one warp has the copy engine bring pages of K, one those of V (issuing the copies is what limits a
 * warp), two draw the next work tile and bring its Q while the present one is computed. The other two compute 64 rows
 * each: the scores of the next key tile and the output of this one are in the tensor cores while the softmax runs, and
 * the two take turns, so that one's softmax runs under the other's products.
 *
 * Shared tiles are [column block of 64][128 rows][128 bytes] with the 128-byte swizzle. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_SM90_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_SM90_CUH

#include <cuda.h>
#include <type_traits>

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"
#include "kernels/cuda/ring.cuh"

namespace yk_attn {

constexpr int TILE_ROWS = 128, TILE_TOKENS = 128, TILE_PAGES = TILE_TOKENS / PAGE_TOKENS;
constexpr int KV_SLOTS = 5; /* key and value tiles in shared memory, in the order of use */
constexpr int PREFILL_THREADS = 384, Q_LOADERS = 64;
constexpr int BLOCK_BYTES = 128 * 128; /* 128 rows of one column block */
constexpr int BARRIER_Q_LOADERS = 1, BARRIER_TURN = 2;

template <int HD> struct prefill_shared {
  static constexpr int N_BLOCKS = (HD + 63) / 64, TILE_BYTES = N_BLOCKS * BLOCK_BYTES;
  alignas(1024) char q[2][TILE_BYTES];
  alignas(1024) char kv[KV_SLOTS][TILE_BYTES];
  uint64_t work_full[2], q_full[2], q_empty[2];
  uint64_t kv_full[KV_SLOTS], kv_empty[KV_SLOTS];
  uint64_t v_tail;
  work_tile work[2];
};

#if defined(YK_HAVE_SM90A)

/* Two warps: draw work tiles and bring their query rows. */
template <typename T, int HD> struct q_supplier {
  static constexpr int CHUNKS = HD / 8,
                       ROWS_AT_ONCE = Q_LOADERS / 16; /* 16 threads a row, one chunk of 8 elements each */

  prefill_shared<HD> &s;
  const params &p;

  __device__ void bring(const work_tile &w, char *tile) const
  {
    const int tid = threadIdx.x % Q_LOADERS, c = tid % 16;
    const T *q = (const T *)p.q + (int64_t)w.row * p.q_stride + (int64_t)w.head_begin * HD + c * 8;
    const uint32_t dst = shared_address(tile) + c / 8 * BLOCK_BYTES;
    int32_t r = tid / 16, token = r / w.n_heads, head = r % w.n_heads;
    if (c >= CHUNKS) return;
    for (; r < TILE_ROWS; r += ROWS_AT_ONCE) {
      const bool valid = r < w.n_rows;
      const int64_t src = valid ? token * p.q_stride + head * HD : 0;
      cp_async_16(dst + r * 128 + ((c ^ r) & 7) * 16, q + src, valid);
      for (head += ROWS_AT_ONCE; head >= w.n_heads; head -= w.n_heads) token++;
    }
  }

  __device__ void run(int32_t tokens_per_tile)
  {
    const int tid = threadIdx.x % Q_LOADERS;
    tile_source<TILE_TOKENS> source;
    int32_t tile = 0;
    if (tid == 0) tile = atomicAdd(&p.head->next_tile, 1);
    yk_cuda::ring_position at;
    for (bool more = true; more; at.advance(2)) {
      mbarrier_wait(&s.q_empty[at.stage], at.phase ^ 1);
      if (tid < 32) {
        const work_tile w = source.find(p, __shfl_sync(~0u, tile, 0), tokens_per_tile);
        if (tid == 0) {
          s.work[at.stage] = w;
          mbarrier_arrive(&s.work_full[at.stage]);
          if (w.seq >= 0) tile = atomicAdd(&p.head->next_tile, 1); /* arrives while this tile is brought */
        }
      }
      named_barrier_sync(BARRIER_Q_LOADERS, Q_LOADERS);
      const work_tile w = s.work[at.stage];
      more = w.seq >= 0;
      if (more) bring(w, s.q[at.stage]);
      cp_async_commit();
      cp_async_wait<0>();
      fence_async_shared();
      mbarrier_arrive(&s.q_full[at.stage]);
    }
    /* The last block to see the end puts the counter back for the next launch. */
    if (tid == 0 && atomicAdd(&p.head->n_done, 1) == (int32_t)gridDim.x - 1) {
      p.head->next_tile = 0;
      p.head->n_done = 0;
    }
  }
};

/* One warp for the keys, one for the values: has the copy engine bring their tiles, page by page. Tiles of a work tile
 * come in the order of use: K0, K1, V0, K2, V1, ... K(n-1), V(n-2), V(n-1).                                          */
template <int HD, bool IS_K> struct kv_supplier {
  prefill_shared<HD> &s;
  const params &p;
  const void *map;
  uint32_t tail_phase;

  __device__ __forceinline__ int32_t map_row(const work_tile &w, int32_t tile) const
  {
    const int32_t last = (w.kv_tokens - 1) / PAGE_TOKENS;
    const int32_t page = min(tile * TILE_PAGES + (int32_t)(threadIdx.x % TILE_PAGES), last);
    return (p.block_tables[(int64_t)w.seq * p.block_table_stride + page] * p.heads.n_kv_heads + w.kv_head) *
           PAGE_TOKENS;
  }

  __device__ __forceinline__ void copy(char *tile, int32_t row, uint64_t *bar)
  {
    if (elect_one()) mbarrier_arrive_expect(bar, prefill_shared<HD>::TILE_BYTES);
#pragma unroll
    for (int page = 0; page < TILE_PAGES; page++) {
      const int32_t page_row = __shfl_sync(~0u, row, page);
      if (!elect_one()) continue;
#pragma unroll
      for (int block = 0; block < prefill_shared<HD>::N_BLOCKS; block++)
        tensor_copy(shared_address(tile) + block * BLOCK_BYTES + page * PAGE_TOKENS * 128, map, block * 64, page_row,
                    bar);
    }
  }

  /* Slots behind the sequence's last token may hold anything, NaN too, which no probability of 0 would silence: values
   * there are overwritten with zeros before the tile is handed on.                                                  */
  __device__ void bring(int32_t place, int32_t row, int32_t n_valid)
  {
    const int slot = place % KV_SLOTS;
    char *tile = s.kv[slot];
    mbarrier_wait(&s.kv_empty[slot], (place / KV_SLOTS & 1) ^ 1);
    if (IS_K || n_valid >= TILE_TOKENS || n_valid % PAGE_TOKENS == 0) {
      copy(tile, row, &s.kv_full[slot]);
      return;
    }
    copy(tile, row, &s.v_tail);
    mbarrier_wait(&s.v_tail, tail_phase);
    tail_phase ^= 1;
    for (int i = n_valid * 8 + threadIdx.x % 32; i < TILE_TOKENS * 8; i += 32) {
      for (int block = 0; block < prefill_shared<HD>::N_BLOCKS; block++)
        *(uint4 *)(tile + block * BLOCK_BYTES + i * 16) = make_uint4(0, 0, 0, 0);
    }
    fence_async_shared();
    __syncwarp();
    if (elect_one()) mbarrier_arrive(&s.kv_full[slot]);
  }

  __device__ void run()
  {
    int32_t first_place = 0;
    for (yk_cuda::ring_position next;; next.advance(2)) {
      mbarrier_wait(&s.work_full[next.stage], next.phase);
      const work_tile w = s.work[next.stage];
      __syncwarp();
      if (elect_one()) mbarrier_arrive(&s.q_empty[next.stage]);
      if (w.seq < 0) break;
      const int32_t n = w.tile_end - w.tile_begin;
      int32_t row = map_row(w, w.tile_end - 1);
      for (int32_t i = 0; i < n; i++) {
        const int32_t tile = w.tile_end - 1 - i;
        const int32_t next_row = map_row(w, max(tile - 1, w.tile_begin));
        const int32_t place = IS_K ? max(2 * i - 1, 0) : min(2 * i + 2, 2 * n - 1);
        bring(first_place + place, row, w.kv_tokens - tile * TILE_TOKENS);
        row = next_row;
      }
      first_place += 2 * n;
    }
  }
};

/* 64 rows of the work tile, in one warpgroup. Lane (g, t) of warp i holds rows 16 i + g and 16 i + g + 8. */
template <typename T, int HD> struct prefill_consumer {
  static constexpr int N_S = TILE_TOKENS / 8, N_O = HD / 8;

  prefill_shared<HD> &s;
  const params &p;
  const int group; /* which 64 rows */
  yk_cuda::ring_position kv;
  int32_t position[2]; /* of the two rows */
  float m[2], l[2];

  __device__ __forceinline__ static bool first_lane()
  {
    return threadIdx.x % 32 == 0;
  }

  __device__ __forceinline__ void issue_scores(float (&score)[N_S][4], uint64_t q, int32_t slot)
  {
    const uint64_t k = tile_descriptor(shared_address(s.kv[slot]), 1024, 16);
#pragma unroll
    for (int i = 0; i < HD / 16; i++) {
      const uint64_t offset = descriptor_step(i / 4 * BLOCK_BYTES + i % 4 * 32);
      wgmma<T, TILE_TOKENS>::run_ss(score, q + offset, k + offset, i > 0);
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_output(float (&o)[N_O][4], const uint32_t (&prob)[N_S / 2][4], int32_t slot)
  {
    const uint64_t v = tile_descriptor(shared_address(s.kv[slot]), 1024, BLOCK_BYTES);
#pragma unroll
    for (int i = 0; i < TILE_TOKENS / 16; i++)
      wgmma<T, HD>::template run_rs<true>(o, prob[i], v + descriptor_step(i * 16 * 128), true);
    wgmma_commit();
  }

  __device__ __forceinline__ void release(int32_t slot)
  {
    if (first_lane()) mbarrier_arrive(&s.kv_empty[slot]);
  }

  __device__ __forceinline__ void mask(float (&score)[N_S][4], int32_t tile) const
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t high = position[e] - tile * TILE_TOKENS - 2 * t, low = high - p.window_tokens;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (8 * i + c > high) score[i][2 * e + c] = -INFINITY;
        }
      }
      if (p.window_tokens <= 0) continue;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (8 * i + c <= low) score[i][2 * e + c] = -INFINITY;
        }
      }
    }
  }

  /* Scores become probabilities; rescale is what the output so far must be multiplied by. */
  __device__ __forceinline__ void softmax(float (&score)[N_S][4], float (&rescale)[2])
  {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float top = m[e];
#pragma unroll
      for (int i = 0; i < N_S; i++) top = fmaxf(top, fmaxf(score[i][2 * e], score[i][2 * e + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float shift = top == -INFINITY ? 0.0f : top * p.scale_log2; /* a row that has seen no token yet */
      rescale[e] = exp2_approx(m[e] * p.scale_log2 - shift);
      m[e] = top;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < N_S; i++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          score[i][2 * e + c] = exp2_approx(score[i][2 * e + c] * p.scale_log2 - shift);
          sum += score[i][2 * e + c];
        }
      }
      l[e] = l[e] * rescale[e] + sum;
    }
  }

  __device__ __forceinline__ static void round_probabilities(const float (&score)[N_S][4], uint32_t (&prob)[N_S / 2][4])
  {
#pragma unroll
    for (int i = 0; i < N_S / 2; i++) {
      prob[i][0] = round_pair<T>(score[2 * i][0], score[2 * i][1]);
      prob[i][1] = round_pair<T>(score[2 * i][2], score[2 * i][3]);
      prob[i][2] = round_pair<T>(score[2 * i + 1][0], score[2 * i + 1][1]);
      prob[i][3] = round_pair<T>(score[2 * i + 1][2], score[2 * i + 1][3]);
    }
  }

  __device__ __forceinline__ bool needs_mask(const work_tile &w, int32_t tile, int32_t last_position) const
  {
    return (tile + 1) * TILE_TOKENS > w.position + 1 ||
           (p.window_tokens > 0 && tile * TILE_TOKENS <= last_position - p.window_tokens);
  }

  /* Lane t of a quad gives words[j] of four column tiles and gets the whole row of tile t. */
  __device__ __forceinline__ static void transpose_quad(uint32_t (&words)[4])
  {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
      const bool upper = threadIdx.x & bit;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (j & bit) continue;
        const uint32_t other = __shfl_xor_sync(~0u, upper ? words[j] : words[j | bit], bit);
        words[j] = upper ? other : words[j];
        words[j | bit] = upper ? words[j | bit] : other;
      }
    }
  }

  /* Divide and store, 16 bytes a lane where four column tiles are together. */
  __device__ __forceinline__ void store(const work_tile &w, const float (&o)[N_O][4])
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float sum = l[e];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
      const int r = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      const bool valid = r < w.n_rows;
      T *y = (T *)p.y + (int64_t)(w.row + r / w.n_heads) * p.y_stride + (int64_t)(w.head_begin + r % w.n_heads) * HD;
#pragma unroll
      for (int i = 0; i < N_O / 4; i++) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
          words[j] = round_pair<T>(o[4 * i + j][2 * e] * factor, o[4 * i + j][2 * e + 1] * factor);
        transpose_quad(words);
        if (valid) store_global16(y + 32 * i + 8 * t, make_uint4(words[0], words[1], words[2], words[3]));
      }
#pragma unroll
      for (int i = N_O / 4 * 4; i < N_O; i++) {
        if (valid) *(uint32_t *)(y + 8 * i + 2 * t) = round_pair<T>(o[i][2 * e] * factor, o[i][2 * e + 1] * factor);
      }
    }
  }

  __device__ __forceinline__ void compute(const work_tile &w, uint64_t q, uint64_t *q_empty)
  {
    float score[N_S][4], o[N_O][4], rescale[2];
    uint32_t prob[N_S / 2][4];
    const int32_t last_position = w.position + (w.n_rows - 1) / w.n_heads;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int r = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      position[e] = w.position + min(r, w.n_rows - 1) / w.n_heads;
      m[e] = -INFINITY;
      l[e] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N_O; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[i][e] = 0.0f;
    }
    mbarrier_wait(&s.kv_full[kv.stage], kv.phase);
    wgmma_fence();
    issue_scores(score, q, kv.stage);
    wgmma_wait<0>();
    pin(score);
    release(kv.stage);
    kv.advance(KV_SLOTS);
    if (needs_mask(w, w.tile_end - 1, last_position)) mask(score, w.tile_end - 1);
    softmax(score, rescale);
    round_probabilities(score, prob);
    for (int32_t tile = w.tile_end - 2; tile >= w.tile_begin; tile--) {
      const int32_t k_slot = kv.stage;
      mbarrier_wait(&s.kv_full[kv.stage], kv.phase);
      named_barrier_sync(BARRIER_TURN + group, 256);
      wgmma_fence();
      issue_scores(score, q, kv.stage);
      kv.advance(KV_SLOTS);
      mbarrier_wait(&s.kv_full[kv.stage], kv.phase);
      issue_output(o, prob, kv.stage);
      named_barrier_arrive(BARRIER_TURN + 1 - group, 256);
      wgmma_wait<1>();
      pin(score);
      release(k_slot);
      if (needs_mask(w, tile, last_position)) mask(score, tile);
      softmax(score, rescale);
      /* The branch of this wait, for what has long come, keeps the assembler from moving the next one up. */
      mbarrier_wait(&s.kv_full[kv.stage], kv.phase);
      wgmma_wait<0>();
      pin(o);
      release(kv.stage);
      kv.advance(KV_SLOTS);
      round_probabilities(score, prob);
#pragma unroll
      for (int i = 0; i < N_O; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[i][e] *= rescale[e / 2];
      }
    }
    if (first_lane()) mbarrier_arrive(q_empty);
    mbarrier_wait(&s.kv_full[kv.stage], kv.phase);
    wgmma_fence();
    issue_output(o, prob, kv.stage);
    wgmma_wait<0>();
    pin(o);
    release(kv.stage);
    kv.advance(KV_SLOTS);
    store(w, o);
  }

  __device__ void run()
  {
    if (group == 1) named_barrier_arrive(BARRIER_TURN, 256);
    for (yk_cuda::ring_position at;; at.advance(2)) {
      mbarrier_wait(&s.q_full[at.stage], at.phase);
      const work_tile w = s.work[at.stage];
      if (w.seq < 0) break;
      const uint32_t q = shared_address(s.q[at.stage]) + group * 64 * 128;
      compute(w, tile_descriptor(q, 1024, 16), &s.q_empty[at.stage]);
    }
  }
};

#endif // YK_HAVE_SM90A

template <typename T, int HD>
__global__ void __launch_bounds__(PREFILL_THREADS, 1)
    prefill_sm90_kernel(const params p, const __grid_constant__ CUtensorMap k_map,
                        const __grid_constant__ CUtensorMap v_map, int32_t tokens_per_tile)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  prefill_shared<HD> &s = *(prefill_shared<HD> *)memory;
  const int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      mbarrier_init(&s.work_full[i], 1);
      mbarrier_init(&s.q_full[i], Q_LOADERS);
      mbarrier_init(&s.q_empty[i], 8 + 2); /* the consumers' warps and the suppliers of K and V */
    }
    for (int i = 0; i < KV_SLOTS; i++) {
      mbarrier_init(&s.kv_full[i], 1);
      mbarrier_init(&s.kv_empty[i], 8);
    }
    mbarrier_init(&s.v_tail, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_for_previous_kernel();
  if (group == 0) {
    lower_registers<40>();
    if (threadIdx.x < 32) {
      kv_supplier<HD, true>{s, p, &k_map, 0}.run();
    } else if (threadIdx.x < 64) {
      kv_supplier<HD, false>{s, p, &v_map, 0}.run();
    } else {
      q_supplier<T, HD>{s, p}.run(tokens_per_tile);
    }
  } else {
    raise_registers<232>();
    prefill_consumer<T, HD> consumer = {s, p, group - 1, {}, {}, {}, {}};
    consumer.run();
  }
#endif
}

/* Rows of head_dim elements, one per (page, KV head, token), read in boxes of 16 rows and 64 columns; columns past
 * head_dim arrive as zeros.                                                                                          */
template <typename T>
cudaError_t encode_map(const yk_cuda_attention &device, const params &p, const void *base, CUtensorMap *map)
{
  const CUtensorMapDataType type =
      std::is_same<T, __half>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t sizes[2] = {(cuuint64_t)p.heads.head_dim, 0x7fffffffu};
  const cuuint64_t strides[1] = {(cuuint64_t)p.heads.head_dim * sizeof(T)};
  const cuuint32_t box[2] = {64, PAGE_TOKENS}, steps[2] = {1, 1};
  auto encode =
      (CUresult(*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                   const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill))device.encode_tensor_map;
  CUresult rc =
      encode(map, type, 2, (void *)base, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return rc == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <typename T, int HD>
cudaError_t launch_prefill_sm90_as(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  CUtensorMap k_map, v_map;
  cudaError_t rc = encode_map<T>(device, p, p.k, &k_map);
  if (rc == cudaSuccess) rc = encode_map<T>(device, p, p.v, &v_map);
  if (rc != cudaSuccess) return rc;
  return launch_blocks(prefill_sm90_kernel<T, HD>, device.n_sms, PREFILL_THREADS, sizeof(prefill_shared<HD>), stream, p,
                       k_map, v_map, TILE_ROWS / max_heads_per_kv(p.heads));
}

template <typename T>
cudaError_t launch_prefill_sm90(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  switch (p.heads.head_dim) {
  case 64: return launch_prefill_sm90_as<T, 64>(device, p, stream);
  case 80: return launch_prefill_sm90_as<T, 80>(device, p, stream);
  case 96: return launch_prefill_sm90_as<T, 96>(device, p, stream);
  case 128: return launch_prefill_sm90_as<T, 128>(device, p, stream);
  default: return cudaErrorInvalidValue;
  }
}

} // namespace yk_attn

#endif
