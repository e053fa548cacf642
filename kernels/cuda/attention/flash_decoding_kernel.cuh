/* flash_decoding_kernel.cuh - flash decoding: one query row a sequence against the sequence's K and V, at the speed of
 * memory. attention.h has the picture, split_kv.cuh the work division. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_KERNEL_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_KERNEL_CUH

#include "kernels/cuda/attention/decode_output.cuh"
#include "kernels/cuda/attention/flash_decoding.cuh"
#include "kernels/cuda/attention/flash_decoding_codes.cuh"
#include "kernels/cuda/attention/flash_decoding_warp.cuh"
#include "kernels/cuda/attention/split_kv_combine.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_attn {

/* What differs between caches. CACHE is the type of elements: __half, __nv_bfloat16, int8_codes, fp8_codes. */
template <typename CACHE, int HD, int N_TILES> struct decoding_of {
  static constexpr int PAGE_BYTES = PAGE_TOKENS * HD * static_cast<int>(sizeof(CACHE)), MAX_TILES = 2;
  static constexpr int WARPS = DECODE_WARPS;
  using state = warp_state<CACHE, HD, N_TILES>;
  using output = act_output<CACHE, HD>;
};

template <yk_kv_format FORMAT, int HD, int N_TILES> struct decoding_of<codes<FORMAT>, HD, N_TILES> {
  static constexpr int PAGE_BYTES = PAGE_TOKENS * yk_cuda::kv_token_bytes(HD), MAX_TILES = 1;
  static constexpr int WARPS = DECODE_WARPS_OF_CODES;
  using state = code_warp_state<FORMAT, HD, N_TILES>;
  using output = code_output<HD>;
};

/* Grid: one thread block a multiprocessor, whatever the lengths. N_TILES: tiles of 8 query heads of a work item.
 * groups_per_kv_head: work items that a KV head's query heads make. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
__global__ void __launch_bounds__(WARPS * 32, 1)
    flash_decoding_kernel(const params p, int32_t n_stages, int32_t groups_per_kv_head)
{
  using shared = decode_shared<HD, N_TILES, WARPS>;
  using decoding = decoding_of<CACHE, HD, N_TILES>;
  using output = typename decoding::output;
  using ring = page_ring<decoding::PAGE_BYTES, shared>;
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32;
  char *stages = memory + static_cast<size_t>(warp) * n_stages * 2 * ring::PAGE_BYTES;
  shared &s = *reinterpret_cast<shared *>(memory + static_cast<size_t>(WARPS) * n_stages * 2 * ring::PAGE_BYTES);

  if (threadIdx.x % 32 < n_stages) {
#if defined(YK_HAVE_SM90A)
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 1);
    fence_mbarrier_init();
#else
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 32);
#endif
  }
  prefetch_tables<shared::N_THREADS>(p);
  const int32_t n_head_groups = p.heads.n_kv_heads * groups_per_kv_head;
  const page_list list = build_page_list(s, p, n_head_groups);
  const block_pages mine = pages_of_this_block(s, p, list, n_head_groups);
  const int32_t begin = mine.begin, end = mine.end;

  ring pages = {p, s, stages, s.full[warp], list.n_seqs, groups_per_kv_head, n_stages, begin + warp, end, 0, 0, {}, 0};
  if (pages.first < end) pages.look_up_32();
  work_item item = {};
  if (begin < end)
    item = work_item_at<shared::N_HEADS>(s, p, groups_per_kv_head, begin, find_entry(s.first_page, list.n_seqs, begin));
  typename decoding::state state;
  wait_for_previous_kernel();
  if (begin < end) state.load_queries(p, item); /* ahead of the copies, which take a while to issue */
  for (int i = 0; i < n_stages; i++) pages.issue();

  partial_result<HD> *results = reinterpret_cast<partial_result<HD> *>(p.partial_results);
  split_item<output> split[2] = {}; /* the work item begun by an earlier thread block; the one begun by this */
  int32_t next_page = begin + warp; /* of this warp */
  for (int32_t at = begin; at < end;) {
    const int32_t stop = min(item.end, end), visible = first_visible(p, item.kv_tokens);
    const int32_t token_0 = (visible / PAGE_TOKENS - item.begin) * PAGE_TOKENS; /* as if page 0 of the list were its */
    state.start(p);
    constexpr int AT_ONCE = decoding::state::AT_ONCE;
    for (; next_page + (AT_ONCE - 1) * WARPS < stop; next_page += AT_ONCE * WARPS)
      state.template consume<AT_ONCE>(pages, p.scale_log2, token_0 + next_page * PAGE_TOKENS, visible, item.kv_tokens);
    for (; next_page < stop; next_page += WARPS)
      state.template consume<1>(pages, p.scale_log2, token_0 + next_page * PAGE_TOKENS, visible, item.kv_tokens);
    if (stop == end) let_next_kernel_start();
    state.store(s);
    const work_item done = item;
    if (stop < end) {
      item = work_item_at<shared::N_HEADS>(s, p, groups_per_kv_head, stop, item.entry);
      state.load_queries(p, item);
    }
    __syncthreads();
    if (done.n_heads > 0) {
      const output y = output::of(p, done);
      const bool begins = at == done.begin, whole = begins && stop == done.end;
      combine_warps<HD>(s, p, y, done.n_heads, whole ? nullptr : results + 2 * blockIdx.x + begins);
      const split_item<output> of_item = {mine.first_block(blockIdx.x, done.begin), mine.n_blocks(done.begin, done.end),
                                          done.n_heads, y};
      if (!whole && begins) split[1] = of_item;
      if (!whole && !begins) split[0] = of_item;
    }
    __syncthreads();
    at = stop;
  }
  if (split[0].n_splits == 0 && split[1].n_splits == 0) return;
  count_arrival(s, split, p.counters->arrived);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (s.is_last[i]) combine_splits<HD, N_TILES == 1 ? 16 : 8, shared::N_THREADS>(results, p, split[i]);
  }
}

