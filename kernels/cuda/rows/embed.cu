/* embed.cu - token embedding and gather: one thread block per row. */
#include "kernels/cuda/rows/embed.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_rows;

namespace {

/* Copies the row of the table, scaled; zeros if this rank's table does not hold the id. */
template <typename T, int N> __global__ void embed_kernel(const yk_embed_args p)
{
  using V = vec<T, N>;
  const int64_t row = blockIdx.x, n = p.hidden / N, id = static_cast<int64_t>(p.token_ids[row]) - p.first_id;
  const bool is_here = id >= 0 && id < p.n_ids;
  const V *from = static_cast<const V *>(p.table) + id * n;
  V *to = static_cast<V *>(p.y) + row * n, *cleared = static_cast<V *>(p.cleared) + row * n;
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
    V v = {};
    if (p.cleared) cleared[i] = v;
    if (is_here) v = from[i];
    for (int j = 0; j < N; j++) v.at[j] = from_float<T>(to_float(v.at[j]) * p.scale);
    to[i] = v;
  }
}

template <typename V> __global__ void gather_kernel(V *y, const V *x, const int32_t *rows, int32_t n)
{
  const int64_t row = blockIdx.x;
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) y[row * n + i] = x[static_cast<int64_t>(rows[row]) * n + i];
}

} // namespace

/* Not a dependent launch: a step begins with this kernel, which must start after the step's description has been copied
 * to the device. Later kernels read the description before their wait (ptx/dependent_launch.cuh). */
extern "C" cudaError_t yk_cuda_launch_embed(yk_dtype dtype, const yk_embed_args *args, cudaStream_t stream)
{
  if (args->n_tokens == 0) return cudaSuccess;
  const bool is_wide = args->hidden % WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->cleared, 16) &&
                       is_aligned(args->table, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (is_wide)
      embed_kernel<T, WIDE><<<args->n_tokens, row_threads(args->hidden / WIDE), 0, stream>>>(*args);
    else
      embed_kernel<T, 1><<<args->n_tokens, row_threads(args->hidden), 0, stream>>>(*args);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_gather_rows(const yk_gather_rows_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0) return cudaSuccess;
  if (args->hidden % WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->x, 16)) {
    const int32_t n = args->hidden / WIDE;
    gather_kernel<<<args->n_rows, row_threads(n), 0, stream>>>(static_cast<uint4 *>(args->y),
                                                               static_cast<const uint4 *>(args->x), args->rows, n);
  } else {
    gather_kernel<<<args->n_rows, row_threads(args->hidden), 0, stream>>>(
        static_cast<uint16_t *>(args->y), static_cast<const uint16_t *>(args->x), args->rows, args->hidden);
  }
  return cudaGetLastError();
}
