/* sliced.cu - see sliced.cuh. */
#include "kernels/cuda/gemm/dense/sliced.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/dense/costs.h"
#include "kernels/cuda/gemm/dense/sliced_kernel.cuh"
#include "kernels/cuda/gemm/dense/sliced_mma_kernel.cuh"
#include "kernels/cuda/gemm/dense/small_batch.cuh"
#include "kernels/cuda/gemm/dense/wgmma.cuh"
#include "kernels/cuda/gemm/dense/x_tensor_map.cuh"

namespace yk_gemm {
namespace {

constexpr int MOST_X_STAGES = 6; /* as in wgmma.cu */

/* The output tiles of m tokens. */
struct tiling {
  int64_t along_m, along_n;

  static tiling of(const yk_gemm_desc &desc, const sliced_shape &s, int64_t m)
  {
    return {ceil_div(n_panels(desc), sliced_panels(s.warpgroups)), ceil_div(m, s.n)};
  }
  int64_t count() const
  {
    return along_m * along_n;
  }
};

int64_t acc_bytes(const sliced_shape &s)
{
  return static_cast<int64_t>(sliced_panels(s.warpgroups)) * PANEL_COLUMNS * s.n * 4;
}

/* Microseconds on an H200, from those of the same tiles in costs/h200_4_bits.inc (three warpgroups: estimated): a K
 * tile of a block for each shape, bytes of memory and of the L2 cache in a microsecond, the exchange of partial
 * sums. */
struct sliced_costs {
  double k_tile_us[N_SLICED_SHAPES] = {0.382, 0.411, 0.480, 0.45, 0.48, 0.58, 0.613};
  double memory_bytes = 4.3e6, local_bytes = 0.12e6;
  double start_us = 1.2, slice_us = 0.1, exchange_us = 1.0, peer_us = 0.1, exchange_byte_us = 38e-6;
};

double estimate_us(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, int tile, int splits)
{
  const sliced_costs costs;
  const sliced_shape &s = SLICED_SHAPES[tile];
  const double tiles = static_cast<double>(tiling::of(desc, s, m).count());
  const double fit = static_cast<double>(gpu.n_multiprocessors);
  const double rounds = splits > 1 ? 1.0 : std::ceil(tiles / fit), blocks = std::min(tiles * splits, fit);
  const double bytes = static_cast<double>(acc_bytes(s)),
               weights = sliced_panels(s.warpgroups) * static_cast<double>(panel_bytes(desc));
  const double k_tile_us = std::max(costs.k_tile_us[tile], blocks * weights / costs.memory_bytes);
  const double slices = static_cast<double>(desc.k_slices) / splits;
  const double slices_us = slices * costs.slice_us + 2.0 * (slices - 1.0) * bytes / costs.local_bytes;
  const double exchange_us =
      splits > 1 ? costs.exchange_us + splits * costs.peer_us + bytes * costs.exchange_byte_us : 0.0;
  return costs.start_us + rounds * (static_cast<double>(n_k_tiles(desc)) / splits * k_tile_us + slices_us) +
         exchange_us;
}

struct launch_layout {
  int x_stages, weight_stages, shared_bytes, threads;
};

launch_layout lay_out(const yk_gemm_desc &desc, const sliced_shape &s, bool second_half)
{
  launch_layout l = {};
  const int x_bytes = x_stage_bytes(s.n), weight_bytes = sliced_panels(s.warpgroups) * panel_bytes(desc);
  const int staging = s.warpgroups * 4 * staging_bytes(1, s.n);
  const int rings = most_shared_bytes(s.taken, second_half) - staging;
  l.x_stages = std::min(MOST_X_STAGES, rings / (x_bytes + weight_bytes));
  l.weight_stages = std::min(MAX_STAGES, (rings - l.x_stages * x_bytes) / weight_bytes);
  l.shared_bytes = l.x_stages * x_bytes + l.weight_stages * weight_bytes + staging;
  l.threads = (s.warpgroups + 1) * 128;
  if (s.taken == occupancy::HALF) {
    l.shared_bytes = half_shared_bytes(second_half, l.shared_bytes);
    l.threads = HALF_THREADS[second_half];
  }
  return l;
}

const tile_kernels &kernels_of(yk_dtype dtype, int tile)
{
  return dtype == YK_F16 ? sliced_kernels<YK_GEMM_INT4, YK_F16>(tile) : sliced_kernels<YK_GEMM_INT4, YK_BF16>(tile);
}

const tile_kernels &mma_kernels_of(yk_dtype dtype, int tile)
{
  return dtype == YK_F16 ? sliced_mma_kernels<YK_GEMM_INT4, YK_F16>(tile)
                         : sliced_mma_kernels<YK_GEMM_INT4, YK_BF16>(tile);
}

/* The best plan by mma.sync, where each of its K slices is one of desc's; slice_warps 0: none fits. */
yk_gemm_plan mma_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc)
{
  const small_batch_costs &costs = costs_of(gpu, desc.encoding).small_batch;
  yk_gemm_plan best = {};
  double best_us = 0.0;
  for (int tile = 0; tile < N_SMALL_BATCH_SHAPES; tile++) {
    if (SMALL_BATCH_SHAPES[tile].n != SLICED_MMA_TOKENS || !can_run(SMALL_BATCH_SHAPES[tile], desc)) continue;
    for (int cluster = 1; cluster <= std::min(2, desc.k_slices); cluster++) {
      const int slice_warps = CONSUMER_WARPS * cluster / desc.k_slices;
      const yk_gemm_plan plan = {PLAN_SLICED, static_cast<uint8_t>(tile), static_cast<uint8_t>(slice_warps),
                                 static_cast<uint8_t>(cluster)};
      if (slice_warps > CONSUMER_WARPS || small_batch_lay_out(gpu, desc, plan, false).stages == 0) continue;
      const double us = small_batch_us(costs, gpu, desc, plan);
      if (best_us > 0.0 && us >= best_us) continue;
      best = plan;
      best_us = us;
    }
  }
  return best;
}

/* The best plan of whole tiles of the wgmma kernel, which sums all of K in one chain: for a single slice. */
yk_gemm_plan chain_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  const wgmma_costs &costs = costs_of(gpu, desc.encoding).wgmma;
  std::vector<yk_gemm_plan> plans;
  yk_gemm_plan best = {};
  double best_us = 0.0;
  wgmma_plans(gpu, desc, m, plans);
  for (const yk_gemm_plan &plan : plans) {
    if (plan.kernel != PLAN_WGMMA || plan.splits != 1) continue;
    const double us = wgmma_us(costs, gpu, desc, m, plan);
    if (best_us > 0.0 && us >= best_us) continue;
    best = plan;
    best_us = us;
  }
  return best;
}

