/* wgmma.cu - the W4A8 GEMM's interface: choice of tile and split of K, and launch. */
#include <algorithm>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/w4a8/w4a8.h"
#include "kernels/cuda/w4a8/wgmma.cuh"
#include "kernels/cuda/w4a8/wgmma_kernel.cuh"

namespace yk_w4a8 {
namespace {

using yk_gemm::ceil_div;

constexpr int MOST_X_STAGES = 6, MOST_SPLITS = 4;

template <typename CODE> const yk_gemm::tile_kernels &kernels_for(yk_dtype dtype, int tile)
{
  return dtype == YK_F16 ? wgmma_kernels<YK_F16, CODE>(tile) : wgmma_kernels<YK_BF16, CODE>(tile);
}

const yk_gemm::tile_kernels &kernels_of(yk_dtype dtype, yk_w4a8_codes codes, int tile)
{
  return codes == YK_W4A8_INT8 ? kernels_for<int8_t>(dtype, tile) : kernels_for<__nv_fp8_e4m3>(dtype, tile);
}

} // namespace

tile_split split_of(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, gemm_plan plan)
{
  const tile_shape &s = TILES[plan.tile];
  tile_split l = {};
  l.fit = s.cluster == 1 ? gpu.n_multiprocessors : gpu.clusters[s.cluster];
  l.tiles_m = ceil_div(yk_gemm::n_panels(desc), static_cast<int64_t>(TILE_PANELS) * s.cluster);
  l.tiles_n = ceil_div(m, s.n);
  const int64_t tiles = l.tiles_m * l.tiles_n;
  l.clusters = std::min(tiles, l.fit);
  if (plan.splits == 1) return l;
  l.split_tiles = tiles < l.fit ? tiles : tiles % l.fit + l.fit;
  l.k_ranges = plan.splits == 0 ? l.fit : tiles * plan.splits;
  l.clusters = l.k_ranges;
  return l;
}

bool can_split(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, gemm_plan plan)
{
  const tile_split l = split_of(gpu, desc, m, {plan.tile, 1});
  const int64_t tiles = l.tiles_m * l.tiles_n, k_tiles = yk_gemm::n_k_tiles(desc);
  if (plan.splits == 0) return tiles * k_tiles >= l.fit && (tiles >= l.fit ? tiles % l.fit : l.fit % tiles) > 0;
  return tiles * plan.splits <= l.fit && plan.splits <= k_tiles;
}

namespace {

double plan_us(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, gemm_plan plan)
{
  const tile_shape &s = TILES[plan.tile];
  const tile_split l = split_of(gpu, desc, m, plan);
  const int64_t k_tiles = yk_gemm::n_k_tiles(desc), whole = ceil_div(l.tiles_m * l.tiles_n - l.split_tiles, l.fit);
  const int64_t range = l.k_ranges > 0 ? ceil_div(l.split_tiles * k_tiles, l.k_ranges) : 0;
  return static_cast<double>(whole * k_tiles + range) * s.k_tile_us +
         static_cast<double>((whole + (range > 0)) * s.n) * END_TOKEN_US +
         (range > 0 ? RANGES_US + s.n * RANGES_TOKEN_US : 0.0);
}

} // namespace

gemm_plan best_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  gemm_plan best = {0, 1};
  double best_us = 0.0;
  for (int tile = 0; tile < N_TILES && (tile == 0 || TILES[tile - 1].n < m); tile++) {
    for (int splits = 0; splits <= MOST_SPLITS; splits++) {
      const gemm_plan plan = {tile, splits};
      if (splits != 1 && !can_split(gpu, desc, m, plan)) continue;
      const double us = plan_us(gpu, desc, m, plan);
      if (best_us > 0.0 && us >= best_us) continue;
      best = plan;
      best_us = us;
    }
  }
  return best;
}

namespace {

cudaError_t launch(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_w4a8_call &call, cudaStream_t stream)
{
  const gemm_plan plan = best_plan(gpu, desc, call.m);
  const tile_shape &s = TILES[plan.tile];
  const tile_split l = split_of(gpu, desc, call.m, plan);
  const int x_bytes = x_stage_bytes(s.n), weight_bytes = TILE_PANELS * yk_gemm::panel_bytes(desc);
  const int staging = WARPGROUPS * 4 * yk_gemm::staging_bytes(1, s.n), rings = yk_gemm::ALL_SHARED_BYTES - staging;
  CUtensorMap map;
  const cudaError_t error =
      yk_cuda::encode_matrix<int8_t>(gpu.encode_tensor_map, call.x, desc.k, call.m, desc.k, s.n / s.cluster, &map);
  if (error != cudaSuccess) return error;
  kernel_params p = {};
  p.x_scales = call.x_scales;
  p.tiles.packed = static_cast<const uint8_t *>(call.packed);
  p.tiles.bias = call.bias;
  p.tiles.y = call.y;
  p.tiles.partial = static_cast<float *>(call.workspace);
  p.tiles.m = static_cast<int>(call.m);
  p.tiles.n = static_cast<int>(desc.n);
  p.tiles.panels = static_cast<int>(yk_gemm::n_panels(desc));
  p.tiles.activation = desc.activation;
  yk_gemm::schedule_tiles(p.tiles, static_cast<int>(yk_gemm::n_k_tiles(desc)), static_cast<int>(l.tiles_m),
                          static_cast<int>(l.tiles_n), static_cast<int>(l.split_tiles), static_cast<int>(l.k_ranges),
                          static_cast<int>(l.clusters));
  p.tiles.x_stages = std::min(MOST_X_STAGES, rings / (x_bytes + weight_bytes));
  p.tiles.weight_stages = std::min(yk_gemm::MAX_STAGES, (rings - p.tiles.x_stages * x_bytes) / weight_bytes);
  void *args[] = {&map, &p};
  return yk_gemm::launch_clusters(kernels_of(desc.dtype, call.codes, plan.tile).get(desc), l.clusters, s.cluster,
                                  THREADS, p.tiles.x_stages * x_bytes + p.tiles.weight_stages * weight_bytes + staging,
                                  args, stream);
}

} // namespace
} // namespace yk_w4a8

extern "C" yk_status yk_w4a8_init(const yk_gemm_gpu *gpu, yk_err *err)
{
  if (gpu->path != YK_GEMM_WGMMA) return YK_OK;
  for (int tile = 0; tile < yk_w4a8::N_TILES; tile++)
    for (yk_dtype dtype : {YK_F16, YK_BF16})
      for (yk_w4a8_codes codes : {YK_W4A8_FP8, YK_W4A8_INT8})
        for (const void *kernel : yk_w4a8::kernels_of(dtype, codes, tile).of_groups) {
          if (!kernel) continue;
          YK_TRY(
              yk_gemm::cuda_status(yk_gemm::allow_shared_bytes(kernel, yk_gemm::ALL_SHARED_BYTES), "W4A8 init", err));
        }
  return YK_OK;
}

extern "C" yk_status yk_w4a8_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_w4a8_call *call,
                                     struct CUstream_st *stream, yk_err *err)
{
  if (call->m == 0) return YK_OK;
  return yk_gemm::cuda_status(yk_w4a8::launch(*gpu, *desc, *call, stream), "W4A8 GEMM", err);
}
