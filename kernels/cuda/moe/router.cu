/* router.cu - see router.h. */
#include "kernels/cuda/moe/router.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/gemm/dense/few_outputs.h"
#include "kernels/cuda/moe/router_kernel.cuh"
#include "kernels/cuda/ptx/count_clusters.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_moe;
using namespace yk_moe::router_kernels;

namespace {

/* A cluster's eight thread blocks read the whole router. A wider router is faster over more blocks, in two kernels. */
constexpr int64_t MOST_WEIGHTS = 1 << 20;
/* available to every block without an attribute, less static shared memory */
constexpr size_t ROUTER_MOST_BYTES = 47 * 1024;

template <typename T> const void *kernel_for(int per_lane, int rows, bool is_one_cluster)
{
  if (per_lane > 4)
    return is_one_cluster ? reinterpret_cast<const void *>(router_kernel<T, MOST_WORDS, 8, true>)
                          : reinterpret_cast<const void *>(router_kernel<T, MOST_WORDS, 8, false>);
  if (is_one_cluster) return reinterpret_cast<const void *>(router_kernel<T, 4, 8, true>);
  return rows == 8 ? reinterpret_cast<const void *>(router_kernel<T, 4, 8, false>)
                   : reinterpret_cast<const void *>(router_kernel<T, 4, 16, false>);
}

const void *kernel_for(yk_dtype dtype, int per_lane, int rows, bool is_one_cluster)
{
  return dtype == YK_F16 ? kernel_for<__half>(per_lane, rows, is_one_cluster)
                         : kernel_for<__nv_bfloat16>(per_lane, rows, is_one_cluster);
}

constexpr int MOST_ROWS_BY_8 = MOST_ROWS / 2; /* up to this number of rows clusters have 8 rows, else 16 */

int threads_of(int per_lane)
{
  return (per_lane == 4 ? WARPS<4> : WARPS<MOST_WORDS>)*WARP;
}

int per_lane_of(const yk_route_spec &spec)
{
  return spec.n_experts <= 4 * WARP ? 4 : MOST_WORDS;
}

router_norm norm_of(const yk_add_norm_args &a)
{
  return {a.y, a.residual, a.partials[0], a.w, a.alpha, a.eps, 1.0f / static_cast<float>(a.hidden)};
}

/* Whether clusters can normalise their rows: each block normalises one row, one packet per thread. */
bool can_normalise(const yk_cuda_router &router, const yk_route_args &args)
{
  const yk_add_norm_args &a = *router.norm;
  return a.n_partials == 1 && !a.combine && a.w && a.y == router.x && a.hidden == router.k &&
         router.k <= 8 * threads_of(per_lane_of(*args.spec)) && args.n_tokens <= MOST_ROWS_BY_8 &&
         is_aligned(a.residual, 16) && is_aligned(a.partials[0], 16) && is_aligned(a.w, 16);
}

/* Parameters of a launch. */
struct router_launch {
  const void *kernel;
  launch_shape shape;
  router_params params;
};

router_launch launch_of(const yk_cuda_router &router, const yk_route_args &args)
{
  const int per_lane = per_lane_of(*args.spec), rows = args.n_tokens <= MOST_ROWS_BY_8 ? 8 : 16;
  router_params p = {};
  p.route = route_params_of(args);
  p.x = router.x;
  p.w = router.w;
  p.bias = router.bias;
  p.logits = args.logits;
  p.n_logits = static_cast<int>(router.n);
  p.n_tiles = (p.n_logits + COLUMNS - 1) / COLUMNS;
  p.k = static_cast<int>(router.k);
  if (router.norm) p.norm = norm_of(*router.norm);
  constexpr int KEPT_INPUTS = few_outputs_tile<__half, 8>::KEPT * 32;
  p.n_pieces = (p.k + KEPT_INPUTS * BLOCKS - 1) / (KEPT_INPUTS * BLOCKS) * few_outputs_tile<__half, 8>::KEPT;
  const dim3 grid(static_cast<unsigned>((args.n_tokens + rows - 1) / rows * BLOCKS));
  return {kernel_for(router.dtype, per_lane, rows, args.n_tokens <= rows && rows == 8),
          {grid, threads_of(per_lane), shared_bytes(p, per_lane, rows), BLOCKS},
          p};
}

/* Whether all of the call's clusters can run at once on an otherwise idle GPU. */
bool fits(const router_launch &l)
{
  int clusters = 0;
  return count_clusters(l.kernel, l.shape, &clusters) == cudaSuccess &&
         clusters * BLOCKS >= static_cast<int>(l.shape.grid.x);
}

} // namespace

extern "C" size_t yk_cuda_router_mailbox_bytes(void)
{
  return sizeof(choices_mailbox);
}

extern "C" cudaError_t yk_cuda_router_prepare(void *mailbox, cudaStream_t stream)
{
  choices_mailbox *e = static_cast<choices_mailbox *>(mailbox);
  const cudaError_t error = cudaMemsetAsync(e->chosen, 0xFF, sizeof e->chosen, stream);
  return error == cudaSuccess ? cudaMemsetAsync(&e->half, 0, sizeof e->half, stream) : error;
}

extern "C" bool yk_cuda_router_takes(const yk_cuda_router *router, const yk_route_args *args)
{
  const yk_plain_gemm gemm = {.x = router->x,
                              .w = router->w,
                              .y = args->logits,
                              .m = args->n_tokens,
                              .n = router->n,
                              .k = router->k,
                              .y_stride = args->logits_stride,
                              .dtype = router->dtype,
                              .y_dtype = YK_F32};
  const int n_experts = args->spec->n_experts, most_rows = n_experts <= 4 * WARP ? MOST_ROWS : MOST_ROWS_BY_8;
  if (args->n_tokens < 1 || args->n_tokens > most_rows || n_experts > MOST_EXPERTS || router->n > 2 * MOST_EXPERTS ||
      router->n * router->k > MOST_WEIGHTS || args->spec->top_k >= WARP || !yk_few_outputs_takes(&gemm) ||
      (router->norm && !can_normalise(*router, *args)))
    return false;
  const router_launch launch = launch_of(*router, *args);
  bool has_clusters = false;
  return launch.shape.shared_bytes <= ROUTER_MOST_BYTES &&
         has_code_for_90(launch.kernel, &has_clusters) == cudaSuccess && has_clusters && fits(launch);
}

extern "C" cudaError_t yk_cuda_router_init(void)
{
  for (yk_dtype dtype : {YK_F16, YK_BF16})
    for (int rows : {8, 16})
      for (int per_lane : {4, MOST_WORDS})
        for (bool is_one_cluster : {false, true}) {
          const cudaError_t error = prefer_shared_memory(kernel_for(dtype, per_lane, rows, is_one_cluster));
          if (error != cudaSuccess) return error;
        }
  return cudaSuccess;
}

extern "C" cudaError_t yk_cuda_launch_router(const yk_cuda_router *router, const yk_route_args *args, void *mailbox,
                                             cudaStream_t stream)
{
  router_launch launch = launch_of(*router, *args);
  launch.params.mailbox = static_cast<choices_mailbox *>(mailbox);
  void *pointers[] = {&launch.params};
  return launch_dependent(launch.kernel, launch.shape, stream, pointers);
}
