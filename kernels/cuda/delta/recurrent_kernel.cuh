/* recurrent_kernel.cuh - one value head of one sequence, over all its rows of the step, with the state [128, 128] in
 * the shared memory of a thread block: read before the first row, written with the last. Three thread blocks of a
 * multiprocessor have 192 KB of states, so that one computes while others read and write.
 *
 * Warp w has ROWS rows of the state from ROWS (w % GROUPS) on, one for each element of k, and 64 of its columns: lane l
 * has columns 64 (w / GROUPS) + 2 l and the next. A token takes two barriers:
 *
 *   convolution of the head's channels, decay, beta                     all threads, one channel or two each
 *   -- barrier: q, k and v are in shared memory, and the state
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
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

constexpr int DIM = 128, RECURRENT_WARPS = 8, RECURRENT_THREADS = RECURRENT_WARPS * 32, RECURRENT_BLOCKS = 3;
constexpr int GROUPS = 4, ROWS = DIM / GROUPS; /* the groups of warps share columns; rows of a warp */
constexpr int PAIRS = DIM / 2;                 /* of columns */
constexpr int ROUNDS = (3 * DIM + RECURRENT_THREADS - 1) / RECURRENT_THREADS; /* channels of a thread */
static_assert(RECURRENT_WARPS / GROUPS * WARP == PAIRS, "a thread has two columns");

/* Inputs of a token, in shared memory. */
struct token_inputs {
  float4 q[DIM / 4], k[DIM / 4], v[DIM / 4];
  float squares[RECURRENT_WARPS]; /* of the first half of the warps: of q; of the others: of k */
  float decay, beta;
};

struct recurrent_shared {
  float2 state[DIM][PAIRS];
  float2 read_k[GROUPS][PAIRS], read_q[GROUPS][PAIRS]; /* S^T k and S^T q over each group's rows */
  token_inputs inputs[2]; /* used alternately: a warp may begin a token while others still compute the previous token */
  float dot[GROUPS];      /* of k and q over the same rows */
  bool is_last_reader;
};
static_assert(RECURRENT_BLOCKS * (sizeof(recurrent_shared) + 1024) <= 228 * 1024, "shared memory of a multiprocessor");

__device__ __forceinline__ int row_group()
{
  return threadIdx.x / WARP % GROUPS;
}

/* The thread's two columns. */
__device__ __forceinline__ int column_pair()
{
  return threadIdx.x / WARP / GROUPS * WARP + threadIdx.x % WARP;
}

/* sum + a x */
__device__ __forceinline__ float2 plus_scaled(float2 sum, float a, float2 x)
{
  return make_float2(fmaf(a, x.x, sum.x), fmaf(a, x.y, sum.y));
}

/* Begins to copy a head's matrix, or zeros if `from` is NULL. */
__device__ __forceinline__ void begin_load(recurrent_shared &s, const float *from)
{
  const uint32_t to = yk_ptx::shared_address(s.state);
#pragma unroll
  for (int i = 0; i < DIM * DIM / 4 / RECURRENT_THREADS; i++) {
    const uint32_t at = (i * RECURRENT_THREADS + threadIdx.x) * 16;
    yk_ptx::cp_async_16(to + at, reinterpret_cast<const char *>(from) + (from ? at : 0), from != nullptr);
  }
  yk_ptx::cp_async_commit();
}

/* Writes the warp's sums of S^T k, S^T q and k q to shared memory. */
__device__ __forceinline__ void read_state(recurrent_shared &s, const token_inputs &in)
{
  const int group = row_group(), pair = column_pair();
  float2 of_k = {}, of_q = {};
  float dot = 0.0f;
#pragma unroll
  for (int i = 0; i < ROWS / 4; i++) {
    const float4 k = in.k[group * (ROWS / 4) + i], q = in.q[group * (ROWS / 4) + i];
    const float of_row[] = {k.x, k.y, k.z, k.w}, q_of_row[] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 row = s.state[group * ROWS + 4 * i + j][pair];
      of_k = plus_scaled(of_k, of_row[j], row);
      of_q = plus_scaled(of_q, q_of_row[j], row);
    }
    dot += k.x * q.x + k.y * q.y + k.z * q.z + k.w * q.w;
  }
  s.read_k[group][pair] = of_k;
  s.read_q[group][pair] = of_q;
  if (pair == 0) s.dot[group] = dot;
}

/* S = decay S + k u^T for the thread's part, where u includes the factor of k. stays: a row of the sequence follows.
 * after, snapshot: the head's matrices to write, or NULL. */
