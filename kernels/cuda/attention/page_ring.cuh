/* page_ring.cuh - a warp's ring of stages in shared memory. A stage holds the K page and the V page of 16 tokens. The
 * warp issues the copies into its ring itself, N_STAGES ahead of its computation, across work items, and waits on one
 * mbarrier per stage; no other warp uses the ring. On 9.0 the copies have an evict-first policy in the L2 cache: a step
 * reads a page once, or, if sequences share the page, several times in short succession. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PAGE_RING_CUH
#define YK_KERNELS_CUDA_ATTENTION_PAGE_RING_CUH

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_attn {

/* The warp's pages are numbers first .. end - 1 of the page list. The ring's memory is large enough for the warp's
 * result, which replaces the pages once all have been read (block_results::of_warp). */
template <int BYTES_OF_PAGE, typename SHARED> struct page_ring {
  static constexpr int PAGE_BYTES = BYTES_OF_PAGE, N_STAGES = SHARED::N_STAGES;
  static constexpr int STAGES_BYTES = N_STAGES * 2 * PAGE_BYTES, RESULT_BYTES = sizeof(typename SHARED::result);
  static constexpr int BYTES = STAGES_BYTES > RESULT_BYTES ? STAGES_BYTES : RESULT_BYTES;

  const params &p;
  SHARED &s;
  char *stages; /* [N_STAGES][K page, V page] */
  uint64_t *full;
  int32_t n_entries, groups_per_kv_head, first, end;
  int32_t n_issued, issue_stage; /* copies issued; the stage of the next one */
  yk_cuda::ring_position oldest; /* oldest page not yet released */
  int32_t page_number;           /* lane i: index in the cache, in pages, of the i-th page of the current 32 */

  /* Looks up the next 32 pages in the block tables, one per lane. Returns the entry of the lane's page. */
  __device__ int32_t look_up_32()
  {
    int32_t index = first + n_issued + static_cast<int32_t>(threadIdx.x % 32);
    page_number = 0;
    if (index >= end) return 0;
    int32_t entry = find_entry(s.first_page, n_entries, index);
    int32_t kv = s.kv_tokens[entry], n_pages = pages_of(p, kv);
    int32_t within = index - s.first_page[entry], head_group = within / n_pages;
    int32_t logical = first_visible(p, kv) / PAGE_TOKENS + within - head_group * n_pages;
    int32_t block = p.block_tables[static_cast<int64_t>(s.seq[entry]) * p.block_table_stride + logical];
    page_number = block * p.heads.n_kv_heads + small_quotient(head_group, groups_per_kv_head);
    return entry;
  }

  /* Prefetches the warp's first page into the L2 cache; may be called before the previous kernel ends. */
  __device__ void prefetch_first() const
  {
#if defined(YK_HAVE_SM90A)
    if (threadIdx.x % 32 > 0) return;
    const int64_t offset = static_cast<int64_t>(page_number) * PAGE_BYTES;
    bulk_prefetch_l2(static_cast<const char *>(p.k) + offset, PAGE_BYTES);
    bulk_prefetch_l2(static_cast<const char *>(p.v) + offset, PAGE_BYTES);
#endif
  }

  /* Issues the copies of the warp's next page, if there is one. */
  __device__ void issue()
  {
    if (first + n_issued >= end) return;
    if (n_issued % 32 == 0 && n_issued > 0) look_up_32();
    int64_t offset = static_cast<int64_t>(__shfl_sync(~0u, page_number, n_issued % 32)) * PAGE_BYTES;
    const char *k = static_cast<const char *>(p.k) + offset, *v = static_cast<const char *>(p.v) + offset;
    uint32_t to = shared_address(stages) + static_cast<uint32_t>(issue_stage) * 2 * PAGE_BYTES;
    uint64_t *bar = &full[issue_stage];
#if defined(YK_HAVE_SM90A)
    if (elect_one()) {
      mbarrier_arrive_expect(bar, 2 * PAGE_BYTES);
      bulk_copy_once(to, k, PAGE_BYTES, bar);
      bulk_copy_once(to + PAGE_BYTES, v, PAGE_BYTES, bar);
    }
#else
    for (int i = threadIdx.x % 32 * 16; i < PAGE_BYTES; i += 512) {
      cp_async_16(to + i, k + i, true);
      cp_async_16(to + PAGE_BYTES + i, v + i, true);
    }
    cp_async_arrive(bar);
#endif
    n_issued++;
    if (++issue_stage == N_STAGES) issue_stage = 0;
  }

  /* Waits for the oldest page not yet released; returns its stage. */
  __device__ const char *wait()
  {
    mbarrier_wait_loop(&full[oldest.stage], oldest.phase);
    return stages + oldest.stage * 2 * PAGE_BYTES;
  }

  /* Frees the stage of the oldest page, and issues the copies of the next page. */
  __device__ void release()
  {
    __syncwarp();
    oldest.advance(N_STAGES);
    issue();
  }
};

} // namespace yk_attn

#endif