cudaError_t mma_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan, const yk_gemm_call &call,
                        cudaStream_t stream)
{
  const small_batch_launch l = small_batch_lay_out(gpu, desc, plan, call.second_half);
  CUtensorMap map;
  const cudaError_t error = encode_x(gpu, desc, call, SLICED_MMA_TOKENS, &map);
  if (error != cudaSuccess) return error;
  sliced_mma_params p = {};
  small_batch_fill(desc, plan, call, l, p);
  p.f32_output = desc.f32_output;
  void *args[] = {&map, &p};
  return launch_clusters(mma_kernels_of(desc.dtype, plan.tile).get(desc), l.clusters, l.cluster, l.threads,
                         l.shared_bytes, args, stream);
}

cudaError_t init_kernels(const tile_kernels &kernels, occupancy taken)
{
  for (const void *kernel : kernels.of_groups) {
    if (!kernel) continue;
    const cudaError_t error = allow_shared_bytes(kernel, most_shared_bytes(taken, false));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

} // namespace

yk_gemm_plan sliced_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  yk_gemm_plan best = {};
  double best_us = 0.0;
  if (m <= SLICED_MMA_TOKENS) best = mma_plan(gpu, desc);
  if (best.slice_warps > 0) return best;
  if (desc.k_slices == 1 && !desc.f32_output) return chain_plan(gpu, desc, m);
  for (int tile = 0; tile < N_SLICED_SHAPES; tile++) {
    const sliced_shape &s = SLICED_SHAPES[tile];
    for (int splits = 1; splits <= desc.k_slices; splits *= 2) {
      const int64_t blocks = tiling::of(desc, s, m).count() * splits;
      if (splits > 1 && blocks > gpu.n_multiprocessors) break;
      const double us = estimate_us(gpu, desc, m, tile, splits);
      if (best_us > 0.0 && us >= best_us) continue;
      best = {PLAN_SLICED, static_cast<uint8_t>(tile), 0, static_cast<uint8_t>(splits)};
      best_us = us;
    }
  }
  return best;
}

