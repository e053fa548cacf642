/* cluster_tokens.cuh - cached tokens of a thread block of cluster_kernel: its ring of pages, and this step's tokens,
 * which it computes itself if they lie in its pages. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_TOKENS_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_TOKENS_CUH

#include "kernels/cuda/latent/cluster_block.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

#if defined(YK_HAVE_SM90A)

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::load_page(int32_t i) const
{
  const int32_t slot = table[begin_page + i] * PAGE;
  if (!elect_one()) return;
  uint64_t *full = &s.page_full[i % RING];
  mbarrier_arrive_expect(full, PAGE_BYTES);
  for (int block = 0; block < PAGE_BLOCKS; block++)
    tensor_copy(shared_address(s.page[i % RING]) + block * PAGE_BLOCK_BYTES, &cache, block * 64, slot, full);
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::load_first_pages() const
{
  for (int32_t i = warp; i < min(n_pages, RING); i += CLUSTER_WARPS) load_page(i);
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::wait_for_page(int32_t i) const
{
  mbarrier_wait_loop(&s.page_full[i % RING], i / RING % 2);
}

template <typename T, int HEADS>
__device__ inline uint32_t cluster_block<T, HEADS>::piece_address(int32_t i, int token, int piece) const
{
  return shared_address(s.page[i % RING]) + piece / 8 * PAGE_BLOCK_BYTES + token * SWIZZLED_ROW +
         ((piece ^ token) & 7) * 16;
}

template <typename T, int HEADS> __device__ inline auto cluster_block<T, HEADS>::find_new_tokens() const -> new_tokens
{
  const int32_t slot = lane < p.n_rows ? p.kv_slots[lane] : -1;
  int32_t page = -1;
  for (int32_t i = 0; i < n_pages; i++) {
    if (slot >= 0 && table[begin_page + i] == slot / PAGE) page = i;
  }
  return {__reduce_or_sync(~0u, page < 0 ? 0 : 1u << page), __shfl_sync(~0u, page, warp)};
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::load_norm_and_rope() const
{
  const uint4 *norm_w = static_cast<const uint4 *>(rows.norm_w);
  const float4 *rope = reinterpret_cast<const float4 *>(rope_of(rows, p.positions[warp]));
  for (int i = lane; i < KV_RANK / 8; i += 32) cp_async_16(shared_address(&s.norm_w[i * 8]), norm_w + i, true);
  if (lane < ROPE_DIM / 4) cp_async_16(shared_address(&s.rope[warp][lane * 4]), rope + lane, true);
  cp_async_commit();
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::make_token(new_token<T> &t) const
{
  cp_async_wait<0>();
  __syncwarp();
  t.make(rows, typename new_token<T>::weights(s.norm_w), rotation(s.rope[warp]));
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::put_token(const new_token<T> &t, int32_t i) const
{
  const int32_t slot = p.kv_slots[warp];
  wait_for_page(i);
  t.for_each_piece([&](int piece, uint4 v) { store_shared16(piece_address(i, slot % PAGE, piece), v); });
  if (warp == row && first_head == 0) t.store(rows, slot);
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::clear_behind(int32_t i) const
{
  const int first = position % PAGE + 1, n = (PAGE - first) * PIECES;
  wait_for_page(i);
  for (int at = threadIdx.x; at < n; at += CLUSTER_THREADS)
    store_shared16(piece_address(i, first + at / PIECES, at % PIECES), make_uint4(0, 0, 0, 0));
}

#endif

} // namespace yk_latent

#endif