/* As many stages as shared memory has room for; MAX_SEQS_PER_LAUNCH sequences a launch. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
cudaError_t launch_decoding_with_warps(const yk_cuda_attention &device, const params &all, cudaStream_t stream)
{
  using shared = decode_shared<HD, N_TILES, WARPS>;
  const int32_t groups_per_kv_head = (max_heads_per_kv(all.heads) + 8 * N_TILES - 1) / (8 * N_TILES);
  using decoding = decoding_of<CACHE, HD, N_TILES>;
  const int stage_bytes = WARPS * 2 * decoding::PAGE_BYTES;
  int n_stages = (device.smem_bytes - static_cast<int>(sizeof(shared))) / stage_bytes;
  if (n_stages < decoding::state::AT_ONCE) return cudaErrorNotSupported;
  if (n_stages > DECODE_MAX_STAGES) n_stages = DECODE_MAX_STAGES;
  const size_t smem_bytes = static_cast<size_t>(n_stages) * stage_bytes + sizeof(shared);
  for (int32_t first = 0; first < all.n_seqs; first += MAX_SEQS_PER_LAUNCH) {
    params p = all;
    p.n_seqs = all.n_seqs - first < MAX_SEQS_PER_LAUNCH ? all.n_seqs - first : MAX_SEQS_PER_LAUNCH;
    p.row_starts += first;
    p.kv_tokens += first;
    p.block_tables += static_cast<int64_t>(first) * all.block_table_stride;
    cudaError_t error = launch_kernel(flash_decoding_kernel<CACHE, HD, N_TILES, WARPS>, device.n_sms, WARPS * 32,
                                      smem_bytes, stream, p, n_stages, groups_per_kv_head);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <typename CACHE, int HD, int N_TILES>
cudaError_t launch_decoding_with_tiles(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  constexpr int WARPS = decoding_of<CACHE, HD, N_TILES>::WARPS;
  const cudaError_t error = launch_decoding_with_warps<CACHE, HD, N_TILES, WARPS>(device, p, stream);
  return error == cudaErrorNotSupported ? launch_decoding_with_warps<CACHE, HD, N_TILES, WARPS / 2>(device, p, stream)
                                        : error;
}

/* Codes have no kernel of two tiles: where more than 8 query heads read a KV head, its pages are read again for the
 * others. */
template <typename CACHE, int HD>
cudaError_t launch_decoding_with_head_dim(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  if constexpr (decoding_of<CACHE, HD, 1>::MAX_TILES > 1) {
    if (max_heads_per_kv(p.heads) > 8) return launch_decoding_with_tiles<CACHE, HD, 2>(device, p, stream);
  }
  return launch_decoding_with_tiles<CACHE, HD, 1>(device, p, stream);
}

template <typename CACHE>
cudaError_t launch_flash_decoding(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  switch (p.heads.head_dim) {
  case 64: return launch_decoding_with_head_dim<CACHE, 64>(device, p, stream);
  case 80: return launch_decoding_with_head_dim<CACHE, 80>(device, p, stream);
  case 96: return launch_decoding_with_head_dim<CACHE, 96>(device, p, stream);
  case 128: return launch_decoding_with_head_dim<CACHE, 128>(device, p, stream);
  default: return cudaErrorInvalidValue;
  }
}

} // namespace yk_attn

#endif
