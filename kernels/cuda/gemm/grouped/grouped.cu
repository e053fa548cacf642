/* grouped.cu - the grouped GEMMs' interface: checks of arguments, choice of tiles, launches on 9.0. */
#include "kernels/cuda/gemm/grouped/grouped.h"

#include <algorithm>

#include "kernels/cuda/gemm/grouped/few_rows_kernel.cuh"
#include "kernels/cuda/gemm/grouped/params.cuh"
#include "kernels/cuda/gemm/grouped/single_row.cuh"
#include "kernels/cuda/gemm/grouped/tiles.h"
#include "kernels/cuda/gemm/grouped/wgmma_kernel.cuh"

using namespace yk_gemm;

namespace {

const tile_kernels &few_kernels_of(yk_gemm_encoding encoding, yk_dtype dtype, int tile)
{
  return with_types(encoding, dtype, [=](auto types) -> const tile_kernels & {
    return grouped_few_kernels<types.ENCODING, types.DTYPE>(tile);
  });
}

const tile_kernels &wgmma_kernels_of(yk_gemm_encoding encoding, yk_dtype dtype, int tile)
{
  return with_types(encoding, dtype, [=](auto types) -> const tile_kernels & {
    return grouped_wgmma_kernels<types.ENCODING, types.DTYPE>(tile);
  });
}

grouped_params params_of(const yk_gemm_desc &desc, const yk_grouped_call &call)
{
  grouped_params p = {};
  p.call = call;
  p.k = static_cast<int>(desc.k);
  p.n = static_cast<int>(desc.n);
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.n_panels = static_cast<int>(n_panels(desc));
  p.row_scales_at = yk_gemm_panels_bytes(&desc);
  p.activation = desc.activation;
  if (!call.shared_expert.weights) return p;
  const yk_gemm_desc shared_expert = desc_of_shared_expert(desc, call.shared_expert);
  p.shared_expert_k_tiles = static_cast<int>(n_k_tiles(shared_expert));
  p.shared_expert_panels = static_cast<int>(n_panels(shared_expert));
  p.shared_expert_row_scales_at = yk_gemm_panels_bytes(&shared_expert);
  return p;
}

/* As many stages as fit, a multiple of the K slices (for the reason see dense/small_batch.cu). */
int few_stages(const yk_gemm_desc &desc, const grouped_few_shape &s, int ring_bytes, int stage_panels, int k_slices)
{
  const int stage_bytes = small_batch_x_bytes(s.n) + stage_panels * panel_bytes(desc);
  return std::min(ring_bytes / stage_bytes, SMALL_BATCH_STAGES) / k_slices * k_slices;
}

/* For a kernel that routes too. Chooses the number of warps of a K slice that minimises the warps' time for a block's
 * share. A block's share is estimated from max_slots and cut into items of a slice's panels, each of which takes a
 * slice its part of K. */
void lay_out_few(int64_t blocks, const yk_gemm_desc &desc, const grouped_few_shape &s, grouped_params &p)
{
  constexpr int64_t ITEM_END_K_TILES = 2; /* time of the end of an item, in a warp's K tiles */
  const int64_t tiles = std::min<int64_t>(p.call.max_slots, p.call.n_matrices);
  const int64_t share = ceil_div(tiles * p.n_panels, blocks);
  int64_t least = INT64_MAX;
  for (int warps = CONSUMER_WARPS / 2; warps >= 1; warps /= 2) {
    const int64_t panels = static_cast<int64_t>(warps) * s.panels, slices = CONSUMER_WARPS / warps;
    const int64_t cost = ceil_div(share, panels) * (ceil_div(p.k_tiles, slices) + ITEM_END_K_TILES);
    const int64_t most = std::min(share, panels);
    const int stages = few_stages(desc, s, p.ring_bytes, static_cast<int>(most), static_cast<int>(slices));
    if (stages == 0 || cost >= least) continue;
    least = cost;
    p.slice_warps = warps;
    p.stage_panels = static_cast<int>(most);
    p.stages = stages;
  }
}

/* Whether two blocks share a multiprocessor: one then multiplies while the other ends an item. For a single row, only
 * if a multiprocessor's share of the weights is more than both halves hold at once; otherwise a half stays free for the
 * next kernel, whose start takes about as long as the row. */
bool takes_both_halves(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const grouped_few_shape &s,
                       const yk_grouped_call &call)
{
  if (s.taken != occupancy::HALF) return false;
  const int64_t panels = std::min<int64_t>(call.max_slots, call.n_matrices) * n_panels(desc);
  return call.n_rows > 1 ||
         panels * n_k_tiles(desc) * panel_bytes(desc) > 2 * HALF_SHARED_BYTES[1] * gpu.n_multiprocessors;
}

/* The launch of a kernel of few rows, without the layout of its work. own: bytes of a block in addition to the ring. */
few_launch place_few(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const grouped_few_shape &s,
                     const yk_grouped_call &call, int own)
{
  grouped_params p = params_of(desc, call);
  const bool both = takes_both_halves(gpu, desc, s, call);
  const bool second = (both || call.second_half) && s.taken == occupancy::HALF;
  p.ring_bytes = (most_shared_bytes(s.taken, second) - own) / 1024 * 1024;
  return {p, static_cast<int64_t>(gpu.n_multiprocessors) * (both ? 2 : 1), HALF_THREADS[second && !both],
          p.ring_bytes + own};
}

} // namespace