size_t sliced_workspace_bytes(const yk_gemm_gpu &gpu)
{
  int64_t most = 0;
  for (const sliced_shape &s : SLICED_SHAPES) most = std::max(most, acc_bytes(s));
  return static_cast<size_t>(gpu.n_multiprocessors * most);
}

cudaError_t sliced_init()
{
  cudaError_t error = cudaSuccess;
  for (const yk_dtype dtype : {YK_F16, YK_BF16}) {
    for (int tile = 0; tile < N_SLICED_SHAPES && error == cudaSuccess; tile++)
      error = init_kernels(kernels_of(dtype, tile), SLICED_SHAPES[tile].taken);
    for (int tile = 0; tile < N_SMALL_BATCH_SHAPES && error == cudaSuccess; tile++)
      error = init_kernels(mma_kernels_of(dtype, tile), SMALL_BATCH_SHAPES[tile].taken);
  }
  return error;
}

cudaError_t sliced_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                           const yk_gemm_call &call, cudaStream_t stream)
{
  if (plan.slice_warps > 0) return mma_forward(gpu, desc, plan, call, stream);
  const sliced_shape &s = SLICED_SHAPES[plan.tile];
  const launch_layout l = lay_out(desc, s, call.second_half);
  const tiling tiles = tiling::of(desc, s, call.m);
  CUtensorMap map;
  const cudaError_t error = encode_x(gpu, desc, call, s.n, &map);
  if (error != cudaSuccess) return error;
  sliced_params p = {};
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.bias = call.bias;
  p.y = call.y;
  p.partial = static_cast<float *>(call.workspace);
  p.m = static_cast<int>(call.m);
  p.n = static_cast<int>(desc.n);
  p.panels = static_cast<int>(n_panels(desc));
  const int64_t fit = gpu.n_multiprocessors;
  const int64_t blocks = plan.splits > 1 ? tiles.count() * plan.splits : std::min(tiles.count(), fit);
  const int ranges = plan.splits > 1 ? static_cast<int>(blocks) : 0;
  schedule_tiles(p, static_cast<int>(n_k_tiles(desc)), static_cast<int>(tiles.along_m), static_cast<int>(tiles.along_n),
                 plan.splits > 1 ? static_cast<int>(tiles.count()) : 0, ranges, static_cast<int>(blocks));
  p.x_stages = l.x_stages;
  p.weight_stages = l.weight_stages;
  p.activation = desc.activation;
  p.y_stride = call.y_stride;
  p.slice_k_tiles = static_cast<int>(n_k_tiles(desc) / desc.k_slices);
  p.f32_output = desc.f32_output;
  void *args[] = {&map, &p};
  return launch_clusters(kernels_of(desc.dtype, plan.tile).get(desc), blocks, 1, l.threads, l.shared_bytes, args,
                         stream);
}

} // namespace yk_gemm
