/* cluster_kernel.cuh - the kernel of cluster_block.cuh: the order of a thread block's parts. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_KERNEL_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_KERNEL_CUH

#include "kernels/cuda/latent/cluster_attend.cuh"
#include "kernels/cuda/latent/cluster_ends.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

#if defined(YK_HAVE_SM90A)

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::init_barriers() const
{
  mbarrier_init(&s.k_full, 1);
  mbarrier_init(&s.v_full, 1);
  mbarrier_init(&s.q_full, 1);
  mbarrier_init(&s.part_full, 1);
  mbarrier_init(&s.y_full, 1);
  for (int i = 0; i < RING; i++) mbarrier_init(&s.page_full[i], 1);
  fence_mbarrier_init();
  mbarrier_arrive_expect(&s.q_full, n_heads * KV_RANK * 2);
  mbarrier_arrive_expect(&s.part_full, n_parts * static_cast<int>(sizeof s.part[0] + sizeof s.stats[0]));
  mbarrier_arrive_expect(&s.y_full, sizeof s.y);
}

template <typename T, int HEADS> __device__ inline auto cluster_block<T, HEADS>::start() const -> new_tokens
{
  if (threadIdx.x == 0) init_barriers();
  __syncthreads();
  cluster_arrive_relaxed(); /* this thread block's barriers are initialised */
  load_first_pages();
  if (has_head() && warp == CLUSTER_WARPS - 1 && elect_one()) load_weights(s.k, 2 * head * CLUSTER_HEAD_DIM, &s.k_full);
  __syncwarp();
  if (warp < p.n_rows && p.kv_slots[warp] >= 0) load_norm_and_rope();
  return find_new_tokens();
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::run() const
{
  const int32_t of_last = position / PAGE - begin_page;
  const int32_t last = of_last >= 0 && of_last < n_pages ? of_last : -1;
  const T *q = static_cast<const T *>(p.q) + row * p.q_stride;
  const new_tokens added = start();
  const rotation rotate_row(rope_of(rows, position));
  /* Loads of data that the preceding kernel writes come first: they are in flight while weights and pages arrive. */
  wait_for_previous_kernel();
  uint2 q_nope[K_STEPS];
  uint4 rotating = {};
  new_token<T> own = {};
#pragma unroll
  for (int i = 0; i < K_STEPS; i++) {
    const T *from = q + static_cast<int64_t>(head) * (CLUSTER_HEAD_DIM + ROPE_DIM) + i * 16 + lane * 4;
    q_nope[i] = has_head() && lane < 4 ? *reinterpret_cast<const uint2 *>(from) : make_uint2(0, 0);
  }
  if (added.of_warp >= 0) own.load(rows, warp);
  const int rotating_head = threadIdx.x / ROPE_PIECES, piece = threadIdx.x % ROPE_PIECES;
  if (rotating_head < n_heads)
    rotating = *reinterpret_cast<const uint4 *>(
        q + static_cast<int64_t>(first_head + rotating_head) * (CLUSTER_HEAD_DIM + ROPE_DIM) + CLUSTER_HEAD_DIM +
        piece * 8);
  uint32_t k[K_TILES][K_STEPS][4];
  tile t;
  if (has_head()) {
    mbarrier_wait_loop(&s.k_full, 0);
    load_k_fragments(k);
  }
  if (last >= 0 && last < TILE_PAGES) clear_behind(last);
  const uint32_t in_first_tile = added.pages & ((1u << TILE_PAGES) - 1); /* these change until the barrier below */
  if (LOADS_EARLY) load_tile(t, 0, pages_of_tile(0) & ~in_first_tile);
  /* V[h] is needed last, so its copy must not delay the earlier ones. */
  if (has_head() && warp == CLUSTER_WARPS - 2 && elect_one())
    load_weights(s.v, (2 * head + 1) * CLUSTER_HEAD_DIM, &s.v_full);
  __syncwarp();
  if (warp * 32 < n_heads * ROPE_PIECES) rotating = rotate_row.template apply<T>(rotating);
  if (rotating_head < n_heads) store_shared16(shared_address(&s.q[rotating_head][KV_RANK + piece * 8]), rotating);
  cluster_wait();
  if (has_head()) absorb(k, q_nope);
  if (added.of_warp >= 0) make_token(own);
  if (added.of_warp >= 0 && added.of_warp < TILE_PAGES) put_token(own, added.of_warp);
  __syncthreads();
  if (LOADS_EARLY && in_first_tile) load_tile(t, 0, in_first_tile);
  if (n_pages > 0) attend(t, added, last, own);
  if (has_head()) make_outputs();
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::make_outputs() const
{
  uint32_t v[V_STEPS][4];
  mbarrier_wait_loop(&s.v_full, 0);
  load_v_fragments(v);
  mbarrier_wait_loop(&s.part_full, 0);
  combine();
  __syncthreads();
  multiply_v(v);
  if (threadIdx.x >= ROWS) return;
  mbarrier_wait_loop(&s.y_full, 0);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < SHARES; i++) sum += s.y[i][threadIdx.x];
  y()[threadIdx.x] = yk_cuda::from_float<T>(sum);
}

#endif

/* Grid: thread blocks of all heads' clusters x rows. */
template <typename T, int HEADS>
__global__ void __launch_bounds__(CLUSTER_THREADS, 1)
    cluster_kernel(const params p, const new_rows rows, const __grid_constant__ CUtensorMap weights,
                   const __grid_constant__ CUtensorMap cache)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  using shared = cluster_shared<HEADS>;
  const int rank = static_cast<int>(cluster_rank()), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t row = blockIdx.y, first_head = blockIdx.x / CLUSTER_BLOCKS * HEADS,
                head = first_head + rank / shared::SHARES;
  const int32_t position = p.kv_slots[row] < 0 ? -1 : p.positions[row]; /* -1: a padding row, without tokens */
  const int32_t all_pages = (position + YK_KV_BLOCK_TOKENS) / YK_KV_BLOCK_TOKENS;
  const int32_t each = (all_pages + CLUSTER_BLOCKS - 1) / CLUSTER_BLOCKS, begin = rank * each;
  const int32_t n_pages = max(min(each, all_pages - begin), 0);
  const int32_t *table = p.block_tables + static_cast<int64_t>(max(p.seq_of_row[row], 0)) * p.block_table_stride;
  let_next_kernel_start();
  const cluster_block<T, HEADS> block = {*reinterpret_cast<shared *>(memory),
                                         p,
                                         rows,
                                         weights,
                                         cache,
                                         lane,
                                         warp,
                                         rank,
                                         row,
                                         first_head,
                                         min(HEADS, p.layout.n_heads - first_head),
                                         head,
                                         rank % shared::SHARES,
                                         position,
                                         begin,
                                         n_pages,
                                         each > 0 ? (all_pages + each - 1) / each : 0,
                                         table};
  if (position >= 0) {
    block.run();
    return;
  }
  wait_for_previous_kernel();
  if (block.has_head() && threadIdx.x < shared::ROWS) block.y()[threadIdx.x] = yk_cuda::from_float<T>(0.0f);
#endif
}

} // namespace yk_latent

#endif
