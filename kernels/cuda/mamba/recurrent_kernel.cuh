/* recurrent_kernel.cuh - one head of one sequence, over all its rows of the step, token by token. A token takes one
 * barrier:
 *
 *   convolution of the head's channels, step, decay     all threads, one channel or a few each
 *   -- barrier: x, b and c are in shared memory
 *   S = decay S + (step x) b^T; y = S c + skip x, times its gate, to the scratch    recurrent_state.cuh
 *
 * The group's last thread block then normalises the group's rows, unless the sequence has many. Before
 * griddepcontrol.wait the kernel reads weights, and the state, which an earlier step has written. */
#ifndef YK_KERNELS_CUDA_MAMBA_RECURRENT_KERNEL_CUH
#define YK_KERNELS_CUDA_MAMBA_RECURRENT_KERNEL_CUH

#include "kernels/cuda/mamba/norm_rows.cuh"
#include "kernels/cuda/mamba/recurrent_state.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_mamba {

struct recurrent_shared {
  token_inputs inputs[2]; /* used alternately: a warp may begin a token while others still compute the previous token */
  float squares[RECURRENT_WARPS];
  bool is_last_reader;
};

/* The first part of a token: its inputs to shared memory, without a barrier behind. */
template <typename T, typename CONVOLUTION>
__device__ __forceinline__ void make_inputs(const params &p, const head &h, int64_t row, CONVOLUTION &conv,
                                            token_inputs &in)
{
  const T *x = static_cast<const T *>(p.x) + row * p.x_stride;
  conv.advance(x, in.xbc);
  if (threadIdx.x != RECURRENT_THREADS - 1) return;
  in.step = limited_step(p, to_float(x[h.dt]) + p.dt_bias[h.index]);
  in.decay = expf(-p.rate[h.index] * in.step);
}

/* The second part: the state after the token, and the head's results with their gates to the scratch. */
template <typename T, typename STATE>
__device__ __forceinline__ void advance(const params &p, const head &h, int64_t row, const token_inputs &in,
                                        STATE &state)
{
  const T *z = static_cast<const T *>(p.x) + row * p.x_stride + h.z;
  float *to = results_of(p, row) + h.z;
  const float skip = p.skip[h.index];
  state.advance(
      p, in, [=](int i) { return to_float(z[i]); },
      [&](int i, float y, float gate) { to[i] = (y + skip * in.xbc[i]) * silu(gate); });
}

/* Grid: heads, sequences. */
template <typename T, typename STATE>
__global__ void __launch_bounds__(RECURRENT_THREADS, 3) recurrent_kernel(const __grid_constant__ params p)
{
  __shared__ recurrent_shared s;
  const int32_t seq = blockIdx.y, head_dim = STATE::head_dim(p), state_size = STATE::state_size(p);
  sequence rows = sequence::of(p, seq);
  const bool is_long = rows.is_long(p);
  if (is_long && !STATE::TAKES_LONG) rows.end = rows.row;
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * head_dim * state_size;
  STATE state;
  convolution<RECURRENT_THREADS, STATE::ROUNDS> conv;
  if (rows.row < rows.end) {
    state.begin(p, rows.before ? rows.before + matrix : nullptr, rows.after + matrix);
    conv.begin(p, h, rows.before, head_dim, state_size);
  }
  yk_ptx::wait_for_previous_kernel();
  for (int64_t row = rows.row; row < rows.end; row++) {
    token_inputs &in = s.inputs[row % 2];
    make_inputs<T>(p, h, row, conv, in);
    __syncthreads();
    if (row + 1 == rows.end) yk_ptx::let_next_kernel_start();
    advance<T>(p, h, row, in, state);
    if (!rows.snapshot || row + 1 != rows.save_end) continue;
    state.save(p, rows.snapshot + matrix);
    conv.store_x(p, rows.snapshot, head_dim);
    if (h.of_group == 0) conv.store_bc(p, rows.snapshot, head_dim);
  }
  if (rows.row >= rows.end) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t *counter = p.readers + static_cast<int64_t>(seq) * p.layout.n_groups + h.group;
    s.is_last_reader = yk_cuda::is_last_reader(counter, p.layout.heads_per_group);
    __threadfence(); /* the other heads' results are read below */
  }
  state.end(p, rows.after + matrix);
  conv.store_x(p, rows.after, head_dim);
  __syncthreads();
  if (!s.is_last_reader) return;
  conv.store_bc(p, rows.after, head_dim);
  for (int64_t row = rows.row; row < rows.end && !is_long; row++) {
    store_group<T, RECURRENT_THREADS, true>(p, row, h.group, s.squares);
    __syncthreads();
  }
}

} // namespace yk_mamba

#endif