__device__ __forceinline__ void update_state(recurrent_shared &s, const token_inputs &in, float2 u, bool stays,
                                             float *after, float *snapshot)
{
  const int group = row_group(), pair = column_pair();
  const float decay = in.decay;
#pragma unroll
  for (int i = 0; i < ROWS / 4; i++) {
    const float4 k = in.k[group * (ROWS / 4) + i];
    const float of_row[] = {k.x, k.y, k.z, k.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int at = group * ROWS + 4 * i + j;
      float2 row = s.state[at][pair];
      row = plus_scaled(make_float2(decay * row.x, decay * row.y), of_row[j], u);
      if (stays) s.state[at][pair] = row;
      if (after) __stcs(reinterpret_cast<float2 *>(after) + at * PAIRS + pair, row);
      if (snapshot) __stcs(reinterpret_cast<float2 *>(snapshot) + at * PAIRS + pair, row);
    }
  }
}

__device__ __forceinline__ float2 sum_of_groups(const float2 (&parts)[GROUPS][PAIRS], int pair)
{
  float2 sum = parts[0][pair];
#pragma unroll
  for (int g = 1; g < GROUPS; g++) sum = plus_scaled(sum, 1.0f, parts[g][pair]);
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

/* u of two columns, with the factor of k. */
__device__ __forceinline__ float2 update_of(const recurrent_shared &s, const token_inputs &in, const key_factors &f,
                                            int pair)
{
  const float2 read = sum_of_groups(s.read_k, pair), v = reinterpret_cast<const float2 *>(in.v)[pair];
  const float of_read = -in.beta * in.decay * f.k;
  const float2 u = plus_scaled(make_float2(in.beta * v.x, in.beta * v.y), of_read, read);
  return make_float2(f.k * u.x, f.k * u.y);
}

/* S^T q of two columns after the token. dot: of k and q. */
__device__ __forceinline__ float2 result_of(const recurrent_shared &s, const token_inputs &in, const key_factors &f,
                                            float dot, int pair)
{
  const float2 read = sum_of_groups(s.read_q, pair), u = update_of(s, in, f, pair);
  const float of_read = f.q * in.decay;
  return plus_scaled(make_float2(of_read * read.x, of_read * read.y), f.q * dot, u);
}

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

/* The gated norm of a token's result, by one warp, after the second barrier. */
template <typename T>
__device__ __forceinline__ void store_result(const params &p, const head &h, int64_t row, const recurrent_shared &s,
                                             const token_inputs &in, const key_factors &f)
{
  float dot = 0.0f;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) dot += s.dot[g];
  const int pair = threadIdx.x % WARP * 2;
  const float2 low = result_of(s, in, f, dot, pair), high = result_of(s, in, f, dot, pair + 1);
  store_gated<T>(p, h, row, make_float4(low.x, low.y, high.x, high.y));
}

/* Grid: value heads, sequences. */
template <typename T>
__global__ void __launch_bounds__(RECURRENT_THREADS, RECURRENT_BLOCKS)
    recurrent_kernel(const __grid_constant__ params p)
{
  extern __shared__ __align__(16) unsigned char memory[];
  recurrent_shared &s = *reinterpret_cast<recurrent_shared *>(memory);
  const int32_t seq = blockIdx.y;
  sequence rows = sequence::of(p, seq);
  if (rows.is_long(p)) rows.end = rows.row;
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * DIM * DIM;
  convolution<RECURRENT_THREADS, ROUNDS> conv;
  if (rows.row < rows.end) {
    begin_load(s, rows.before ? rows.before + matrix : nullptr);
    conv.begin(p, h, rows.before, DIM, DIM);
  }
  yk_ptx::wait_for_previous_kernel();
  for (int64_t row = rows.row; row < rows.end; row++) {
    token_inputs &in = s.inputs[row % 2];
    make_inputs<T>(p, h, row, conv, in);
    yk_ptx::cp_async_wait<0>();
    __syncthreads();
    if (row == rows.row && threadIdx.x == 0) s.is_last_reader = is_last_reader(p, h, seq);
    read_state(s, in);
    __syncthreads();
    const bool is_last = row + 1 == rows.end, is_saved = rows.snapshot && row + 1 == rows.save_end;
    if (is_last) yk_ptx::let_next_kernel_start();
    const key_factors f = key_factors::of(in);
    if (threadIdx.x < WARP) store_result<T>(p, h, row, s, in, f);
    update_state(s, in, update_of(s, in, f, column_pair()), !is_last, is_last ? rows.after + matrix : nullptr,
                 is_saved ? rows.snapshot + matrix : nullptr);
    if (is_saved) conv.store(p, rows.snapshot, DIM, h.of_key == 0);
  }
  if (rows.row < rows.end) conv.store(p, rows.after, DIM, s.is_last_reader);
}

} // namespace yk_delta

#endif
