/* kv_room.cu - dequantise what prefill sees of a cache of 8 bits: see kv_room.cuh. */
#include "kernels/cuda/attention/kv_room.cuh"

#include "kernels/cuda/common/kv_codes.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_attn {

constexpr int ROOM_WARPS = 8, ROOM_BLOCKS_PER_SM = 8;

/* Prefill reads keys in tiles of up to so many tokens, from the beginning of a tile: also what lies before the window
 * must then be numbers. */
constexpr int ROOM_TILE_TOKENS = 128;

/* One warp: a page of K or V. Each lane takes 8 codes of a token at a time. */
template <typename T>
__device__ void fill_page(const params &p, const char *page, T *to, const float *channels, int32_t kv_head)
{
  const int32_t hd = p.heads.head_dim;
  const float *token_scales = reinterpret_cast<const float *>(page + PAGE_TOKENS * hd);
  for (int i = threadIdx.x % 32 * 8; i < PAGE_TOKENS * hd; i += 32 * 8) {
    const int32_t token = i / hd, d = i - token * hd;
    const uint2 codes = *reinterpret_cast<const uint2 *>(page + i);
    const float t = token_scales[token];
    const float4 low = yk_cuda::kv_decode_4(p.format, codes.x), high = yk_cuda::kv_decode_4(p.format, codes.y);
    float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (channels) {
      const float *c = channels + kv_head * hd + d, *z = c + p.heads.n_kv_heads * hd;
#pragma unroll
      for (int j = 0; j < 8; j++) x[j] = c[j] * (x[j] - z[j]);
    }
    *reinterpret_cast<uint4 *>(to + i) =
        make_uint4(round_pair<T>(t * x[0], t * x[1]), round_pair<T>(t * x[2], t * x[3]),
                   round_pair<T>(t * x[4], t * x[5]), round_pair<T>(t * x[6], t * x[7]));
  }
}

/* The pages of one sequence: warp number warp of n_warps takes every n_warps-th, K and V of a head after each other. */
template <typename T>
__device__ void fill_sequence(const params &p, int32_t seq, int32_t first_page, int32_t n_pages, int64_t warp,
                              int64_t n_warps, T *k_room, T *v_room)
{
  const int32_t n_kv = p.heads.n_kv_heads, hd = p.heads.head_dim;
  const int64_t code_bytes = PAGE_TOKENS * yk_cuda::kv_token_bytes(hd), n = static_cast<int64_t>(n_pages) * n_kv * 2;
  for (int64_t i = warp; i < n; i += n_warps) {
    const int32_t head = static_cast<int32_t>(i / 2 % n_kv), logical = first_page + static_cast<int32_t>(i / 2 / n_kv);
    const int64_t block = p.block_tables[static_cast<int64_t>(seq) * p.block_table_stride + logical];
    const int64_t page = block * n_kv + head, to = page * PAGE_TOKENS * hd;
    if (i % 2 == 0)
      fill_page<T>(p, static_cast<const char *>(p.k) + page * code_bytes, k_room + to, p.k_channels, head);
    else
      fill_page<T>(p, static_cast<const char *>(p.v) + page * code_bytes, v_room + to, p.v_channels, head);
  }
}

/* All warps walk over the step's sequences, 32 at a time; which warp begins a sequence's pages goes round. */
template <typename T>
__global__ void __launch_bounds__(ROOM_WARPS * 32) fill_room_kernel(const params p, T *k_room, T *v_room)
{
  const int32_t lane = threadIdx.x % 32;
  const int64_t n_warps = static_cast<int64_t>(gridDim.x) * ROOM_WARPS;
  const int64_t self = static_cast<int64_t>(blockIdx.x) * ROOM_WARPS + threadIdx.x / 32;
  int64_t before = 0; /* pages of earlier sequences */
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int32_t base = 0; base < p.n_seqs; base += 32) {
    int32_t rows = 0, kv = 0;
    if (base + lane < p.n_seqs) {
      rows = p.row_starts[base + lane + 1] - p.row_starts[base + lane];
      kv = p.kv_tokens[base + lane];
    }
    for (uint32_t left = __ballot_sync(~0u, rows > 1 && kv > 0); left; left &= left - 1) {
      const int from = __ffs(left) - 1;
      const int32_t n_rows = __shfl_sync(~0u, rows, from), n_tokens = __shfl_sync(~0u, kv, from);
      const int32_t visible = p.window_tokens > 0 ? max(0, n_tokens - n_rows - p.window_tokens + 1) : 0;
      const int32_t first_page = visible / ROOM_TILE_TOKENS * (ROOM_TILE_TOKENS / PAGE_TOKENS);
      const int32_t n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS - first_page;
      fill_sequence<T>(p, base + from, first_page, n_pages, (self + before) % n_warps, n_warps, k_room, v_room);
      before += static_cast<int64_t>(n_pages) * p.heads.n_kv_heads * 2;
    }
  }
}

template <typename T>
cudaError_t launch_fill_room(const yk_cuda_attention &device, const params &p, void *k_room, void *v_room,
                             cudaStream_t stream)
{
  return launch_kernel(fill_room_kernel<T>, device.n_sms * ROOM_BLOCKS_PER_SM, ROOM_WARPS * 32, 0, stream, p,
                       static_cast<T *>(k_room), static_cast<T *>(v_room));
}

template cudaError_t launch_fill_room<__half>(const yk_cuda_attention &, const params &, void *, void *, cudaStream_t);
template cudaError_t launch_fill_room<__nv_bfloat16>(const yk_cuda_attention &, const params &, void *, void *,
                                                     cudaStream_t);

} // namespace yk_attn
