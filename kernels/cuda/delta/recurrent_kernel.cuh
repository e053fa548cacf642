/* recurrent_kernel.cuh - one value head of one sequence, over all its rows of the step, with the state [128, 128] in
 * the registers of a thread block: read before the first row, written after the last.
 *
 * Warp w has rows ROWS w to ROWS w + ROWS - 1 of the state, one for each element of k; lane l has columns 4 l to
 * 4 l + 3 of them. A token takes two barriers:
 *
 *   convolution of the head's channels, decay, beta                     all threads, one channel or two each
 *   -- barrier: q, k and v are in shared memory
 *   S^T k and S^T q over the warp's rows                                S: the state before the token
 *   -- barrier: the warps' sums are in shared memory
 *   u = beta (v - decay S^T k); S = decay S + k u^T
 *   o = S^T q = decay (S before)^T q + (k q) u; gated norm of o         warp 0
 *
 * q and k are not normalised themselves: the factors of their lengths are applied to sums. Before
 * griddepcontrol.wait the kernel reads the state, which an earlier step has written, and weights. */
#ifndef YK_KERNELS_CUDA_DELTA_RECURRENT_KERNEL_CUH
#define YK_KERNELS_CUDA_DELTA_RECURRENT_KERNEL_CUH

#include "kernels/cuda/delta/inputs.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

constexpr int DIM = 128, RECURRENT_WARPS = 8, RECURRENT_THREADS = RECURRENT_WARPS * 32, ROWS = DIM / RECURRENT_WARPS;
constexpr int ROUNDS = (3 * DIM + RECURRENT_THREADS - 1) / RECURRENT_THREADS; /* channels of a thread */

/* Inputs of a token, in shared memory. */
struct token_inputs {
  float4 q[DIM / 4], k[DIM / 4], v[DIM / 4];
  float squares[RECURRENT_WARPS]; /* of the first half of the warps: of q; of the others: of k */
  float decay, beta;
};

struct recurrent_shared {
  token_inputs inputs[2]; /* used alternately: a warp may begin a token while others end the one before */
  float4 read_k[RECURRENT_WARPS][WARP], read_q[RECURRENT_WARPS][WARP]; /* S^T k and S^T q over each warp's rows */
  float dot[RECURRENT_WARPS];                                          /* of k and q over the same rows */
  bool is_last_reader;
};

__device__ __forceinline__ void add_scaled(float4 &sum, float a, const float4 &x)
{
  sum.x = fmaf(a, x.x, sum.x), sum.y = fmaf(a, x.y, sum.y);
  sum.z = fmaf(a, x.z, sum.z), sum.w = fmaf(a, x.w, sum.w);
}

__device__ __forceinline__ float4 scaled(float a, const float4 &x)
{
  return make_float4(a * x.x, a * x.y, a * x.z, a * x.w);
}

/* The rows of the state that the thread's warp has, four columns of each. */
struct state_rows {
  float4 at[ROWS];

  /* state: the head's matrix, or NULL for zeros. */
  __device__ __forceinline__ void load(const float *state)
  {
    const float4 *from = reinterpret_cast<const float4 *>(state) + threadIdx.x / WARP * ROWS * (DIM / 4);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      at[i] = state ? __ldcs(from + i * (DIM / 4) + threadIdx.x % WARP) : make_float4(0, 0, 0, 0);
  }

  __device__ __forceinline__ void store(float *state) const
  {
    float4 *to = reinterpret_cast<float4 *>(state) + threadIdx.x / WARP * ROWS * (DIM / 4);
#pragma unroll
    for (int i = 0; i < ROWS; i++) __stcs(to + i * (DIM / 4) + threadIdx.x % WARP, at[i]);
  }

  /* Writes the warp's sums of S^T k, S^T q and k q to shared memory. */
  __device__ __forceinline__ void read(recurrent_shared &s, const token_inputs &in) const
  {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float4 of_k = {}, of_q = {};
    float dot = 0.0f;
#pragma unroll
    for (int i = 0; i < ROWS / 4; i++) {
      const float4 k = in.k[warp * (ROWS / 4) + i], q = in.q[warp * (ROWS / 4) + i];
      add_scaled(of_k, k.x, at[4 * i]), add_scaled(of_q, q.x, at[4 * i]);
      add_scaled(of_k, k.y, at[4 * i + 1]), add_scaled(of_q, q.y, at[4 * i + 1]);
      add_scaled(of_k, k.z, at[4 * i + 2]), add_scaled(of_q, q.z, at[4 * i + 2]);
      add_scaled(of_k, k.w, at[4 * i + 3]), add_scaled(of_q, q.w, at[4 * i + 3]);
      dot += k.x * q.x + k.y * q.y + k.z * q.z + k.w * q.w;
    }
    s.read_k[warp][lane] = of_k;
    s.read_q[warp][lane] = of_q;
    if (lane == 0) s.dot[warp] = dot;
  }

  /* S = decay S + k u^T, where u includes the factor of k. */
  __device__ __forceinline__ void update(const token_inputs &in, const float4 &u)
  {
    const int warp = threadIdx.x / WARP;
    const float decay = in.decay;
#pragma unroll
    for (int i = 0; i < ROWS / 4; i++) {
      const float4 k = in.k[warp * (ROWS / 4) + i];
      const float of_row[] = {k.x, k.y, k.z, k.w};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float4 &row = at[4 * i + j];
        row = scaled(decay, row);
        add_scaled(row, of_row[j], u);
      }
    }
  }
};

