/* flash_decoding_kernel.cuh - flash decoding: one query row per sequence against the sequence's K and V, bound by
 * memory bandwidth. attention.h describes the data flow, split_kv.cuh the work division. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_KERNEL_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_KERNEL_CUH

#include "kernels/cuda/attention/cache_elements.cuh"
#include "kernels/cuda/attention/decode_output.cuh"
#include "kernels/cuda/attention/flash_decoding.cuh"
#include "kernels/cuda/attention/flash_decoding_warp.cuh"
#include "kernels/cuda/attention/kv_staging.cuh"
#include "kernels/cuda/attention/split_kv_combine.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_attn {

/* Shared memory of a thread block: the warps' rings, then `shared`. */
template <typename CACHE, int HD, int N_TILES, int WARPS> struct decode_memory {
  static constexpr int PAGE_BYTES = cache_elements<CACHE>::page_bytes(HD);
  static constexpr bool COPIES_VALUES = warp_state<CACHE, HD, N_TILES>::COPIES_VALUES;
  using shared = decode_shared<HD, N_TILES, WARPS, decode_stages(PAGE_BYTES, WARPS, COPIES_VALUES)>;
  using ring = page_ring<PAGE_BYTES, shared>;
  static constexpr size_t BYTES = WARPS * ring::BYTES + sizeof(shared);
};

/* Warps of the largest thread block that fits the shared memory of compute capability 9.0. */
template <typename CACHE, int HD, int N_TILES, int WARPS = cache_elements<CACHE>::warps(HD)>
__host__ __device__ constexpr int most_decode_warps()
{
  if constexpr (decode_memory<CACHE, HD, N_TILES, WARPS>::BYTES <= 227 * 1024)
    return WARPS;
  else
    return most_decode_warps<CACHE, HD, N_TILES, WARPS / 2>();
}

/* Warps of the smallest thread block, for GPUs with 99 KiB of shared memory (for heads of 512: 163 KiB). A kernel with
 * two tiles has one size: if its shared memory does not fit, the kernel with one tile is launched. */
template <typename CACHE, int HD, int N_TILES> __host__ __device__ constexpr int fewest_decode_warps()
{
  if constexpr (N_TILES > 1)
    return most_decode_warps<CACHE, HD, N_TILES>();
  else
    return HD > 256 ? 1 : HD > 128 ? 2 : 4;
}

/* Called by all threads of a thread block. Arguments as in the kernel. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
__device__ __forceinline__ void decode_pages(const params &p, int32_t groups_per_kv_head)
{
  using elements = cache_elements<CACHE>;
  using memory_of_block = decode_memory<CACHE, HD, N_TILES, WARPS>;
  using shared = typename memory_of_block::shared;
  using ring = typename memory_of_block::ring;
  using output = typename elements::template output<HD>;
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32;
  char *stages = memory + warp * ring::BYTES;
  shared &s = *reinterpret_cast<shared *>(memory + WARPS * ring::BYTES);

  if (threadIdx.x % 32 < shared::N_STAGES) {
#if defined(YK_HAVE_SM90A)
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 1);
    fence_mbarrier_init();
#else
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 32);
#endif
  }
  if (threadIdx.x <= WARPS) s.kept[threadIdx.x].n_heads = 0;
  prefetch_tables<shared::N_THREADS>(p);
  const int32_t n_head_groups = p.heads.n_kv_heads * groups_per_kv_head;
  const page_list list = build_page_list(s, p, n_head_groups);
  const block_pages mine = pages_of_this_block(s, p, list, n_head_groups);
  const warp_pages of_warps = warp_pages::of(mine, WARPS);
  const int32_t begin = of_warps.first(warp), end = of_warps.first(warp + 1);

  ring pages = {p, s, stages, s.full[warp], list.n_seqs, groups_per_kv_head, begin, end, 0, 0, {}, 0};
  work_item item = {};
  if (begin < end) {
    const int32_t entry = __shfl_sync(~0u, pages.look_up_32(), 0);
    pages.prefetch_first();
    item = work_item_at<shared::N_HEADS>(s, p, groups_per_kv_head, begin, entry);
  }
  warp_state<CACHE, HD, N_TILES> state;
  staging_filler<CACHE, HD> filler(p, warp * gridDim.x + blockIdx.x, gridDim.x * WARPS);
  wait_for_previous_kernel();
  if (begin < end) state.load_queries(p, item); /* before the copies, whose issue takes time */
