/* generic.cu - latent attention of any sizes: one thread block for each row and head, in float32. Slow: for head sizes
 * without a tensor core kernel. */
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/latent/params.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace yk_latent {
namespace {

constexpr int GENERIC_THREADS = 128, GENERIC_WARPS = GENERIC_THREADS / WARP;
constexpr int CHUNK = 128; /* tokens whose scores are held at once */

/* Returns the largest value over the thread block in every thread. */
__device__ float block_max(float x, float *shared)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, offset));
  __syncthreads();
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  float top = shared[0];
  for (int w = 1; w < GENERIC_WARPS; w++) top = fmaxf(top, shared[w]);
  return top;
}

/* shared memory: the query [kv_rank + rope_dim], the weighted sum [kv_rank], scores [CHUNK], and separate arrays for
 * maxima and sums of warps, since warps read maxima while others write sums. */
template <typename T> __global__ void __launch_bounds__(GENERIC_THREADS) generic_kernel(const params p)
{
  extern __shared__ float memory[];
  const yk_latent_layout &l = p.layout;
  const int32_t width = l.kv_rank + l.rope_dim;
  const int64_t row = blockIdx.x, head = blockIdx.y;
  float *query = memory, *sum = query + width, *scores = sum + l.kv_rank, *maxima = scores + CHUNK,
        *sums = maxima + GENERIC_WARPS;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (p.kv_slots[row] < 0) return; /* a padding row */
  const int32_t n_tokens = p.positions[row] + 1;
  const int32_t *table = p.block_tables + static_cast<int64_t>(p.seq_of_row[row]) * p.block_table_stride;
  const T *q = static_cast<const T *>(p.q) + row * p.q_stride + head * (l.nope_dim + l.rope_dim);
  const T *up = static_cast<const T *>(p.kv_up) + head * (l.nope_dim + l.value_dim) * l.kv_rank;
  for (int32_t i = threadIdx.x; i < l.kv_rank; i += GENERIC_THREADS) {
    float absorbed = 0.0f;
    for (int32_t j = 0; j < l.nope_dim; j++) absorbed += to_float(q[j]) * to_float(up[j * l.kv_rank + i]);
    query[i] = absorbed * p.scale_log2;
    sum[i] = 0.0f;
  }
  for (int32_t i = threadIdx.x; i < l.rope_dim; i += GENERIC_THREADS)
    query[l.kv_rank + i] = to_float(q[l.nope_dim + i]) * p.scale_log2;
  __syncthreads();
  float maximum = -INFINITY, total = 0.0f;
  for (int32_t first = 0; first < n_tokens; first += CHUNK) {
    const int32_t n = min(CHUNK, n_tokens - first), token = first + threadIdx.x;
    float score = -INFINITY;
    if (threadIdx.x < n) {
      const T *cached = static_cast<const T *>(p.cache) + slot_of(table, token) * width;
      score = 0.0f;
      for (int32_t i = 0; i < width; i++) score += query[i] * to_float(cached[i]);
    }
    const float top = fmaxf(maximum, block_max(score, maxima)), rescale = exp2f(maximum - top);
    const float weight = exp2f(score - top);
    scores[threadIdx.x] = weight;
    total = total * rescale + block_sum(weight, sums);
    maximum = top;
    __syncthreads();
    for (int32_t i = threadIdx.x; i < l.kv_rank; i += GENERIC_THREADS) {
      float value = sum[i] * rescale;
      for (int32_t t = 0; t < n; t++)
        value += scores[t] * to_float(static_cast<const T *>(p.cache)[slot_of(table, first + t) * width + i]);
      sum[i] = value;
    }
    __syncthreads();
  }
  T *y = static_cast<T *>(p.y) + (row * l.n_heads + head) * l.value_dim;
  for (int32_t i = threadIdx.x; i < l.value_dim; i += GENERIC_THREADS) {
    float value = 0.0f;
    for (int32_t j = 0; j < l.kv_rank; j++) value += to_float(up[(l.nope_dim + i) * l.kv_rank + j]) * sum[j];
    y[i] = from_float<T>(value / total);
  }
}

} // namespace

cudaError_t launch_generic(yk_dtype dtype, const params &p, cudaStream_t stream)
{
  const size_t shared_bytes = sizeof(float) * (2 * p.layout.kv_rank + p.layout.rope_dim + CHUNK + 2 * GENERIC_WARPS);
  return with_act_type(dtype, [&](auto type) {
    return launch_dependent(generic_kernel<decltype(type)>,
                            {dim3(p.n_rows, p.layout.n_heads), GENERIC_THREADS, shared_bytes, 1}, stream, p);
  });
}

} // namespace yk_latent
