/* grouped.cu - the grouped W8A8 GEMM's interface: choice of path and of tile, launches on 9.0. */
#include "kernels/cuda/w8a8/grouped.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/w8a8/grouped_params.cuh"
#include "kernels/cuda/w8a8/grouped_tiles.h"
#include "kernels/cuda/w8a8/grouped_wgmma_kernel.cuh"

using namespace yk_w8a8;
using yk_gemm::ceil_div;

namespace {

/* As in the dense GEMM: the rest is left for the kernel that quantises. */
constexpr int MOST_BYTES = yk_gemm::MOST_SHARED_BYTES;

template <size_t... I> const void *kernel_of(int tile, std::index_sequence<I...>)
{
  static const void *const kernels[] = {
      reinterpret_cast<const void *>(grouped_wgmma_kernel<GROUPED_TILES[I].n, GROUPED_TILES[I].step>)...};
  return kernels[tile];
}

const void *kernel_of(int tile)
{
  return kernel_of(tile, std::make_index_sequence<N_GROUPED_TILES>());
}

int tile_for(const yk_w8a8_grouped_call &call)
{
  int tile = 0;
  while (call.max_slots > static_cast<int64_t>(GROUPED_TILES[tile].most_rows) * call.n_matrices) tile++;
  return tile;
}

grouped_params params_of(const yk_w8a8_desc &desc, const yk_w8a8_grouped_call &call)
{
  const char *packed = static_cast<const char *>(call.packed);
  const int64_t width = desc.activation.is_gated ? desc.n / 2 : desc.n;
  grouped_params p = {};
  p.call = call;
  p.k_tiles = static_cast<int>(yk_w8a8_n_k_tiles(desc.k));
  p.out.w_scales = reinterpret_cast<const float *>(packed + yk_w8a8_scales_at(&desc));
  p.out.w_sums = reinterpret_cast<const int32_t *>(packed + yk_w8a8_sums_at(&desc));
  p.out.bias = call.bias;
  p.out.x_scales = call.x_scales;
  p.out.y = call.y;
  p.out.y_stride = width;
  p.out.n = static_cast<int>(desc.n);
  p.out.n_rows = static_cast<int>(yk_w8a8_n_rows(&desc));
  p.out.zero = desc.zero;
  p.out.activation = desc.activation;
  p.out.is_bf16 = call.y_dtype == YK_BF16;
  p.out.is_wide = width % 8 == 0 && yk_cuda::is_aligned(call.y, 16);
  return p;
}

cudaError_t wgmma_forward(const yk_w8a8_gpu &gpu, const yk_w8a8_desc &desc, const yk_w8a8_grouped_call &call,
                          cudaStream_t stream)
{
  const int tile = tile_for(call);
  const grouped_tile_shape &s = GROUPED_TILES[tile];
  const int64_t k = yk_w8a8_k_padded(desc.k);
  grouped_params p = params_of(desc, call);
  p.tiles_m = static_cast<int>(ceil_div(p.out.n_rows, GROUPED_WARPGROUPS * WARPGROUP_ROWS));
  p.by_tiles_m = yk_cuda::divider::of(p.tiles_m);
  p.max_tiles = static_cast<int>(std::min(call.max_slots, call.n_matrices + call.max_slots / s.n));
  const int own = GROUPED_WARPGROUPS * result_bytes(s.n) + grouped_map_bytes(p.max_tiles) +
                  yk_gemm::grouped_table_bytes(call.n_matrices);
  p.n_stages = std::min(MOST_STAGES, (MOST_BYTES - own) / stage_bytes(GROUPED_WARPGROUPS, s.n));
  CUtensorMap map;
  const cudaError_t error =
      yk_cuda::encode_matrix<int8_t>(gpu.gpu->encode_tensor_map, call.x, k, call.max_slots, k, s.step, &map);
  if (error != cudaSuccess) return error;
  void *args[] = {&map, &p};
  return yk_gemm::launch_clusters(kernel_of(tile), gpu.gpu->n_multiprocessors, 1, (GROUPED_WARPGROUPS + 1) * 128,
                                  p.n_stages * stage_bytes(GROUPED_WARPGROUPS, s.n) + own, args, stream);
}

} // namespace

extern "C" yk_status yk_w8a8_grouped_init(const yk_w8a8_gpu *gpu, yk_err *err)
{
  cudaError_t error = grouped_mma_sm80_init();
  for (int tile = 0; tile < N_GROUPED_TILES && gpu->gpu->path == YK_GEMM_WGMMA && error == cudaSuccess; tile++)
    error = yk_gemm::allow_shared_bytes(kernel_of(tile), MOST_BYTES);
  return yk_gemm::cuda_status(error, "grouped W8A8 GEMM init", err);
}

extern "C" yk_status yk_w8a8_grouped_forward(const yk_w8a8_gpu *gpu, const yk_w8a8_desc *desc,
                                             const yk_w8a8_grouped_call *call, cudaStream_t stream, yk_err *err)
{
  if (call->max_slots == 0 || desc->n == 0) return YK_OK;
  const cudaError_t error = gpu->gpu->path == YK_GEMM_MMA
                                ? grouped_mma_sm80_forward(*desc, params_of(*desc, *call), stream)
                                : wgmma_forward(*gpu, *desc, *call, stream);
  return yk_gemm::cuda_status(error, "grouped W8A8 GEMM", err);
}
