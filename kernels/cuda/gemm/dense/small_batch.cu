/* small_batch.cu - see small_batch.cuh. */
#include "kernels/cuda/gemm/dense/small_batch.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/dense/small_batch_kernel.cuh"
#include "kernels/cuda/gemm/dense/x_tensor_map.cuh"

namespace yk_gemm {
namespace {

/* Stages of a ring in `bytes` of shared memory; 0 if the plan does not fit. A multiple of the number of K slices, so
 * that a slice waits for the same stages in every round of the ring: a slice that skipped rounds of a stage could
 * mistake the round two before for its own, since they have the same parity. A plan does not fit with fewer than two
 * stages, nor if the ring is too small for the accumulators that overwrite it at the end of a tile. */
int n_stages(const small_batch_shape &s, const yk_gemm_desc &desc, int slice_warps, fusion f, int64_t bytes)
{
  int64_t stage = stage_bytes_of(s.n, slice_warps * s.panels, panel_bytes(desc), f);
  int64_t slices = CONSUMER_WARPS / slice_warps;
  int64_t stages = std::min<int64_t>(bytes / stage, SMALL_BATCH_STAGES) / slices * slices;
  bool fits = stages >= 2 && stages * stage >= panel_acc_bytes(s.n, CONSUMER_WARPS * s.panels);
  return fits ? static_cast<int>(stages) : 0;
}

/* Bytes of the normalised rows and their weights, for fusion NORM. */
int norm_bytes_of(const yk_gemm_desc &desc, fusion f, int64_t m)
{
  return f == fusion::NORM ? static_cast<int>(norm_bytes(m, desc.k)) : 0;
}

const tile_kernels &kernels_of(const kernel_types &types, fusion f, int tile)
{
  return with_types(types, [=](auto t) -> const tile_kernels & {
    return small_batch_kernels<t.ENCODING, t.DTYPE, t.RESULT>(f, tile);
  });
}

fusion fusion_of(const yk_gemm_call &call)
{
  return call.norm_w ? fusion::NORM : call.adds ? fusion::SUM : fusion::NONE;
}

} // namespace

small_batch_launch small_batch_lay_out(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                                       bool second_half, fusion f, int64_t m)
{
  const small_batch_shape &s = SMALL_BATCH_SHAPES[plan.tile];
  small_batch_launch l = {};
  l.cluster = plan.splits;
  l.clusters = std::min(n_panels(desc), gpu.n_multiprocessors / l.cluster);
  l.tile_panels = plan.slice_warps * s.panels;
  l.k_slices = CONSUMER_WARPS / plan.slice_warps;
  /* Bytes of the partial sums that the blocks of a cluster send each other, in one buffer, or two for several tiles. */
  const bool has_one_tile = ceil_div(n_panels(desc), l.clusters) <= l.tile_panels;
  int received = l.cluster > 1 ? (has_one_tile ? 1 : 2) * panel_acc_bytes(s.n, l.tile_panels) : 0;
  int available = std::min(most_shared_bytes(s.taken, false), most_shared_bytes(s.taken, true));
  const int others = received + norm_bytes_of(desc, f, m);
  l.stages = n_stages(s, desc, plan.slice_warps, f, available - others);
  l.shared_bytes = MOST_SHARED_BYTES;
  l.threads = HALF_THREADS[0];
  if (s.taken == occupancy::HALF) {
    int stage = stage_bytes_of(s.n, l.tile_panels, panel_bytes(desc), f);
    l.shared_bytes = half_shared_bytes(second_half, l.stages * stage + others);
    l.threads = HALF_THREADS[second_half];
  }
  return l;
}

void small_batch_fill(const yk_gemm_desc &desc, yk_gemm_plan plan, const yk_gemm_call &call,
                      const small_batch_launch &l, small_batch_params &p)
{
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.row_scales = row_scales_of(desc, call.packed);
  p.out = {call.bias, call.y, static_cast<int>(call.m), static_cast<int>(desc.n), desc.activation, call.y_stride};
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.n_panels = static_cast<int>(n_panels(desc));
  p.split = split_panels(n_panels(desc), l.clusters);
  p.stages = l.stages;
  p.slice_warps = plan.slice_warps;
  p.k_slices = l.k_slices;
  p.tile_panels = l.tile_panels;
}

/* There are no plans with clusters of more than two blocks: in a GPC whose number of multiprocessors is not a multiple
 * of the cluster size, some stay unused, so that two blocks of one GEMM would share a multiprocessor. */
void small_batch_plans(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, std::vector<yk_gemm_plan> &plans)
{
  for (int tile = 0; tile < N_SMALL_BATCH_SHAPES; tile++) {
    const small_batch_shape &s = SMALL_BATCH_SHAPES[tile];
    if (s.n != ceil_div(m, 8) * 8 || !can_run(s, desc)) continue;
    for (int slice_warps = 1; slice_warps <= CONSUMER_WARPS; slice_warps *= 2) {
      for (int cluster = 1; cluster <= std::min(2, gpu.n_multiprocessors); cluster++) {
        const yk_gemm_plan plan = {PLAN_SMALL_BATCH, static_cast<uint8_t>(tile), static_cast<uint8_t>(slice_warps),
                                   static_cast<uint8_t>(cluster)};
        if (small_batch_lay_out(gpu, desc, plan, false).stages > 0) plans.push_back(plan);
      }
    }
  }
}

double small_batch_us(const small_batch_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc,
                      yk_gemm_plan plan)
{
  const small_batch_shape &s = SMALL_BATCH_SHAPES[plan.tile];
  const small_batch_launch l = small_batch_lay_out(gpu, desc, plan, false);
  int64_t k_tiles = ceil_div(n_k_tiles(desc), l.cluster);
  double busy = static_cast<double>(l.clusters * l.cluster) / gpu.n_multiprocessors; /* share of multiprocessors */
  double us = (s.taken == occupancy::HALF ? 0.0 : costs.alone_us) + (l.cluster > 1 ? costs.exchange_us : 0.0);
  for (int64_t left = ceil_div(n_panels(desc), l.clusters); left > 0; left -= l.tile_panels) {
    double panels = static_cast<double>(std::min<int64_t>(left, l.tile_panels));
    double memory_us = static_cast<double>(k_tiles) * panels * costs.panel_us * busy;
    us += std::max(memory_us, static_cast<double>(ceil_div(k_tiles, l.k_slices)) * costs.k_tile_us[plan.tile]);
    us += static_cast<double>(k_tiles * s.n) * costs.token_us * busy;
    us += costs.tile_end_us + l.k_slices * costs.k_slice_us + panels * s.n * costs.panel_token_us;
  }
  return us;
}

static cudaError_t init_kernels(const tile_kernels &kernels, occupancy taken)
{
  for (const void *kernel : kernels.of_groups) {
    if (!kernel) continue;
    const cudaError_t error = allow_shared_bytes(kernel, most_shared_bytes(taken, false));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t small_batch_init()
{
  for (int tile = 0; tile < N_SMALL_BATCH_SHAPES; tile++) {
    for (const kernel_types &types : DENSE_KERNEL_TYPES) {
      for (const fusion f : {fusion::NONE, fusion::NORM, fusion::SUM}) {
        const cudaError_t error = init_kernels(kernels_of(types, f, tile), SMALL_BATCH_SHAPES[tile].taken);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

bool small_batch_fuses(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan, fusion f, int64_t m)
{
  if (m > NORM_TOKENS || !kernels_of(types_of(desc), f, plan.tile).get(desc)) return false;
  if (f == fusion::SUM) return desc.activation.kind == YK_ACTIVATION_NONE;
  return can_normalise(m, desc.k) && small_batch_lay_out(gpu, desc, plan, false, f, m).stages > 0;
}

cudaError_t small_batch_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                                const yk_gemm_call &call, cudaStream_t stream)
{
  const fusion f = fusion_of(call);
  const small_batch_launch l = small_batch_lay_out(gpu, desc, plan, call.second_half, f, call.m);
  CUtensorMap map;
  const cudaError_t error = encode_x(gpu, desc, call, SMALL_BATCH_SHAPES[plan.tile].n, &map);
  if (error != cudaSuccess) return error;
  small_batch_params p = {};
  small_batch_fill(desc, plan, call, l, p);
  p.next_reads_x = call.next_reads_x;
  p.norm = {call.norm_w,
            call.x,
            call.norm_eps,
            1.0f / static_cast<float>(desc.k),
            static_cast<int>(desc.k / NORM_VECTOR),
            norm_row_warps(call.m)};
  p.norm_bytes = norm_bytes_of(desc, f, call.m);
  p.alpha = call.alpha;
  void *args[] = {&map, &p};
  return launch_clusters(kernels_of(types_of(desc), f, plan.tile).get(desc), l.clusters, l.cluster, l.threads,
                         l.shared_bytes, args, stream);
}

} // namespace yk_gemm
