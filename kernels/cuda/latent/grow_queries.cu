/* grow_queries.cu - the factors of yk_score_growth, multiplied into the queries: see latent.h. */
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/latent.h"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int GROW_THREADS = 256;

struct growth_params {
  void *q;
  const int32_t *positions;
  int64_t q_stride;
  int32_t width; /* elements of a row */
  yk_score_growth growth;
};

/* One thread block per row; rows of the first period do not change. As yk_score_growth_at. */
template <typename T> __global__ void __launch_bounds__(GROW_THREADS) grow_queries_kernel(const growth_params p)
{
  const yk_score_growth &g = p.growth;
  const int32_t position = p.positions[blockIdx.x];
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (position < g.period - g.shift) return;
  const uint32_t n_periods = (static_cast<uint32_t>(position) + g.shift) / g.period;
  const float factor = 1.0f + g.beta * logf(static_cast<float>(1 + n_periods));
  T *q = static_cast<T *>(p.q) + blockIdx.x * p.q_stride;
  for (int32_t i = threadIdx.x; i < p.width; i += GROW_THREADS) q[i] = from_float<T>(to_float(q[i]) * factor);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_grow_queries(yk_dtype dtype, const yk_latent_attention_args *args,
                                                   cudaStream_t stream)
{
  growth_params p = {};
  p.q = args->q;
  p.positions = args->batch->positions;
  p.q_stride = args->q_stride;
  p.width = static_cast<int32_t>(yk_latent_q_width(&args->layout));
  p.growth = args->growth;
  return with_act_type(dtype, [&](auto type) {
    return launch_with_max_shared_memory(grow_queries_kernel<decltype(type)>, dim3(args->batch->n_tokens), GROW_THREADS,
                                         0, stream, p);
  });
}
