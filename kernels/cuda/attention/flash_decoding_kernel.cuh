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

/* Shared memory of a thread block, in bytes. */
template <typename CACHE, int HD, int N_TILES, int WARPS> __host__ __device__ constexpr size_t decode_bytes()
{
  constexpr int PAGE_BYTES = cache_elements<CACHE>::page_bytes(HD);
  using shared = decode_shared<HD, N_TILES, WARPS, decode_stages(PAGE_BYTES, WARPS)>;
  return WARPS * page_ring<PAGE_BYTES, shared>::BYTES + sizeof(shared);
}

/* Whether a GPU among the compilation targets may lack shared memory for thread blocks of all warps, so that half of
 * the warps are launched. */
template <typename CACHE, int HD, int N_TILES> __host__ __device__ constexpr bool may_halve_warps()
{
#if defined(YK_HAVE_SM90A)
  return decode_bytes<CACHE, HD, N_TILES, cache_elements<CACHE>::WARPS>() > 227 * 1024;
#else
  return true;
#endif
}

/* Called by all threads of a thread block. Arguments as in the kernel. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
__device__ __forceinline__ void decode_pages(const params &p, int32_t groups_per_kv_head)
{
  using elements = cache_elements<CACHE>;
  using shared = decode_shared<HD, N_TILES, WARPS, decode_stages(elements::page_bytes(HD), WARPS)>;
  using output = typename elements::template output<HD>;
  using ring = page_ring<elements::page_bytes(HD), shared>;
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
  if (begin < end) state.load_queries(p, item); /* before the copies, which take a while to issue */
#pragma unroll
  for (int i = 0; i < shared::N_STAGES; i++) pages.issue();
  filler.run();

  const block_results<HD, output, shared> results = {p, s, mine, of_warps, memory, ring::BYTES};
  if (begin == end) let_next_kernel_start();
  for (int32_t at = begin; at < end;) {
    const int32_t stop = min(item.end, end), visible = first_visible(p, item.kv_tokens);
    /* first token of list page 0, extrapolated */
    const int32_t token_0 = (visible / PAGE_TOKENS - item.begin) * PAGE_TOKENS;
    state.start(p);
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
  results.template finish<N_TILES == 1 ? 16 : 8>();
}

/* Grid: one thread block per multiprocessor, whatever the lengths. N_TILES: tiles of 8 query heads.
 * groups_per_kv_head: work items per KV head. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
__global__ void __launch_bounds__(WARPS * 32, 1) flash_decoding_kernel(const params p, int32_t groups_per_kv_head)
{
  if constexpr (WARPS == cache_elements<CACHE>::WARPS || may_halve_warps<CACHE, HD, N_TILES>())
    decode_pages<CACHE, HD, N_TILES, WARPS>(p, groups_per_kv_head);
}

/* Launches for MAX_SEQS_PER_LAUNCH sequences each. */
template <typename CACHE, int HD, int N_TILES, int WARPS>
cudaError_t launch_decoding_with_warps(const yk_cuda_attention &device, const params &all, cudaStream_t stream)
{
  constexpr size_t smem_bytes = decode_bytes<CACHE, HD, N_TILES, WARPS>();
  const int32_t groups_per_kv_head = (max_heads_per_kv(all.heads) + 8 * N_TILES - 1) / (8 * N_TILES);
  if (smem_bytes > static_cast<size_t>(device.smem_bytes)) return cudaErrorNotSupported;
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

template <typename CACHE, int HD, int N_TILES>
cudaError_t launch_decoding_with_tiles(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  constexpr int WARPS = cache_elements<CACHE>::WARPS;
  const cudaError_t error = launch_decoding_with_warps<CACHE, HD, N_TILES, WARPS>(device, p, stream);
  return error == cudaErrorNotSupported ? launch_decoding_with_warps<CACHE, HD, N_TILES, WARPS / 2>(device, p, stream)
                                        : error;
}

/* Codes have no kernel of two tiles: if more than 8 query heads read a KV head, its pages are read again for the
 * others. */
template <typename CACHE, int HD>
cudaError_t launch_decoding_with_head_dim(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  if constexpr (cache_elements<CACHE>::MAX_TILES > 1) {
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
