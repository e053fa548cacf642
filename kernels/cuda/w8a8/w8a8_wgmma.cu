/* w8a8_wgmma.cu - see w8a8_wgmma.cuh. Here is decided how K is split. */
#include "kernels/cuda/w8a8/w8a8_wgmma.cuh"

#include <algorithm>
#include <utility>

#include "kernels/cuda/w8a8/w8a8_wgmma_kernel.cuh"

namespace yk_w8a8 {
namespace {

using yk_gemm::ceil_div;

template <size_t... I> const void *kernel_of(int tile, std::index_sequence<I...>)
{
  static const void *const kernels[] = {
      reinterpret_cast<const void *>(wgmma_kernel<TILES[I].n, TILES[I].taken, TILES[I].cluster>)...};
  return kernels[tile];
}

const void *kernel_of(int tile)
{
  return kernel_of(tile, std::make_index_sequence<N_TILES>());
}

/* How many tiles there are, and how many thread blocks or clusters fit. */
struct tile_counts {
  int64_t m, n, fit;

  tile_counts(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, int64_t tokens, const tile_shape &s)
      : m(ceil_div(yk_w8a8_n_rows(&desc), TILE_ROWS * s.cluster)), n(ceil_div(tokens, s.n)),
        fit(gpu.n_multiprocessors / s.cluster)
  {
  }
  int64_t all() const
  {
    return m * n;
  }
};

/* Estimated microseconds, without what all plans take alike. */
double plan_us(const yk_w8a8_desc &desc, const tile_counts &tiles, const tile_shape &s, int64_t splits)
{
  const int64_t waves = ceil_div(tiles.all() * splits, tiles.fit),
                k_tiles = ceil_div(yk_w8a8_n_k_tiles(desc.k), splits);
  const double exchange = splits > 1 ? static_cast<double>(splits) * RANGE_US + s.n * EXCHANGE_TOKEN_US : 0.0;
  return std::max(static_cast<double>(waves * k_tiles) * s.k_tile_us,
                  static_cast<double>(yk_w8a8_packed_bytes(&desc)) / BYTES_PER_US) +
         exchange;
}

int n_stages_of(const tile_shape &s)
{
  const int ring_bytes = yk_gemm::most_shared_bytes(s.taken, false) - WARPGROUPS * result_bytes(s.n);
  return std::min(yk_gemm::MAX_STAGES, ring_bytes / stage_bytes(s.n));
}

/* x_q as [m, k_padded], in boxes of 128 inputs by box_tokens tokens with the 128-byte swizzle; zeros outside. */
bool encode_x(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, const yk_w8a8_call &call, int box_tokens,
              CUtensorMap *map)
{
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(gpu.encode_tensor_map);
  const cuuint64_t k = static_cast<cuuint64_t>(yk_w8a8_k_padded(desc.k));
  const cuuint64_t sizes[2] = {k, static_cast<cuuint64_t>(call.m)}, strides[1] = {k};
  const cuuint32_t box[2] = {TILE_K, static_cast<cuuint32_t>(box_tokens)}, steps[2] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<int8_t *>(call.x), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace

size_t wgmma_workspace_bytes(const yk_wna16_gpu &gpu)
{
  int most = 0;
  for (const tile_shape &s : TILES) most = std::max(most, TILE_ROWS * s.n * 4);
  return static_cast<size_t>(gpu.n_multiprocessors) * static_cast<size_t>(most);
}

cudaError_t wgmma_init()
{
  for (int tile = 0; tile < N_TILES; tile++) {
    const cudaError_t error =
        yk_gemm::allow_shared_bytes(kernel_of(tile), yk_gemm::most_shared_bytes(TILES[tile].taken, false));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/* K is split only where all ranges of all tiles run at once, since the ranges of a tile wait for each other. Where all
 * tokens fit in a tile no larger one is looked at. */
gemm_plan wgmma_plan(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, int64_t m)
{
  gemm_plan best = {0, 1};
  double best_us = 0.0;
  for (int tile = 0; tile < N_TILES && (tile == 0 || TILES[tile - 1].n < m); tile++) {
    const tile_counts tiles(gpu, desc, m, TILES[tile]);
    const int64_t most = std::min(tiles.fit / std::min(tiles.all(), tiles.fit), yk_w8a8_n_k_tiles(desc.k));
    for (int64_t splits = 1; splits <= most; splits++) {
      const double us = plan_us(desc, tiles, TILES[tile], splits);
      if (best_us > 0.0 && us >= best_us) continue;
      best = {tile, static_cast<int>(splits)};
      best_us = us;
    }
  }
  return best;
}

cudaError_t wgmma_forward(const yk_wna16_gpu &gpu, const yk_w8a8_desc &desc, gemm_plan plan, const yk_w8a8_call &call,
                          const output_params &out, cudaStream_t stream)
{
  const tile_shape &s = TILES[plan.tile];
  const tile_counts tiles(gpu, desc, call.m, s);
  const int n_stages = n_stages_of(s), n_tiles = static_cast<int>(tiles.all());
  const int split_blocks = plan.splits > 1 ? n_tiles * plan.splits : 0, split_tiles = plan.splits > 1 ? n_tiles : 0;
  const int clusters = plan.splits > 1 ? split_blocks : static_cast<int>(std::min(tiles.all(), tiles.fit));
  CUtensorMap map;
  if (!encode_x(gpu, desc, call, s.n / s.cluster, &map)) return cudaErrorInvalidValue;
  kernel_params p = {};
  p.tiles.packed = static_cast<const uint8_t *>(call.packed);
  p.tiles.partial = static_cast<float *>(call.workspace);
  yk_gemm::schedule_tiles(p.tiles, static_cast<int>(yk_w8a8_n_k_tiles(desc.k)), static_cast<int>(tiles.m),
                          static_cast<int>(tiles.n), split_tiles, split_blocks, clusters);
  p.out = out;
  p.n_stages = n_stages;
  void *args[] = {&map, &p};
  return yk_gemm::launch_clusters(kernel_of(plan.tile), clusters, s.cluster, (WARPGROUPS + 1) * 128,
                                  n_stages * stage_bytes(s.n) + WARPGROUPS * result_bytes(s.n), args, stream);
}

} // namespace yk_w8a8
