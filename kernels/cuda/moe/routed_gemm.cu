/* routed_gemm.cu - see routed_gemm.h. */
#include "kernels/cuda/moe/routed_gemm.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/moe/routed_gemm_kernel.cuh"

using namespace yk_moe;
using namespace yk_gemm;

namespace {

template <yk_dtype DTYPE, int PER_LANE, bool HAS_SHARED_EXPERT> tile_kernels kernels_of()
{
  const auto of_groups = [](auto groups) {
    return reinterpret_cast<const void *>(
        routed_gemm_kernel<DTYPE, panel_layout<YK_GEMM_INT4, decltype(groups)::value>, PER_LANE, HAS_SHARED_EXPERT>);
  };
  return {{of_groups(std::integral_constant<int, 1>{}), of_groups(std::integral_constant<int, 2>{}),
           of_groups(std::integral_constant<int, 4>{})}};
}

template <yk_dtype DTYPE, int PER_LANE> tile_kernels kernels_of(bool has_shared_expert)
{
  return has_shared_expert ? kernels_of<DTYPE, PER_LANE, true>() : kernels_of<DTYPE, PER_LANE, false>();
}

tile_kernels kernels_of(yk_dtype dtype, int n_experts, bool has_shared_expert)
{
  constexpr int FEW = FEW_EXPERTS / WARP, MOST = ROUTED_EXPERTS / WARP;
  if (n_experts <= FEW_EXPERTS)
    return dtype == YK_F16 ? kernels_of<YK_F16, FEW>(has_shared_expert) : kernels_of<YK_BF16, FEW>(has_shared_expert);
  return dtype == YK_F16 ? kernels_of<YK_F16, MOST>(has_shared_expert) : kernels_of<YK_BF16, MOST>(has_shared_expert);
}

} // namespace

extern "C" cudaError_t yk_cuda_routed_gemm_init(const yk_gemm_gpu *gpu)
{
  if (gpu->path != YK_GEMM_WGMMA) return cudaSuccess;
  for (yk_dtype dtype : {YK_F16, YK_BF16})
    for (int n_experts : {FEW_EXPERTS, ROUTED_EXPERTS})
      for (bool has_shared_expert : {false, true}) {
        const cudaError_t error = allow_shared_bytes(kernels_of(dtype, n_experts, has_shared_expert),
                                                     most_shared_bytes(ROUTED_SHAPE.taken, false));
        if (error != cudaSuccess) return error;
      }
  return cudaSuccess;
}

extern "C" size_t yk_cuda_routed_gemm_mailbox_bytes(void)
{
  return sizeof(logits_mailbox);
}

extern "C" cudaError_t yk_cuda_routed_gemm_prepare(void *to, cudaStream_t stream)
{
  return prepare_mailbox(static_cast<logits_mailbox *>(to), stream);
}

extern "C" bool yk_cuda_routed_gemm_takes(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                                          const yk_cuda_routing *routing)
{
  return desc->encoding == YK_GEMM_INT4 && yk_cuda_can_route_in_gemm(gpu, desc, call, routing);
}

extern "C" bool yk_cuda_can_route_in_gemm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                                          const yk_cuda_routing *routing)
{
  const yk_route_spec &spec = *routing->args->spec;
  return gpu->path == YK_GEMM_WGMMA && routing->args->n_tokens == 1 && call->n_rows == 1 &&
         spec.n_experts <= ROUTED_EXPERTS && (spec.n_groups <= 1 || spec.n_local == spec.n_experts) &&
         call->max_slots > 0 &&
         (!call->shared_expert.weights || (call->shared_expert.k == desc->k && call->shared_expert.x == call->x)) &&
         routing->router->k % 8 == 0 && is_aligned(routing->router->x, 16) && is_aligned(routing->router->w, 16);
}

namespace {

/* The shared expert's weight as a call with one matrix, with the ring of the experts' call. */
grouped_params params_of_shared_expert(const grouped_params &experts, const yk_gemm_desc &desc,
                                       const yk_grouped_shared_expert &shared_expert)
{
  const yk_gemm_desc own = desc_of_shared_expert(desc, shared_expert);
  grouped_params p = experts;
  p.call.weights = shared_expert.weights;
  p.call.y = shared_expert.y;
  p.call.bias = nullptr;
  p.n = static_cast<int>(shared_expert.n);
  p.n_panels = shared_expert.weights ? static_cast<int>(n_panels(own)) : 0;
  return p;
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_routed_gemm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc,
                                                  const yk_grouped_call *call, const yk_cuda_routing *routing,
                                                  cudaStream_t stream)
{
  few_launch l = launch_of_few(*gpu, *desc, ROUTED_TILE, *call);
  routed_params p = {};
  l.params.call.starts_are_settled = false;
  p.gemm[EXPERTS] = l.params;
  p.gemm[SHARED_EXPERT] = params_of_shared_expert(l.params, *desc, call->shared_expert);
  p.route = route_params_of(*routing->args);
  p.router = row_router_of(*routing->router, *routing->args);
  p.among_blocks = static_cast<logits_mailbox *>(routing->mailbox);
  const int64_t with_columns = ceil_div(p.router.n_logits, router_tile<__half, false>::COLUMNS);
  p.first_shared_expert = static_cast<int>(with_columns < l.blocks / 2 ? with_columns : 0);
  p.shared_expert = split_panels(p.gemm[SHARED_EXPERT].n_panels, l.blocks - p.first_shared_expert);
  void *args[] = {&p};
  return launch_clusters(
      kernels_of(desc->dtype, routing->args->spec->n_experts, call->shared_expert.weights != nullptr).get(*desc),
      l.blocks, 1, l.threads, l.shared_bytes, args, stream);
}
