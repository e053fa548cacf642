/* wgmma.cu - see wgmma.cuh. */
#include "kernels/cuda/gemm/dense/wgmma.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/dense/wgmma_kernel.cuh"
#include "kernels/cuda/gemm/dense/x_tensor_map.cuh"
#include "kernels/cuda/ptx/count_clusters.cuh"

namespace yk_gemm {
namespace {

constexpr int HALF_TILE = 1; /* index of a tile that takes half of a multiprocessor */
static_assert(WGMMA_SHAPES[HALF_TILE].taken == occupancy::HALF, "its clusters are those that are counted");
/* Weights and x get stages in pairs up to this number, then only weights. x needs some depth too: x arrives late, since
 * all blocks request the same lines from the L2 cache. */
constexpr int MAX_X_STAGES = 6;

/* Panels of a thread block's tile. */
int panels_of(const wgmma_shape &s)
{
  return s.m() / PANEL_COLUMNS;
}

/* Bytes of a thread block's float32 accumulators. */
int64_t acc_bytes(const wgmma_shape &s)
{
  return static_cast<int64_t>(s.m()) * s.n * 4;
}

/* The division of a plan's output tiles among clusters, as schedule_tiles takes it. As there, a cluster is the thread
 * blocks that share tokens by multicast, or a single block. */
struct tile_split {
  int tiles_m, tiles_n;
  int split_tiles, k_ranges; /* the first split_tiles are split along K into k_ranges, one per cluster */
  int clusters;              /* clusters of the grid */