few_launch yk_gemm::launch_of_few(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int tile,
                                  const yk_grouped_call &call)
{
  const grouped_few_shape &s = GROUPED_FEW_SHAPES[tile];
  few_launch l = place_few(gpu, desc, s, call, few_acc_bytes(s.n, s.panels) + grouped_table_bytes(call.n_matrices));
  l.params.by_panels = yk_cuda::divider::of(l.params.n_panels);
  lay_out_few(l.blocks, desc, s, l.params);
  return l;
}

namespace {

/* Items of 6 panels, of which four K slices of two warps multiply a quarter of K each: smaller items increase the fixed
 * cost per item, larger ones the difference between the blocks' ends. Two K tiles allow no more slices; and if there
 * are fewer panels than that per block, items have that number. */
int few_slice_warps(const grouped_params &p)
{
  return p.k_tiles > 2 ? 2 : 4;
}

/* A single row has the K slices of the kernel that routes too, so that its results have the same bits. */
cudaError_t few_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int tile, const yk_grouped_call &call,
                        cudaStream_t stream)
{
  const grouped_few_shape &s = GROUPED_FEW_SHAPES[tile];
  const int64_t most_tiles = std::min(call.max_slots, call.n_matrices + call.max_slots / s.n);
  few_launch l = place_few(gpu, desc, s, call,
                           few_acc_bytes(s.n, s.panels) + row_tile_order_bytes(call.n_matrices, 1, most_tiles));
  grouped_params &p = l.params;
  p.slice_warps = call.n_rows == 1 ? launch_of_few(gpu, desc, tile, call).params.slice_warps : few_slice_warps(p);
  p.stage_panels =
      static_cast<int>(std::min<int64_t>(p.slice_warps * s.panels, ceil_div(most_tiles * p.n_panels, l.blocks)));
  p.stages = few_stages(desc, s, p.ring_bytes, p.stage_panels, CONSUMER_WARPS / p.slice_warps);
  p.tile_items = static_cast<int>(ceil_div(p.n_panels, p.stage_panels));
  p.by_tile_items = yk_cuda::divider::of(p.tile_items);
  void *args[] = {&p};
  return launch_clusters(few_kernels_of(desc.encoding, desc.dtype, tile).get(desc), l.blocks, 1, l.threads,
                         l.shared_bytes, args, stream);
}

/* x arrives late, since its rows are looked up first: x has at least as many stages as weights. Weights have at least
 * two stages, and at most the number that can be in flight if the products limit the speed. */
constexpr int MOST_X_STAGES = 8, LEAST_X_STAGES = 3, MOST_WEIGHT_STAGES = 8, LEAST_WEIGHT_STAGES = 2;

