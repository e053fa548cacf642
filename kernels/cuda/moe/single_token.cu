/* single_token.cu - see single_token.h. */
#include "kernels/cuda/moe/single_token.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/moe/route_assign.cuh"
#include "kernels/cuda/moe/single_token_inputs.cuh"

using namespace yk_moe;
using namespace yk_gemm;

namespace {

constexpr int LEAST_STAGES = 2;
constexpr int LEAST_PANELS = SINGLE_TOKEN_GROUP; /* so a stage's panels belong to at most two matrices */
constexpr int MOST_BYTES = ALL_SHARED_BYTES - static_cast<int>(sizeof(single_token_memory));

constexpr yk_gemm_encoding ENCODINGS[] = {YK_GEMM_INT4, YK_GEMM_FP4};

template <yk_gemm_encoding ENCODING> tile_kernels kernels_of(yk_dtype dtype, int n_experts)
{
  return dtype == YK_F16 ? single_token_kernels<ENCODING, YK_F16>(n_experts)
                         : single_token_kernels<ENCODING, YK_BF16>(n_experts);
}

tile_kernels kernels_of(yk_gemm_encoding encoding, yk_dtype dtype, int n_experts)
{
  return encoding == YK_GEMM_FP4 ? kernels_of<YK_GEMM_FP4>(dtype, n_experts)
                                 : kernels_of<YK_GEMM_INT4>(dtype, n_experts);
}

bool takes_encoding(yk_gemm_encoding encoding)
{
  return std::find(std::begin(ENCODINGS), std::end(ENCODINGS), encoding) != std::end(ENCODINGS);
}

single_token_gemm gemm_of(const yk_gemm_desc &desc, const yk_grouped_call &call)
{
  single_token_gemm g = {};
  g.weights = static_cast<const uint8_t *>(call.weights);
  g.bias = static_cast<const uint8_t *>(call.bias);
  g.matrix_bytes = call.matrix_bytes;
  g.k_tiles = static_cast<int>(n_k_tiles(desc));
  g.n_panels = static_cast<int>(n_panels(desc));
  g.row_scales_at = yk_gemm_panels_bytes(&desc);
  if (!call.shared_expert.weights) return g;
  const yk_gemm_desc shared = desc_of_shared_expert(desc, call.shared_expert);
  g.shared = static_cast<const uint8_t *>(call.shared_expert.weights);
  g.shared_k_tiles = static_cast<int>(n_k_tiles(shared));
  g.shared_panels = static_cast<int>(n_panels(shared));
  g.shared_row_scales_at = yk_gemm_panels_bytes(&shared);
  return g;
}

struct single_token_launch {
  single_token_params params;
  int64_t blocks;
  int shared_bytes;
};

single_token_launch launch_of(const yk_gemm_gpu &gpu, const yk_single_token &r)
{
  single_token_launch l = {};
  single_token_params &p = l.params;
  p.gate_up = gemm_of(*r.gate_up_desc, *r.gate_up);
  p.down = gemm_of(*r.down_desc, *r.down);
  p.route = route_params_of(*r.routing->args);
  p.router = row_router_of(*r.routing->router, *r.routing->args);
  p.sum = *r.down->combine;
  p.mailbox = static_cast<single_token_mailbox *>(r.routing->mailbox);
  p.ffn = static_cast<int>(r.down_desc->k);
  p.activation = r.activation;
  p.shared_ffn = static_cast<int>(r.down->shared_expert.weights ? r.down->shared_expert.k : 0);
  p.max_slots = static_cast<int>(r.gate_up->max_slots);
  p.hidden = static_cast<int>(r.down_desc->n);
  const int64_t panels = r.gate_up->max_slots * p.gate_up.n_panels;
  const int down_tiles = p.max_slots * p.down.k_tiles + p.down.shared_k_tiles;
  l.blocks =
      std::min<int64_t>({gpu.n_multiprocessors, SINGLE_TOKEN_BLOCKS, std::max<int64_t>(panels, p.down.n_panels)});
  p.max_panels = static_cast<int>(ceil_div(panels, l.blocks) + ceil_div(p.gate_up.shared_panels, l.blocks));
  const int own = static_cast<int>(ceil_div(single_token_x_bytes(p.gate_up.k_tiles), 1024)) * 1024 +
                  single_token_x_bytes(down_tiles) + SINGLE_TOKEN_WARPS * p.max_panels * PANEL_COLUMNS * 4;
  p.by_blocks = yk_cuda::divider::of(l.blocks);
  p.by_panels = yk_cuda::divider::of(p.gate_up.n_panels);
  p.by_down_tiles = yk_cuda::divider::of(p.down.k_tiles);
  const int stage_bytes = SINGLE_TOKEN_WARPS * SINGLE_TOKEN_GROUP * panel_bytes(*r.down_desc);
  const int64_t wanted =
      ceil_div(p.gate_up.k_tiles, SINGLE_TOKEN_WARPS) * (ceil_div(p.max_panels, SINGLE_TOKEN_GROUP) + 1) +
      ceil_div(p.down.n_panels, l.blocks) * ceil_div(ceil_div(down_tiles, SINGLE_TOKEN_WARPS), SINGLE_TOKEN_GROUP);
  const int64_t fitting = (MOST_BYTES - own) / stage_bytes;
  p.stages = static_cast<int>(std::min({wanted, fitting, int64_t{SINGLE_TOKEN_STAGES}}));
  l.shared_bytes = own + p.stages * stage_bytes;
  return l;
}

} // namespace

