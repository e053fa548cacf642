/* router.cu - the router's GEMM and the routing of up to 8 rows in one kernel: see route.h. */
#include "kernels/cuda/experts/router.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/experts/route_assign.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_experts;

namespace {

constexpr int ROWS = 8, MOST_BLOCKS = 8; /* rows of x; blocks of the cluster */
constexpr int MOST_EXPERTS = 256;        /* whose logits the first block has memory for */

struct router_params {
  route_params route; /* its logits are where the GEMM's results go */
  const void *x, *w;
  int n_logits, k;
  float *logits;
};

template <typename T> using router_tile = few_outputs_tile<T, ROWS>;

/* Each block of the cluster has columns of the router and sends logits to the first, which routes. Nobody may write
 * another block's shared memory before that block runs. */
template <typename T, int PER_LANE>
__global__ void __launch_bounds__(router_tile<T>::THREADS) router_kernel(const __grid_constant__ router_params p)
{
#if __CUDA_ARCH__ >= 900
  using tile = router_tile<T>;
  extern __shared__ uint32_t shared[];
  __shared__ typename tile::sums sums;
  __shared__ float logits_of_row[ROWS][MOST_EXPERTS];
  const route_memory m = memory_of(p.route, shared);
  const int n_rows = p.route.n_tokens, column0 = blockIdx.x * tile::COLUMNS, step = gridDim.x * tile::COLUMNS;
  tile t;
  t.read_ahead(p.w, p.n_logits, p.k, column0);
  let_next_kernel_start();
  cluster_sync_relaxed();
  wait_for_previous_kernel();
  for (int column = column0; column < p.n_logits; column += step) {
    if (column > column0) t.read_ahead(p.w, p.n_logits, p.k, column);
    t.multiply(p.w, p.n_logits, p.x, n_rows, p.k, column, 0, sums);
    __syncthreads();
    const int own = column + threadIdx.x % tile::COLUMNS, row = threadIdx.x / tile::COLUMNS;
    if (row < n_rows && own < p.n_logits) {
      const float logit = tile::sum_of(sums, own - column, row);
      p.logits[row * p.route.logits_stride + own] = logit;
      if (own < p.route.spec.n_experts) map_shared_rank(logits_of_row[row], 0)[own] = logit;
    }
    __syncthreads();
  }
  cluster_sync();
  if (blockIdx.x > 0) return;
  route_params route = p.route;
  route.logits = logits_of_row[0];
  route.logits_stride = MOST_EXPERTS;
  choose_rows<PER_LANE>(route, m, 0, n_rows);
  add_counts(route, m);
  if (n_rows == 1) {
    assign_only_row(route, m);
    return;
  }
  for (int e = threadIdx.x; e < route.spec.n_local; e += blockDim.x) {
    m.first[e] = 0;
    m.total[e] = __popc(m.chosen[route.spec.first_local + e]);
  }
  __syncthreads();
  add_starts(route, m);
  assign_slots(route, m, 0, n_rows);
#endif
}

template <typename T> const void *router_kernel_for(int n_experts)
{
  return n_experts <= 4 * WARP ? reinterpret_cast<const void *>(router_kernel<T, 4>)
                               : reinterpret_cast<const void *>(router_kernel<T, MOST_EXPERTS / WARP>);
}

const void *router_kernel_for(yk_dtype dtype, int n_experts)
{
  return dtype == YK_F16 ? router_kernel_for<__half>(n_experts) : router_kernel_for<__nv_bfloat16>(n_experts);
}

size_t shared_bytes(const yk_route_spec &spec)
{
  return route_shared_bytes(spec, ROWS, router_tile<__half>::WARPS);
}

} // namespace

extern "C" bool yk_cuda_router_takes(const yk_cuda_router *router, const yk_route_args *args)
{
  bool has_clusters = false;
  const void *kernel = router_kernel_for(router->dtype, args->spec->n_experts);
  return args->n_tokens >= 1 && args->n_tokens <= ROWS && args->spec->n_experts <= MOST_EXPERTS && router->k % 8 == 0 &&
         is_aligned(router->x, 16) && is_aligned(router->w, 16) &&
         has_code_for_90(kernel, &has_clusters) == cudaSuccess && has_clusters;
}

extern "C" cudaError_t yk_cuda_router_init(void)
{
  for (yk_dtype dtype : {YK_F16, YK_BF16})
    for (int n_experts : {128, 256}) {
      const cudaError_t error = prefer_shared_memory(router_kernel_for(dtype, n_experts));
      if (error != cudaSuccess) return error;
    }
  return cudaSuccess;
}

extern "C" cudaError_t yk_cuda_launch_router(const yk_cuda_router *router, const yk_route_args *args,
                                             cudaStream_t stream)
{
  router_params p = {};
  p.route = route_params_of(*args);
  p.route.block_rows = ROWS;
  p.x = router->x;
  p.w = router->w;
  p.n_logits = static_cast<int>(router->n);
  p.k = static_cast<int>(router->k);
  p.logits = args->logits;
  const int blocks =
      std::min(MOST_BLOCKS, (p.n_logits + router_tile<__half>::COLUMNS - 1) / router_tile<__half>::COLUMNS);
  void *pointers[] = {&p};
  return launch_dependent(
      router_kernel_for(router->dtype, args->spec->n_experts),
      {dim3(static_cast<unsigned>(blocks)), router_tile<__half>::THREADS, shared_bytes(*args->spec), blocks}, stream,
      pointers);
}
