/* single_row.cu - see single_row.cuh. */
#include "kernels/cuda/gemm/grouped/single_row.cuh"

#include <algorithm>

#include "kernels/cuda/gemm/grouped/single_row_kernel.cuh"

namespace yk_gemm {
namespace {

/* A block fits next to a block of the preceding grouped GEMM (occupancy.cuh), but two of these blocks do not fit
 * there. */
constexpr int MOST_BYTES = 104 * 1024, LEAST_BYTES = 60 * 1024;
constexpr int MOST_X_BYTES = 64 * 1024;

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, bool HAS_SHARED_EXPERT> const void *kernel_of_groups()
{
  if constexpr (!has_groups(ENCODING, GROUPS))
    return nullptr;
  else
    return reinterpret_cast<const void *>(grouped_row_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, HAS_SHARED_EXPERT>);
}

template <bool HAS_SHARED_EXPERT> tile_kernels kernels_of(yk_gemm_encoding encoding, yk_dtype dtype)
{
  return with_types(encoding, dtype, [](auto types) {
    return tile_kernels{{kernel_of_groups<types.ENCODING, types.DTYPE, 1, HAS_SHARED_EXPERT>(),
                         kernel_of_groups<types.ENCODING, types.DTYPE, 2, HAS_SHARED_EXPERT>(),
                         kernel_of_groups<types.ENCODING, types.DTYPE, 4, HAS_SHARED_EXPERT>(),
                         kernel_of_groups<types.ENCODING, types.DTYPE, 8, HAS_SHARED_EXPERT>()}};
  });
}

tile_kernels kernels_of(yk_gemm_encoding encoding, yk_dtype dtype, bool has_shared_expert)
{
  return has_shared_expert ? kernels_of<true>(encoding, dtype) : kernels_of<false>(encoding, dtype);
}

/* Number of K tiles that a panel is multiplied with. */
int64_t most_k_tiles(const yk_gemm_desc &desc, const yk_grouped_call &call)
{
  return call.max_slots * n_k_tiles(desc) +
         (call.shared_expert.weights ? n_k_tiles(desc_of_shared_expert(desc, call.shared_expert)) : 0);
}

int x_bytes(const yk_gemm_desc &desc, const yk_grouped_call &call)
{
  return row_x_bytes(static_cast<int>(most_k_tiles(desc, call)));
}

} // namespace

cudaError_t grouped_row_init()
{
  for (const kernel_types &t : ALL_KERNEL_TYPES)
    for (bool has_shared_expert : {false, true}) {
      const cudaError_t error = allow_shared_bytes(kernels_of(t.encoding, t.dtype, has_shared_expert), MOST_BYTES);
      if (error != cudaSuccess) return error;
    }
  return cudaSuccess;
}

bool grouped_row_takes(const yk_gemm_desc &desc, const yk_grouped_call &call)
{
  const yk_gemm_desc shared_expert = desc_of_shared_expert(desc, call.shared_expert);
  return call.combine && call.combine->n_tokens == 1 && call.combine->hidden == desc.n && !call.row_of_slot &&
         !desc.activation.is_gated && call.max_slots > 0 && call.max_slots <= YK_MAX_TOP_K &&
         (!call.shared_expert.weights ||
          (yk_gemm_has_panels_of(&shared_expert, &desc) && call.shared_expert.n == desc.n &&
           call.shared_expert.y == call.combine->shared)) &&
         x_bytes(desc, call) <= MOST_X_BYTES;
}

cudaError_t grouped_row_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const grouped_params &params,
                                cudaStream_t stream)
{
  grouped_row_params p = {};
  p.gemm = params;
  p.sum = *params.call.combine;
  const int64_t blocks = std::min<int64_t>(params.n_panels, gpu.n_multiprocessors);
  const int64_t stage_bytes = ROW_WARPS * panel_bytes(desc);
  const int64_t wanted = ceil_div(most_k_tiles(desc, params.call), ROW_WARPS) * ceil_div(params.n_panels, blocks);
  const int64_t fitting = (MOST_BYTES - 1024 - x_bytes(desc, params.call)) / stage_bytes;
  p.stages = static_cast<int>(std::min({wanted, fitting, int64_t{ROW_STAGES}}));
  const int64_t rings = ceil_div(p.stages * stage_bytes, 1024) * 1024;
  const int bytes = std::max(LEAST_BYTES, static_cast<int>(rings) + x_bytes(desc, params.call));
  void *args[] = {&p};
  return launch_clusters(kernels_of(desc.encoding, desc.dtype, params.shared_expert_k_tiles > 0).get(desc), blocks, 1,
                         ROW_THREADS, bytes, args, stream);
}

} // namespace yk_gemm