extern "C" cudaError_t yk_single_token_init(const yk_gemm_gpu *gpu)
{
  if (gpu->path != YK_GEMM_WGMMA) return cudaSuccess;
  for (yk_gemm_encoding encoding : ENCODINGS)
    for (int n_experts : {FEW_EXPERTS, ROUTED_EXPERTS})
      for (yk_dtype dtype : {YK_F16, YK_BF16}) {
        const cudaError_t error = allow_shared_bytes(kernels_of(encoding, dtype, n_experts), MOST_BYTES);
        if (error != cudaSuccess) return error;
      }
  return cudaSuccess;
}

extern "C" size_t yk_single_token_mailbox_bytes(void)
{
  return sizeof(single_token_mailbox);
}

extern "C" cudaError_t yk_single_token_prepare(void *to, cudaStream_t stream)
{
  return cudaMemsetAsync(to, 0xFF, sizeof(single_token_mailbox),
                         stream); /* all words empty, and the same half for all blocks */
}

extern "C" bool yk_single_token_takes(const yk_gemm_gpu *gpu, const yk_single_token *r)
{
  const yk_gemm_desc &first = *r->gate_up_desc, &second = *r->down_desc;
  const yk_grouped_call &down = *r->down;
  const yk_route_spec &spec = *r->routing->args->spec;
  const int64_t parts = r->activation.is_gated ? 2 : 1; /* gate and up */
  if (!takes_encoding(first.encoding) || !yk_cuda_can_route_in_gemm(gpu, &first, r->gate_up, r->routing)) return false;
  if (!yk_gemm_grouped_combines(gpu, &second, &down)) return false;
  if (r->routing->router->x != r->gate_up->x || r->routing->router->k != first.k) return false;
  if (!yk_gemm_has_panels_of(&first, &second) || first.dtype != second.dtype) return false;
  if (second.k % 8 != 0 || n_panels(first) < LEAST_PANELS || first.n != parts * second.k) return false;
  if (!r->gate_up->shared_expert.weights != !down.shared_expert.weights) return false;
  if (down.shared_expert.weights &&
      (down.shared_expert.k % 8 != 0 || r->gate_up->shared_expert.n != parts * down.shared_expert.k))
    return false;
  if (down.combine->shared_gate && down.combine->shared_gate != r->routing->args->logits + spec.n_experts) return false;
  const single_token_launch l = launch_of(*gpu, *r);
  return l.params.max_slots * second.k + l.params.shared_ffn <= SINGLE_TOKEN_INNER &&
         l.params.max_panels <= SINGLE_TOKEN_PANELS && l.params.stages >= LEAST_STAGES;
}

extern "C" cudaError_t yk_single_token_launch(const yk_gemm_gpu *gpu, const yk_single_token *r, cudaStream_t stream)
{
  single_token_launch l = launch_of(*gpu, *r);
  void *args[] = {&l.params};
  const tile_kernels kernels =
      kernels_of(r->down_desc->encoding, r->down_desc->dtype, r->routing->args->spec->n_experts);
  return launch_clusters(kernels.get(*r->down_desc), l.blocks, 1, SINGLE_TOKEN_THREADS, l.shared_bytes, args, stream);
}