cudaError_t wgmma_forward_grouped(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int tile,
                                  const yk_grouped_call &call, cudaStream_t stream)
{
  const grouped_wgmma_shape &s = GROUPED_WGMMA_SHAPES[tile];
  grouped_params p = params_of(desc, call);
  p.max_tiles = static_cast<int>(std::min(call.max_slots, call.n_matrices + call.max_slots / s.n));
  p.tiles_m = static_cast<int>(ceil_div(p.n_panels, GROUPED_TILE_PANELS));
  p.by_tiles_m = yk_cuda::divider::of(p.tiles_m);
  if (deals_tiles(s.n))
    p.n_dealt = static_cast<int>(std::min<int64_t>(gpu.n_multiprocessors / p.tiles_m, call.n_matrices));
  p.shared_expert_parts = static_cast<int>(ceil_div(p.shared_expert_panels, p.tiles_m * GROUPED_TILE_PANELS));
  p.max_tiles += p.shared_expert_parts * static_cast<int>(ceil_div(call.shared_expert.n_rows, s.n));
  const int own = grouped_staging_bytes(s.n) + grouped_gather_bytes(s.n) +
                  row_tile_order_bytes(call.n_matrices + p.shared_expert_parts, n_widths(s.n), p.max_tiles);
  const int x_bytes = x_stage_bytes(s.n), weight_bytes = GROUPED_TILE_PANELS * panel_bytes(desc);
  const int rings = ALL_SHARED_BYTES - own;
  const int least = std::min(LEAST_X_STAGES, (rings - LEAST_WEIGHT_STAGES * weight_bytes) / x_bytes);
  p.x_stages = std::min(MOST_X_STAGES, std::max(least, rings / (x_bytes + weight_bytes)));
  const int most_weights = has_few_rows(s.n) ? MOST_WEIGHT_STAGES : MOST_UNDER_WAY;
  p.weight_stages = std::min(most_weights, (rings - p.x_stages * x_bytes) / weight_bytes);
  /* A stage is released once the next has arrived. */
  if (p.x_stages < 2 || p.weight_stages < LEAST_WEIGHT_STAGES) return cudaErrorInvalidConfiguration;
  void *args[] = {&p};
  return launch_clusters(wgmma_kernels_of(desc.encoding, desc.dtype, tile).get(desc), gpu.n_multiprocessors, 1,
                         GROUPED_THREADS, p.x_stages * x_bytes + p.weight_stages * weight_bytes + own, args, stream);
}

/* Fewer slots than matrices: the kernel of few rows; else the first tile for that number of rows per matrix. */
cudaError_t sm90_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_grouped_call &call,
                         cudaStream_t stream)
{
  if (grouped_row_takes(desc, call)) return grouped_row_forward(gpu, desc, params_of(desc, call), stream);
  if (call.max_slots < call.n_matrices) return few_forward(gpu, desc, 0, call, stream);
  int tile = 0;
  while (call.max_slots > static_cast<int64_t>(GROUPED_WGMMA_SHAPES[tile].most_rows) * call.n_matrices) tile++;
  return wgmma_forward_grouped(gpu, desc, tile, call, stream);
}

yk_status check_call(const yk_grouped_call &call, yk_err *err)
{
  const auto is_aligned = [](const void *pointer, uintptr_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
  };
  if (call.n_matrices < 1 || call.n_matrices > YK_GROUPED_MAX_MATRICES)
    return yk_err_set(err, YK_E_INVAL, "grouped GEMM: expected 1 to %d matrices, found %d", YK_GROUPED_MAX_MATRICES,
                      call.n_matrices);
  if (call.max_slots > YK_GROUPED_MAX_SLOTS)
    return yk_err_set(err, YK_E_INVAL, "grouped GEMM: expected at most %d slots, found %lld", YK_GROUPED_MAX_SLOTS,
                      static_cast<long long>(call.max_slots));
  if (!is_aligned(call.weights, 128) || call.matrix_bytes % 128 || !is_aligned(call.x, 16) || !is_aligned(call.y, 16))
    return yk_err_set(err, YK_E_INVAL, "grouped GEMM: matrices must be 128, x and y 16 bytes aligned");
  return YK_OK;
}