#pragma unroll
  for (int i = 0; i < shared::N_STAGES; i++) pages.issue();
  filler.run();

  const block_results<HD, output, shared> results = {p, s, mine, of_warps, memory, ring::BYTES};
  if (begin == end) let_next_kernel_start();
  for (int32_t at = begin; at < end;) {
    const int32_t stop = min(item.end, end), visible = first_visible(p, item.kv_tokens);
    /* first token of list page 0, extrapolated */
    const int32_t token_0 = (visible / PAGE_TOKENS - item.begin) * PAGE_TOKENS;
    state.start(p, item);
    for (int32_t page = at; page < stop; page++)
      state.consume(pages, token_0 + page * PAGE_TOKENS, visible, item.kv_tokens);
    if (stop == end) let_next_kernel_start();
    const work_item done = item;
    if (stop < end) {
      item = work_item_at<shared::N_HEADS>(s, p, groups_per_kv_head, stop, item.entry);
      state.load_queries(p, item);
    }
    results.add(state, done, at, stop);
    at = stop;
  }
  constexpr int AT_ONCE = N_TILES == 1 || HD > 128 ? 16 : 8;
  results.template finish<AT_ONCE>();
}

/* Grid: one thread block per multiprocessor, independent of the lengths. N_TILES: tiles of 8 query heads.
 * groups_per_kv_head: work items per KV head. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
__global__ void __launch_bounds__(WARPS * 32, 1) flash_decoding_kernel(const params p, int32_t groups_per_kv_head)
{
  decode_pages<CACHE, HD, N_TILES, WARPS>(p, groups_per_kv_head);
}

/* Launches thread blocks of WARPS warps, or of fewer if the GPU's shared memory is too small, for MAX_SEQS_PER_LAUNCH
 * sequences each. */
template <typename CACHE, int HD, int N_TILES, int WARPS = most_decode_warps<CACHE, HD, N_TILES>()>
cudaError_t launch_decoding_with_tiles(const yk_cuda_attention &device, const params &all, cudaStream_t stream)
{
  constexpr size_t smem_bytes = decode_memory<CACHE, HD, N_TILES, WARPS>::BYTES;
  if (smem_bytes > static_cast<size_t>(device.smem_bytes)) {
    if constexpr (WARPS / 2 >= fewest_decode_warps<CACHE, HD, N_TILES>())
      return launch_decoding_with_tiles<CACHE, HD, N_TILES, WARPS / 2>(device, all, stream);
    else
      return cudaErrorNotSupported;
  }
  const int32_t groups_per_kv_head = (max_heads_per_kv(all.heads) + 8 * N_TILES - 1) / (8 * N_TILES);
  for (int32_t first = 0; first < all.n_seqs; first += MAX_SEQS_PER_LAUNCH) {
    params p = all;
    p.n_seqs = all.n_seqs - first < MAX_SEQS_PER_LAUNCH ? all.n_seqs - first : MAX_SEQS_PER_LAUNCH;
    p.row_starts += first;
    p.kv_tokens += first;
    p.block_tables += static_cast<int64_t>(first) * all.block_table_stride;
    cudaError_t error = launch_kernel(flash_decoding_kernel<CACHE, HD, N_TILES, WARPS>, device.n_sms, WARPS * 32,
                                      smem_bytes, stream, p, groups_per_kv_head);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/* Whether the kernel with two tiles is faster. With heads of 256 it has half as many warps to combine partial results,
 * which is most of the time if there are few work items. The kernel with one tile then reads the pages twice, once from
 * the L2 cache, but is faster. */
template <int HD> bool wants_two_tiles(const params &p)
{
  return max_heads_per_kv(p.heads) > 8 && (HD <= 128 || p.n_seqs * p.heads.n_kv_heads > 16);
}

/* 8-bit codes and heads of 512 have no kernel with two tiles, and a GPU may have too little shared memory for it. Then,
 * if more than 8 query heads read a KV head, its pages are read once for every 8 query heads. */
template <typename CACHE, int HD>
cudaError_t launch_flash_decoding(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  if constexpr (cache_elements<CACHE>::MAX_TILES > 1 && HD <= 256) {
    if (wants_two_tiles<HD>(p)) {
      const cudaError_t error = launch_decoding_with_tiles<CACHE, HD, 2>(device, p, stream);
      if (error != cudaErrorNotSupported) return error;
    }
  }
  return launch_decoding_with_tiles<CACHE, HD, 1>(device, p, stream);
}

} // namespace yk_attn

#endif