__device__ __forceinline__ float4 sum_of_warps(const float4 (&parts)[RECURRENT_WARPS][WARP])
{
  float4 sum = parts[0][threadIdx.x % WARP];
#pragma unroll
  for (int w = 1; w < RECURRENT_WARPS; w++) add_scaled(sum, 1.0f, parts[w][threadIdx.x % WARP]);
  return sum;
}

/* The factors that give q and k their lengths. */
struct key_factors {
  float q, k;

  __device__ static key_factors of(const token_inputs &in)
  {
    float squares[2] = {};
#pragma unroll
    for (int w = 0; w < 2 * DIM / WARP; w++) squares[w / (DIM / WARP)] += in.squares[w];
    return {rsqrtf(squares[0] + NORM_FLOOR) * 0.08838834764831845f /* 1 / sqrt(128) */,
            rsqrtf(squares[1] + NORM_FLOOR)};
  }
};

/* y = norm_w * rms_norm(o) * silu(z), by one warp: lane l has columns 4 l to 4 l + 3. */
template <typename T>
__device__ __forceinline__ void store_gated(const params &p, const head &h, int64_t row, const float4 &o)
{
  const int lane = threadIdx.x % WARP;
  const T *z = static_cast<const T *>(p.x) + row * p.layout.x_stride + h.z + 4 * lane;
  const float squares = yk_cuda::warp_sum(o.x * o.x + o.y * o.y + o.z * o.z + o.w * o.w);
  const float factor = rsqrtf(squares * (1.0f / DIM) + p.norm_eps), of[] = {o.x, o.y, o.z, o.w};
  yk_cuda::vec<T, 4> y;
#pragma unroll
  for (int i = 0; i < 4; i++)
    y.at[i] = yk_cuda::from_float<T>(of[i] * factor * p.norm_w[4 * lane + i] * silu(to_float(z[i])));
  T *to = static_cast<T *>(p.y) + (row * p.n_values + h.index) * DIM;
  reinterpret_cast<yk_cuda::vec<T, 4> *>(to)[lane] = y;
}

/* The first part of a token: its inputs to shared memory, without a barrier behind. */
template <typename T>
__device__ __forceinline__ void make_inputs(const params &p, const head &h, int64_t row,
                                            convolution<RECURRENT_THREADS, ROUNDS> &conv, token_inputs &in)
{
  const float square = yk_cuda::warp_sum(conv.template advance<T>(p, row, &in.q[0].x));
  if (threadIdx.x % WARP == 0) in.squares[threadIdx.x / WARP] = square;
  if (threadIdx.x != RECURRENT_THREADS - 1) return;
  const T *x = static_cast<const T *>(p.x) + row * p.layout.x_stride;
  in.decay = decay_of(to_float(x[h.a]), p.rate[h.index], p.dt_bias[h.index]);
  in.beta = beta_of(to_float(x[h.b]));
}

/* The rest of a token, behind the second barrier. */
template <typename T>
__device__ __forceinline__ void end_token(const params &p, const head &h, int64_t row, const recurrent_shared &s,
                                          const token_inputs &in, state_rows &state)
{
  const key_factors f = key_factors::of(in);
  const float4 read = sum_of_warps(s.read_k), v = in.v[threadIdx.x % WARP];
  const float of_read = -in.beta * in.decay * f.k;
  float4 u = scaled(in.beta, v);
  add_scaled(u, of_read, read);
  u = scaled(f.k, u);
  if (threadIdx.x < WARP) {
    float dot = 0.0f;
#pragma unroll
    for (int w = 0; w < RECURRENT_WARPS; w++) dot += s.dot[w];
    float4 o = scaled(f.q * in.decay, sum_of_warps(s.read_q));
    add_scaled(o, f.q * dot, u);
    store_gated<T>(p, h, row, o);
  }
  state.update(in, u);
}

/* Grid: value heads, sequences. */
template <typename T>
__global__ void __launch_bounds__(RECURRENT_THREADS, 2) recurrent_kernel(const __grid_constant__ params p)
{
  __shared__ recurrent_shared s;
  const int32_t seq = blockIdx.y;
  sequence rows = sequence::of(p, seq);
  if (rows.is_long(p)) rows.end = rows.row;
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * DIM * DIM;
  state_rows state;
  convolution<RECURRENT_THREADS, ROUNDS> conv;
  if (rows.row < rows.end) {
    state.load(rows.before ? rows.before + matrix : nullptr);
    conv.begin(p, h, rows.before, DIM, DIM);
  }
  yk_ptx::wait_for_previous_kernel();
  for (int64_t row = rows.row; row < rows.end; row++) {
    token_inputs &in = s.inputs[row % 2];
    make_inputs<T>(p, h, row, conv, in);
    __syncthreads();
    if (row == rows.row && threadIdx.x == 0) s.is_last_reader = is_last_reader(p, h, seq);
    state.read(s, in);
    __syncthreads();
    if (row + 1 == rows.end) yk_ptx::let_next_kernel_start();
    end_token<T>(p, h, row, s, in, state);
    if (!rows.snapshot || row + 1 != rows.save_end) continue;
    state.store(rows.snapshot + matrix);
    conv.store(p, rows.snapshot, DIM, h.of_key == 0);
  }
  if (rows.row >= rows.end) return;
  state.store(rows.after + matrix);
  conv.store(p, rows.after, DIM, s.is_last_reader);
}

} // namespace yk_delta

#endif
