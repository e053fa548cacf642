/* wgmma_many_kernel.cuh - latent attention of up to 64 queries per tile, bound by tensor cores: attention alone, or all
 * of decode in one launch (one_launch.cuh). Its consumers are in wgmma_many_consumer.cuh. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_MANY_KERNEL_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_MANY_KERNEL_CUH

#include "kernels/cuda/latent/wgmma_many_consumer.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

#if defined(YK_HAVE_SM90A)

/* Staging buffers for K[h], in the memory of the later queries. */
__device__ __forceinline__ auto &k_buffers_of(many_shared &s)
{
  return *reinterpret_cast<char(*)[MANY_K_BUFFERS][K_SLICE_BYTES]>(s.q);
}

/* Attention alone: absorb_kernel computes the queries, and a following kernel the outputs. */
template <typename T>
__device__ void run_alone(many_shared &s, const params &p, const block_tiles &mine, const CUtensorMap &map)
{
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32;
  if (warpgroup > 0 || warp >= 2) wait_for_previous_kernel(); /* the cache is complete: see absorb_kernel */
  if (warpgroup == 0) {
    lower_registers<56>();
    if (warp < 2) {
      load_tiles(s, p, mine, &map, warp, [](int32_t, int32_t, int32_t) {});
      if (warp == 0 && elect_one()) {
        wait_for_previous_kernel(); /* absorb_kernel, whose weights are loaded first */
        prefetch_output_weights(p);
      }
    } else {
      load_queries<T>(s, p, mine, [] {});
    }
  } else {
    raise_registers<224>();
    many_consumer<T> consumer = {s, p, warpgroup - 1, mine};
    consumer.run();
  }
}

/* All in one launch: see one_launch.cuh. */
template <typename T>
__device__ void run_with_ends(many_shared &s, const params &p, const new_rows &rows, const CUtensorMap &map,
                              const CUtensorMap &weights)
{
  const grid_barrier grid = {p.grid_counters, gridDim.x * gridDim.y};
  const auto outputs_of = [&] {
    return outputs<T, MANY_QUERIES, 128>::of(p, weights, s.tile[0], &s.ends.v_full, s.ends.splits, grid_block(),
                                             grid_blocks());
  };
  if (threadIdx.x < 128) {
    lower_registers<72>();
    run_producers<T>(s, p, rows, grid, &map, outputs_of);
  } else {
    raise_registers<216>();
    run_consumers<T, many_consumer<T>>(s, p, grid, weights, k_buffers_of(s), *reinterpret_cast<end_sums *>(s.q),
                                       outputs_of);
  }
}

#endif

/* Grid: tiles of heads x thread blocks that share the list of tiles of tokens. HAS_ENDS: see run_with_ends; rows and
 * weights are for that alone. */
template <typename T, bool HAS_ENDS>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    many_kernel(const params p, const new_rows rows, const __grid_constant__ CUtensorMap map,
                const __grid_constant__ CUtensorMap weights)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  many_shared &s = *reinterpret_cast<many_shared *>(memory);
  if (HAS_ENDS && is_first_consumer()) {
    init_ends(s.ends);
    load_first_slices(p, weights, k_buffers_of(s), s.ends.k_full, grid_block(), grid_blocks());
  }
  if (threadIdx.x == 32) init_loading(s);
  if (!HAS_ENDS && threadIdx.x < 32) s.list.build(p);
  __syncthreads();
  if (is_paired(s)) cluster_sync_relaxed(); /* the barriers of the other thread block are initialised too */
  let_next_kernel_start();
  if (HAS_ENDS)
    run_with_ends<T>(s, p, rows, map, weights);
  else
    run_alone<T>(s, p, tiles_of_block(s.list), map);
  __syncthreads(); /* no warp ends while others still use barriers: synccheck would report that */
  if (is_paired(s)) cluster_sync_relaxed(); /* nothing more arrives at this thread block's barriers */
#endif
}

} // namespace yk_latent

#endif
