/* generic.cu - gated delta nets of any head sizes, token by token, with the state in device memory: see delta.h.
 *
 * One thread block has one value head of one sequence. Thread t has column t % value_dim of the state, in every
 * n_slices-th row from t / value_dim on: only that thread reads and writes these elements. */
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/delta/inputs.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

namespace {

constexpr int GENERIC_THREADS = 256, MAX_DIM = YK_DELTA_MAX_HEAD_DIM, GENERIC_ROUNDS = 3 * MAX_DIM / GENERIC_THREADS;

struct generic_shared {
  float inputs[3 * MAX_DIM]; /* q, k, v of the token */
  float products[3];         /* q q, k k, q k */
  float read_k[GENERIC_THREADS], read_q[GENERIC_THREADS];
  float o[MAX_DIM], squares[GENERIC_THREADS / WARP];
  bool is_last_reader;
};

__device__ float warp_dot(const float *a, const float *b, int n)
{
  float sum = 0.0f;
  for (int i = threadIdx.x % WARP; i < n; i += WARP) sum += a[i] * b[i];
  return yk_cuda::warp_sum(sum);
}

/* The thread's part of the head's state. */
struct column {
  int32_t key_dim, value_dim, n_slices, slice, index;

  __device__ static column of(const yk_delta_layout &l)
  {
    const int32_t t = threadIdx.x, n_slices = GENERIC_THREADS / l.value_dim;
    return {l.key_dim, l.value_dim, n_slices, t / l.value_dim, t % l.value_dim};
  }

  template <typename F> __device__ void for_each_row(F f) const
  {
    for (int32_t row = slice; slice < n_slices && row < key_dim; row += n_slices) f(row, row * value_dim + index);
  }

  /* sum over the slices */
  __device__ float sum(const float *parts) const
  {
    float x = 0.0f;
    for (int32_t i = 0; i < n_slices; i++) x += parts[i * value_dim + index];
    return x;
  }
};

template <typename T>
__device__ void store_gated(const params &p, const head &h, int64_t row, const column &c, generic_shared &s)
{
  const float own = threadIdx.x < c.value_dim ? s.o[threadIdx.x] : 0.0f;
  const float factor = rsqrtf(yk_cuda::block_sum(own * own, s.squares) / c.value_dim + p.norm_eps);
  if (threadIdx.x >= c.value_dim) return;
  const float z = to_float(static_cast<const T *>(p.x)[row * p.layout.x_stride + h.z + threadIdx.x]);
  static_cast<T *>(p.y)[(row * p.n_values + h.index) * c.value_dim + threadIdx.x] =
      yk_cuda::from_float<T>(own * factor * p.norm_w[threadIdx.x] * silu(z));
}

/* Computes the token of a row whose q, k and v are in shared memory. */
template <typename T>
__device__ void advance(const params &p, const head &h, int64_t row, const column &c, generic_shared &s, float *state)
{
  const float *q = s.inputs, *k = q + c.key_dim, *v = k + c.key_dim;
  const int warp = threadIdx.x / WARP;
  if (warp < 3) {
    const float product = warp_dot(warp == 1 ? k : q, warp == 0 ? q : k, c.key_dim);
    if (threadIdx.x % WARP == 0) s.products[warp] = product;
  }
  float read_k = 0.0f, read_q = 0.0f;
  c.for_each_row([&](int32_t i, int32_t at) {
    read_k += state[at] * k[i];
    read_q += state[at] * q[i];
  });
  s.read_k[threadIdx.x] = read_k;
  s.read_q[threadIdx.x] = read_q;
  __syncthreads();
  const T *x = static_cast<const T *>(p.x) + row * p.layout.x_stride;
  const float decay = decay_of(to_float(x[h.a]), p.rate[h.index], p.dt_bias[h.index]), beta = beta_of(to_float(x[h.b]));
  const float of_q = rsqrtf((s.products[0] + NORM_FLOOR) * c.key_dim), of_k = rsqrtf(s.products[1] + NORM_FLOOR);
  const float u = of_k * beta * (v[c.index] - decay * of_k * c.sum(s.read_k));
  c.for_each_row([&](int32_t i, int32_t at) { state[at] = decay * state[at] + k[i] * u; });
  if (c.slice == 0) s.o[c.index] = of_q * (decay * c.sum(s.read_q) + s.products[2] * u);
  __syncthreads();
  store_gated<T>(p, h, row, c, s);
  __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(GENERIC_THREADS) generic_kernel(const __grid_constant__ params p)
{
  __shared__ generic_shared s;
  const int32_t seq = blockIdx.y;
  const sequence rows = sequence::of(p, seq);
  const head h = head::of(p, blockIdx.x);
  const column c = column::of(p.layout);
  const int64_t matrix = static_cast<int64_t>(h.index) * c.key_dim * c.value_dim;
  convolution<GENERIC_THREADS, GENERIC_ROUNDS> conv;
  yk_ptx::wait_for_previous_kernel();
  if (rows.row >= rows.end) return;
  conv.begin(p, h, rows.before, c.key_dim, c.value_dim);
  float *state = rows.after + matrix;
  c.for_each_row([&](int32_t, int32_t at) { state[at] = rows.before ? rows.before[matrix + at] : 0.0f; });
  for (int64_t row = rows.row; row < rows.end; row++) {
    conv.template advance<T>(p, row, s.inputs);
    __syncthreads();
    if (row == rows.row && threadIdx.x == 0) s.is_last_reader = is_last_reader(p, h, seq);
    advance<T>(p, h, row, c, s, state);
    if (!rows.snapshot || row + 1 != rows.save_end) continue;
    c.for_each_row([&](int32_t, int32_t at) { rows.snapshot[matrix + at] = state[at]; });
    conv.store(p, rows.snapshot, c.key_dim, h.of_key == 0);
  }
  conv.store(p, rows.after, c.key_dim, s.is_last_reader);
}

} // namespace

cudaError_t launch_generic(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream)
{
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    const yk_ptx::launch_shape shape = {dim3(p.n_values, n_seqs), GENERIC_THREADS, 0, 1};
    return yk_ptx::launch_dependent(generic_kernel<decltype(type)>, shape, stream, p);
  });
}

} // namespace yk_delta
