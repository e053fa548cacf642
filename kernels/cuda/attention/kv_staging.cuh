/* kv_staging.cuh - 8-bit pages dequantised to staging pages of the activation type, for prefill. The staging buffer
 * (k_staging and v_staging of yk_kv_layer) has as many blocks as the cache. Pages that the sequences with several query
 * rows attend to are dequantised to the same block numbers in the buffer, so that the prefill kernels use the same
 * block tables. A page that several sequences share is written by each of them, with the same bits. The decode kernel
 * dequantises, since it runs before prefill in any case: a separate launch would cost more than the work. */
#ifndef YK_KERNELS_CUDA_ATTENTION_KV_STAGING_CUH
#define YK_KERNELS_CUDA_ATTENTION_KV_STAGING_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/flash_decoding.cuh"
#include "kernels/cuda/attention/params.cuh"
#include "kernels/cuda/common/kv_codes.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_attn {

/* The largest key tile of prefill. Prefill reads whole tiles, so the pages of a tile that begins before the window are
 * dequantised too, wherever tiles begin: a NaN in a V row would survive a probability of 0. */
constexpr int STAGING_TILE_TOKENS = 128;

/* A page of K or V in the registers of a warp: in step i a lane has the 8 codes from 256 i + 8 lane on. */
template <yk_kv_format FORMAT, int HD> struct page_of_codes {
  static constexpr int STEPS = PAGE_TOKENS * HD / (32 * 8);
  uint2 codes[STEPS];
  float scales[STEPS];

  __device__ __forceinline__ static int place(int i)
  {
    return threadIdx.x % 32 * 8 + i * 256;
  }

  __device__ __forceinline__ void load(const char *page)
  {
    const float *token_scales = reinterpret_cast<const float *>(page + PAGE_TOKENS * HD);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
      codes[i] = *reinterpret_cast<const uint2 *>(page + place(i));
      scales[i] = token_scales[place(i) / HD];
    }
  }

  /* to: the staging page. channels: static scales of the KV head and, n_kv_heads further, offsets; unused unless
   * HAVE_CHANNELS. */
  template <typename T, bool HAVE_CHANNELS>
  __device__ void store(T *to, const float *channels, int32_t n_kv_heads) const
  {
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
      uint32_t pairs[4];
      yk_cuda::kv_decode_4<FORMAT>(codes[i].x, pairs[0], pairs[1]);
      yk_cuda::kv_decode_4<FORMAT>(codes[i].y, pairs[2], pairs[3]);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float2 x = __half22float2(*reinterpret_cast<const __half2 *>(&pairs[j]));
        if constexpr (HAVE_CHANNELS) {
          const float *c = channels + place(i) % HD + 2 * j, *z = c + n_kv_heads * HD;
          x = make_float2(c[0] * (x.x - z[0]), c[1] * (x.y - z[1]));
        }
        pairs[j] = round_pair<T>(scales[i] * x.x, scales[i] * x.y);
      }
      *reinterpret_cast<uint4 *>(to + place(i)) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
};

/* One warp's share of the work: every step-th page of the step's sequences with several rows, those of K and of V
 * alternately. The whole warp calls each function. Empty for caches of the activation type. */
template <typename CACHE, int HD> struct staging_filler {
  __device__ staging_filler(const params &, int32_t, int32_t)
  {
  }
  __device__ void run()
  {
  }
};

template <yk_kv_format FORMAT, int HD> struct staging_filler<codes<FORMAT>, HD> {
  static constexpr int CODE_BYTES = PAGE_TOKENS * yk_cuda::kv_token_bytes(HD);

  const params &p;
  int32_t next, step;
  /* 32 sequences, one per lane: the first page that prefill reads, the number of pages over all heads, and the number
   * of pages before them; number of pages of the sequences before these 32, and of these. */
  int32_t chunk = -1, first_page = 0, n = 0, start = 0, n_before = 0, n_of_chunk = 0;
  /* The warp's next page. */
  bool more, is_value;
  int32_t kv_head;
  int64_t page;

  /* Finds the warp's first page. May be called before the previous kernel ends. */
  __device__ staging_filler(const params &p, int32_t first, int32_t step) : p(p), next(first), step(step)
  {
    more = p.k_staging && find();
  }

  __device__ void load_chunk()
  {
    const int32_t seq = ++chunk * 32 + static_cast<int32_t>(threadIdx.x % 32);
    n_before += n_of_chunk;
    n = 0;
    if (seq < p.n_seqs) {
      const int32_t n_rows = p.row_starts[seq + 1] - p.row_starts[seq], n_tokens = p.kv_tokens[seq];
      const int32_t visible = first_visible_at(p, n_tokens - n_rows);
      first_page = max(0, visible - STAGING_TILE_TOKENS + 1) / PAGE_TOKENS;
      if (n_rows > 1 && n_tokens > 0)
        n = ((n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS - first_page) * p.heads.n_kv_heads * 2;
    }
    const int32_t sum = yk_cuda::warp_prefix_sum(n);
    start = n_before + sum - n;
    n_of_chunk = __shfl_sync(~0u, sum, 31);
  }

  /* Finds page number `next` and starts its prefetch into the L2 cache; returns false if there is none. */
  __device__ bool find()
  {
    while (next >= n_before + n_of_chunk) {
      if ((chunk + 1) * 32 >= p.n_seqs) return false;
      load_chunk();
    }
    const int from = __ffs(__ballot_sync(~0u, next >= start && next < start + n)) - 1;
    const int32_t index_of_both = next - __shfl_sync(~0u, start, from), index = index_of_both / 2;
    const int32_t logical = index / p.heads.n_kv_heads;
    const int32_t entry = __shfl_sync(~0u, first_page, from) + logical;
    const int32_t block = p.block_tables[static_cast<int64_t>(chunk * 32 + from) * p.block_table_stride + entry];
    is_value = index_of_both % 2;
    kv_head = index - logical * p.heads.n_kv_heads;
    page = static_cast<int64_t>(block) * p.heads.n_kv_heads + kv_head;
    next += step;
#if defined(YK_HAVE_SM90A)
    if (threadIdx.x % 32 == 0) bulk_prefetch_l2(codes(), CODE_BYTES);
#endif
    return true;
  }

  __device__ const char *codes() const
  {
    return static_cast<const char *>(is_value ? p.v : p.k) + page * CODE_BYTES;
  }

  __device__ void run()
  {
    if (!more) return;
    if (p.dtype == YK_F16)
      fill<__half>();
    else
      fill<__nv_bfloat16>();
  }

  /* Finds the next page while this page's codes are being loaded. */
  template <typename T> __device__ void fill()
  {
    while (more) {
      page_of_codes<FORMAT, HD> codes_of_page;
      codes_of_page.load(codes());
      T *to = static_cast<T *>(is_value ? p.v_staging : p.k_staging) + page * PAGE_TOKENS * HD;
      const float *channels = is_value ? p.v_channels : p.k_channels;
      const int32_t first_channel = kv_head * HD;
      more = find();
      if (channels)
        codes_of_page.template store<T, true>(to, channels + first_channel, p.heads.n_kv_heads);
      else
        codes_of_page.template store<T, false>(to, channels, p.heads.n_kv_heads);
    }
  }
};

} // namespace yk_attn

#endif