cudaError_t init_sm90()
{
  for (const kernel_types &t : ALL_KERNEL_TYPES) {
    for (int i = 0; i < N_GROUPED_FEW_SHAPES; i++) {
      const cudaError_t error = allow_shared_bytes(few_kernels_of(t.encoding, t.dtype, i),
                                                   most_shared_bytes(GROUPED_FEW_SHAPES[i].taken, false));
      if (error != cudaSuccess) return error;
    }
    for (int i = 0; i < N_GROUPED_WGMMA_SHAPES; i++) {
      const cudaError_t error = allow_shared_bytes(wgmma_kernels_of(t.encoding, t.dtype, i), ALL_SHARED_BYTES);
      if (error != cudaSuccess) return error;
    }
  }
  return grouped_row_init();
}

} // namespace

extern "C" yk_status yk_gemm_grouped_init(const yk_gemm_gpu *gpu, yk_err *err)
{
  YK_TRY(cuda_status(grouped_sm80_init(), "grouped GEMM init", err));
  return gpu->path == YK_GEMM_WGMMA ? cuda_status(init_sm90(), "grouped GEMM init", err) : YK_OK;
}

extern "C" bool yk_gemm_grouped_combines(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call)
{
  return gpu->path == YK_GEMM_WGMMA && grouped_row_takes(*desc, *call);
}

constexpr int X_PIECE = 8; /* elements of x in 16 bytes: the kernels for 9.0 count rows in these, in 32 bits */

/* More rows are faster with a separate GEMM for the weight, in tiles of more rows than a matrix has. */
constexpr int MOST_ROWS_WITH_SHARED_EXPERT = 128;

extern "C" bool yk_gemm_grouped_takes_shared_expert(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc,
                                                    const yk_grouped_call *call)
{
  const yk_grouped_shared_expert &shared_expert = call->shared_expert;
  if (!shared_expert.weights || gpu->path != YK_GEMM_WGMMA) return false;
  if (shared_expert.n_rows == 1) return grouped_row_takes(*desc, *call);
  const yk_gemm_desc own = desc_of_shared_expert(*desc, shared_expert);
  return shared_expert.n_rows <= MOST_ROWS_WITH_SHARED_EXPERT && call->max_slots >= call->n_matrices &&
         yk_gemm_has_panels_of(&own, desc);
}

extern "C" yk_status yk_gemm_grouped_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc,
                                             const yk_grouped_call *call, struct CUstream_st *stream, yk_err *err)
{
  YK_TRY(yk_gemm_desc_check(desc, err));
  YK_TRY(check_call(*call, err));
  if (call->max_slots <= 0) return YK_OK;
  if (call->shared_expert.weights && !yk_gemm_grouped_takes_shared_expert(gpu, desc, call))
    return yk_err_set(err, YK_E_INVAL,
                      "grouped GEMM: expected no shared expert's weight, found one of %lld x %lld for %d rows",
                      (long long)call->shared_expert.k, (long long)call->shared_expert.n, call->shared_expert.n_rows);
  const bool sm90 = gpu->path == YK_GEMM_WGMMA;
  if (sm90 && call->n_rows * (desc->k / X_PIECE) > INT32_MAX)
    return yk_err_set(err, YK_E_INVAL, "grouped GEMM: expected x of at most %d times %d values, found %d rows of %lld",
                      INT32_MAX, X_PIECE, call->n_rows, (long long)desc->k);
  return cuda_status(sm90 ? sm90_forward(*gpu, *desc, *call, stream) : grouped_sm80_forward(*desc, true, *call, stream),
                     "grouped WNA16 GEMM", err);
}

extern "C" yk_status yk_16_bits_grouped_forward(const yk_gemm_desc *desc, const yk_grouped_call *call,
                                                struct CUstream_st *stream, yk_err *err)
{
  YK_TRY(check_call(*call, err));
  if (call->max_slots <= 0 || desc->n <= 0) return YK_OK;
  return cuda_status(grouped_sm80_forward(*desc, false, *call, stream), "grouped GEMM of 16 bits", err);
}