  int k_splits() const
  {
    return k_splits_of(split_tiles, k_ranges);
  }
};

/* With at least as many tiles as clusters that fit (a wave), all tiles are whole. With stream-K, however, the remainder
 * and one wave of tiles are split together into one K range per cluster, so that no cluster has fewer K tiles than one
 * output tile. With fewer tiles, each is split evenly (split-K), or all together into one K range per cluster
 * (stream-K). */
tile_split split_of(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, yk_gemm_plan plan)
{
  const wgmma_shape &s = WGMMA_SHAPES[plan.tile];
  const bool stream_k = plan.splits == 0;
  int64_t fit = gpu.n_multiprocessors / s.cluster;
  int64_t tiles_m = ceil_div(n_panels(desc), panels_of(s) * s.cluster), tiles_n = ceil_div(m, s.n);
  int64_t tiles = tiles_m * tiles_n, split_tiles = tiles, k_ranges = stream_k ? fit : tiles * plan.splits;
  int64_t clusters = k_ranges;
  if (tiles >= fit) {
    split_tiles = stream_k ? tiles % fit + fit : 0;
    k_ranges = stream_k ? fit : 0;
    clusters = fit;
  }
  return {static_cast<int>(tiles_m), static_cast<int>(tiles_n), static_cast<int>(split_tiles),
          static_cast<int>(k_ranges), static_cast<int>(clusters)};
}

/* Rings, dynamic shared memory and threads of a thread block. */
struct launch_layout {
  int x_stages, weight_stages, shared_bytes, threads;
};

/* peers: thread blocks that share a tile as a cluster; else 1. The rings are followed by the partial sums that peers
 * send, or else by the epilogue's staging buffer. */
launch_layout lay_out(const yk_gemm_desc &desc, const wgmma_shape &s, int peers, bool second_half)
{
  launch_layout l = {};
  int x_bytes = x_stage_bytes(s.n), weight_bytes = panels_of(s) * panel_bytes(desc);
  int behind = peers > 1 ? received_bytes(s.warpgroups, s.wgmma_m, s.n, peers)
                         : s.warpgroups * 4 * staging_bytes(s.wgmma_m, s.n);
  int rings = most_shared_bytes(s.taken, second_half) - behind;
  l.x_stages = std::min(MAX_X_STAGES, rings / (x_bytes + weight_bytes));
  l.weight_stages = std::min(MAX_STAGES, (rings - l.x_stages * x_bytes) / weight_bytes);
  l.shared_bytes = l.x_stages * x_bytes + l.weight_stages * weight_bytes + behind;
  l.threads = (s.warpgroups + 1) * 128;
  if (s.taken == occupancy::HALF) {
    l.shared_bytes = half_shared_bytes(second_half, l.shared_bytes);
    l.threads = HALF_THREADS[second_half];
  }
  return l;
}

/* Whether the memory of a block with `peers` peers suffices, in either half, for two stages of each ring, and for the
 * epilogue's staging buffer in place of x. */
bool fits_shared_memory(const yk_gemm_desc &desc, const wgmma_shape &s, int peers)
{
  for (bool second_half : {false, true}) {
    const launch_layout l = lay_out(desc, s, peers, second_half);
    if (l.x_stages < 2 || l.weight_stages < 2) return false;
    if (l.x_stages * x_stage_bytes(s.n) < s.warpgroups * 4 * staging_bytes(s.wgmma_m, s.n)) return false;
  }
  return true;
}

const tile_kernels &kernels_of(const kernel_types &types, int tile)
{
  return with_types(types,
                    [=](auto t) -> const tile_kernels & { return wgmma_kernels<t.ENCODING, t.DTYPE, t.RESULT>(tile); });
}

} // namespace

void wgmma_plans(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, std::vector<yk_gemm_plan> &plans)
{
  for (int tile = 0; tile < N_WGMMA_SHAPES; tile++) {
    const wgmma_shape &s = WGMMA_SHAPES[tile];
    if (!can_run(s, desc)) continue;
    int64_t fit = gpu.n_multiprocessors / s.cluster;
    int64_t tiles = ceil_div(n_panels(desc), panels_of(s) * s.cluster) * ceil_div(m, s.n);
    auto add = [&](int64_t splits) {
      plans.push_back({PLAN_WGMMA, static_cast<uint8_t>(tile), 0, static_cast<uint8_t>(splits)});
    };
    add(1);
    if (tiles >= fit) {
      if (tiles % fit) add(0);
      continue;
    }
    for (int64_t splits = 2; tiles * splits <= fit && splits <= n_k_tiles(desc); splits++) add(splits);
    if (tiles * n_k_tiles(desc) >= fit && fit % tiles) add(0);
    for (int peers = 2; s.cluster == 1 && peers <= std::min<int64_t>(YK_GEMM_MOST_PEERS, n_k_tiles(desc)); peers++) {
      if (tiles <= gpu.clusters[peers] && fits_shared_memory(desc, s, peers))
        plans.push_back({PLAN_WGMMA_CLUSTER, static_cast<uint8_t>(tile), 0, static_cast<uint8_t>(peers)});
    }
  }
}

double wgmma_us(const wgmma_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m,
                yk_gemm_plan plan)
{
  const wgmma_shape &s = WGMMA_SHAPES[plan.tile];
  const tile_split l = split_of(gpu, desc, m, plan);
  double k_tiles_of_tile = static_cast<double>(n_k_tiles(desc)), bytes = static_cast<double>(acc_bytes(s));
  double whole =
      std::ceil((static_cast<double>(l.tiles_m) * l.tiles_n - l.split_tiles) / (gpu.n_multiprocessors / s.cluster));
  double k_tiles = whole * k_tiles_of_tile, ends = whole;
  double us = s.n <= 64 ? costs.small_start_us : s.cluster > 1 ? costs.cluster_start_us : 0.0;
  if (l.k_ranges > 0) {
    double range = l.k_splits() ? std::ceil(k_tiles_of_tile / l.k_splits())
                                : std::ceil(l.split_tiles * k_tiles_of_tile / l.k_ranges);
    double peers = l.k_splits() ? l.k_splits() - 1 : std::ceil(k_tiles_of_tile / range);
    k_tiles += range;
    ends++;
    if (plan.kernel == PLAN_WGMMA_CLUSTER) {
      us += peers * costs.cluster_peer_us + bytes * peers / plan.splits * costs.cluster_byte_us;
    } else if (peers > 0) {
      us += peers * costs.peer_us;
      us += l.k_splits() ? costs.split_k_us + bytes * costs.split_k_byte_us
                         : costs.stream_k_us +
                               bytes * (costs.stream_k_byte_us + costs.stream_k_peer_byte_us * std::min(peers, 2.0));
    }
  }
  return costs.start_us + us + k_tiles * costs.k_tile_us[plan.tile] + ends * bytes * costs.tile_end_byte_us;
}

size_t wgmma_workspace_bytes(const yk_gemm_gpu &gpu)
{
  int64_t most = 0;
  for (const wgmma_shape &s : WGMMA_SHAPES) most = std::max(most, acc_bytes(s));
  return static_cast<size_t>(gpu.n_multiprocessors * most);
}

/* Fills in gpu->clusters, for blocks of the first half, one of which fits on a multiprocessor. */
static cudaError_t count_clusters(const void *kernel, yk_gemm_gpu *gpu)
{
  for (int size = 2; size <= YK_GEMM_MOST_PEERS; size++) {
    const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(size * gpu->n_multiprocessors)), HALF_THREADS[0],
                                        static_cast<size_t>(HALF_SHARED_BYTES[0]), size};
    const cudaError_t error = yk_ptx::count_clusters(kernel, shape, &gpu->clusters[size]);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t wgmma_init(yk_gemm_gpu *gpu)
{
  for (int tile = 0; tile < N_WGMMA_SHAPES; tile++) {
    for (const kernel_types &types : DENSE_KERNEL_TYPES) {
      for (const void *kernel : kernels_of(types, tile).of_groups) {
        if (!kernel) continue;
        cudaError_t error = allow_shared_bytes(kernel, most_shared_bytes(WGMMA_SHAPES[tile].taken, false));
        if (error != cudaSuccess) return error;
      }
    }
  }
  return count_clusters(kernels_of({YK_GEMM_INT4, YK_F16, false}, HALF_TILE).of_groups[0], gpu);
}

cudaError_t wgmma_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan, const yk_gemm_call &call,
                          cudaStream_t stream)
{
  const wgmma_shape &s = WGMMA_SHAPES[plan.tile];
  const tile_split split = split_of(gpu, desc, call.m, plan);
  const int peers = plan.kernel == PLAN_WGMMA_CLUSTER ? plan.splits : 1;
  const launch_layout l = lay_out(desc, s, peers, call.second_half);
  CUtensorMap map;
  const cudaError_t error = encode_x(gpu, desc, call, s.n / s.cluster, &map);
  if (error != cudaSuccess) return error;
  wgmma_params p = {};
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.row_scales = row_scales_of(desc, call.packed);
  p.bias = call.bias;
  p.y = call.y;
  p.partial = static_cast<float *>(call.workspace);
  p.m = static_cast<int>(call.m);
  p.n = static_cast<int>(desc.n);
  p.panels = static_cast<int>(n_panels(desc));
  schedule_tiles(p, static_cast<int>(n_k_tiles(desc)), split.tiles_m, split.tiles_n, split.split_tiles, split.k_ranges,
                 split.clusters);
  p.x_stages = l.x_stages;
  p.weight_stages = l.weight_stages;
  p.activation = desc.activation;
  p.y_stride = call.y_stride;
  p.peer_groups = peers > 1 ? peer_groups_of(s.n, peers) : 0;
  void *args[] = {&map, &p};
  return launch_clusters(kernels_of(types_of(desc), plan.tile).get(desc), split.clusters / peers, s.cluster * peers,
                         l.threads, l.shared_bytes, args, stream);
}

} // namespace yk_gemm
