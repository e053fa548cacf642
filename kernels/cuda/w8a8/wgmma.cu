/* wgmma.cu - see wgmma.cuh. Chooses the split of K. */
#include "kernels/cuda/w8a8/wgmma.cuh"

#include <algorithm>
#include <utility>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/w8a8/wgmma_kernel.cuh"

namespace yk_w8a8 {
namespace {

using yk_gemm::ceil_div;

template <size_t... I> const void *kernel_of(int tile, std::index_sequence<I...>)
{
  static const void *const kernels[] = {
      reinterpret_cast<const void *>(wgmma_kernel<TILES[I].warpgroups, TILES[I].n, TILES[I].cluster>)...};
  return kernels[tile];
}

const void *kernel_of(int tile)
{
  return kernel_of(tile, std::make_index_sequence<N_TILES>());
}

/* Numbers of tiles. */
struct tile_counts {
  int64_t m, n;

  tile_counts(const yk_w8a8_desc &desc, int64_t tokens, const tile_shape &s)
      : m(ceil_div(yk_w8a8_n_rows(&desc), s.warpgroups * WARPGROUP_ROWS * s.cluster)), n(ceil_div(tokens, s.n))
  {
  }
  int64_t all() const
  {
    return m * n;
  }
};

/* Estimated microseconds, without the terms common to all plans. */
double plan_us(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, const tile_counts &tiles, const tile_shape &s,
               int splits)
{
  const int64_t waves = ceil_div(tiles.all(), gpu.clusters_at_once[s.cluster * splits]),
                k_tiles = ceil_div(yk_w8a8_n_k_tiles(desc.k), splits);
  const double exchange_us = splits > 1 ? splits * RANGE_US + s.n * s.warpgroups * EXCHANGE_TOKEN_US : 0.0;
  return std::max(static_cast<double>(waves * k_tiles) * s.k_tile_us,
                  static_cast<double>(yk_w8a8_packed_bytes(&desc)) / BYTES_PER_US) +
         static_cast<double>(waves * s.n) * END_TOKEN_US + exchange_us;
}

/* Whether a split is considered: K ranges of all tiles must run at once, and thread blocks that share tokens by
 * multicast share no tile. */
bool can_split(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, const tile_counts &tiles, const tile_shape &s,
               int splits)
{
  return s.cluster == 1 && (tiles.n == 1 || s.n >= LEAST_SPLIT_TOKENS) && tiles.all() <= gpu.clusters_at_once[splits] &&
         splits <= yk_w8a8_n_k_tiles(desc.k);
}

/* The remaining shared memory fits no other GEMM, but the kernel that quantises: that kernel starts while the preceding
 * GEMM still runs, and the next GEMM starts while it runs. */
constexpr int MOST_BYTES = yk_gemm::MOST_SHARED_BYTES;

int n_stages_of(const tile_shape &s)
{
  return std::min(MOST_STAGES, (MOST_BYTES - s.warpgroups * result_bytes(s.n)) / stage_bytes(s.warpgroups, s.n));
}

} // namespace

cudaError_t wgmma_init(yk_w8a8_gpu &gpu)
{
  for (int tile = 0; tile < N_TILES; tile++) {
    const cudaError_t error = yk_gemm::allow_shared_bytes(kernel_of(tile), MOST_BYTES);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchConfig_t config = {};
  config.blockDim = (TILES[0].warpgroups + 1) * 128;
  config.dynamicSmemBytes = MOST_BYTES;
  for (int size = 1; size <= YK_W8A8_MOST_SPLITS; size++) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
    config.gridDim = static_cast<unsigned>(size);
    config.attrs = &cluster;
    config.numAttrs = 1;
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&gpu.clusters_at_once[size], kernel_of(0), &config);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/* K is split only if all ranges of all tiles run at once. If a tile holds all tokens, no larger tile is considered. */
gemm_plan wgmma_plan(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, int64_t m)
{
  gemm_plan best = {0, 1};
  double best_us = 0.0;
  for (int tile = 0; tile < N_TILES; tile++) {
    const tile_shape &s = TILES[tile];
    if (tile > 0 && TILES[tile - 1].n >= m && TILES[tile - 1].n < s.n) break;
    const tile_counts tiles(desc, m, s);
    for (int splits = 1; splits <= YK_W8A8_MOST_SPLITS; splits++) {
      if (splits > 1 && !can_split(gpu, desc, tiles, s, splits)) continue;
      const double us = plan_us(gpu, desc, tiles, s, splits);
      if (best_us > 0.0 && us >= best_us) continue;
      best = {tile, splits};
      best_us = us;
    }
  }
  return best;
}

cudaError_t wgmma_forward(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, gemm_plan plan, const yk_w8a8_call &call,
                          const output_params &out, cudaStream_t stream)
{
  const tile_shape &s = TILES[plan.tile];
  const tile_counts tiles(desc, call.m, s);
  const int n_stages = n_stages_of(s), n_tiles = static_cast<int>(tiles.all());
  const bool is_split = plan.splits > 1;
  const int clusters = is_split ? n_tiles : std::min(n_tiles, gpu.clusters_at_once[s.cluster]);
  const int64_t k = yk_w8a8_k_padded(desc.k);
  CUtensorMap map;
  const cudaError_t error =
      yk_cuda::encode_matrix<int8_t>(gpu.gpu->encode_tensor_map, call.x, k, call.m, k, s.n / s.cluster, &map);
  if (error != cudaSuccess) return error;
  kernel_params p = {};
  p.tiles.packed = static_cast<const uint8_t *>(call.packed);
  yk_gemm::schedule_tiles(p.tiles, static_cast<int>(yk_w8a8_n_k_tiles(desc.k)), static_cast<int>(tiles.m),
                          static_cast<int>(tiles.n), is_split ? n_tiles : 0, is_split ? n_tiles * plan.splits : 0,
                          clusters);
  p.out = out;
  p.n_stages = n_stages;
  void *args[] = {&map, &p};
  return yk_gemm::launch_clusters(kernel_of(plan.tile), clusters, s.cluster * plan.splits, (s.warpgroups + 1) * 128,
                                  n_stages * stage_bytes(s.warpgroups, s.n) + s.warpgroups * result_bytes(s.n), args,
                                  stream);
}

} // namespace yk_w8a8
