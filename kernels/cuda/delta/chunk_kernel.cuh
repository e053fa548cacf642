/* chunk_kernel.cuh - one value head of one sequence with many rows, by chunks of up to 64 rows on tensor cores (the WY
 * form of Yang et al. 2024, "Parallelizing linear transformers with the delta rule over sequence length"), with the
 * state in registers from the first chunk to the last. A chunk ends at each multiple of 64 tokens of the sequence, at
 * the row after which a snapshot is saved, and at the last row.
 *
 *   inputs to shared memory: q, k, v, decays            chunk_inputs.cuh
 *   -- barrier
 *   A and attend                                        chunk_solve.cuh
 *   -- barrier
 *   warps 0 and 1: inverses of A's diagonal blocks; every warp: R of its columns of the state   chunk_state.cuh
 *   -- barrier, the block below them, with a barrier inside -- barrier
 *   every warp: U, O, and S of its columns
 *   -- barrier
 *   gated norm of O: warp w has rows 8 w to 8 w + 7, whose v it writes for the next chunk
 */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_KERNEL_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_KERNEL_CUH

#include "kernels/cuda/delta/chunk_inputs.cuh"
#include "kernels/cuda/delta/chunk_solve.cuh"
#include "kernels/cuda/delta/chunk_state.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

/* y = norm_w * rms_norm(o) * silu(z) of the warp's rows of the chunk, GROUP_ROWS at once. */
template <typename T>
__device__ __forceinline__ void store_chunk(const params &p, const head &h, int64_t first_row, int n_rows,
                                            const chunk_shared<T> &s)
{
  const int lane = threadIdx.x % WARP;
  const float2 w_low = *reinterpret_cast<const float2 *>(p.norm_w + 2 * lane),
               w_high = *reinterpret_cast<const float2 *>(p.norm_w + 64 + 2 * lane);
#pragma unroll 1
  for (int first = threadIdx.x / WARP * WARP_ROWS, end = first + WARP_ROWS; first < end; first += GROUP_ROWS) {
    uint32_t gates[GROUP_ROWS][2];
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) { /* no branch between the loads: rows behind the last read that one */
      const int64_t row = first_row + min(first + i, n_rows - 1);
      const T *z = static_cast<const T *>(p.x) + row * p.layout.x_stride + h.z + 2 * lane;
      gates[i][0] = *reinterpret_cast<const uint32_t *>(z);
      gates[i][1] = *reinterpret_cast<const uint32_t *>(z + 64);
    }
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) {
      const uint32_t *o = reinterpret_cast<const uint32_t *>(s.v[first + i]);
      const float2 low = left_factor::unpack<T>(o[lane]), high = left_factor::unpack<T>(o[lane + WARP]);
      const float2 z_low = left_factor::unpack<T>(gates[i][0]), z_high = left_factor::unpack<T>(gates[i][1]);
      const float squares = yk_cuda::warp_sum(low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y);
      const float factor = rsqrtf(squares * (1.0f / CHUNK_DIM) + p.norm_eps);
      const int64_t at = ((first_row + first + i) * p.n_values + h.index) * CHUNK_DIM;
      uint32_t *y = reinterpret_cast<uint32_t *>(static_cast<T *>(p.y) + at);
      if (first + i >= n_rows) continue;
      y[lane] =
          yk_ptx::round_pair<T>(low.x * factor * w_low.x * silu(z_low.x), low.y * factor * w_low.y * silu(z_low.y));
      y[lane + WARP] = yk_ptx::round_pair<T>(high.x * factor * w_high.x * silu(z_high.x),
                                             high.y * factor * w_high.y * silu(z_high.y));
    }
  }
}

/* A chunk whose inputs are in shared memory. */
template <typename T> __device__ __forceinline__ void run_chunk(chunk_shared<T> &s, state_columns<T> &state)
{
  const int warp = threadIdx.x / WARP;
  left_factor factor;
  make_triangles(s);
  __syncthreads();
  if (warp < 2) invert_block(s, HALF * warp);
  state.residual(s, factor);
  __syncthreads();
  invert_below(s);
  __syncthreads();
  multiply_triangle<T>(factor, s.solve);
  state.attend(factor, s);
  factor.scale<T>(s.decay_to_end);
  state.update(factor, s);
}

/* Grid: value heads, sequences. Dynamic shared memory: a chunk_shared. */
template <typename T> __global__ void __launch_bounds__(CHUNK_THREADS, 2) chunk_kernel(const __grid_constant__ params p)
{
  extern __shared__ __align__(16) unsigned char memory[];
  chunk_shared<T> &s = *reinterpret_cast<chunk_shared<T> *>(memory);
  const int32_t seq = blockIdx.y;
  const sequence rows = sequence::of(p, seq);
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * CHUNK_DIM * CHUNK_DIM;
  yk_ptx::wait_for_previous_kernel();
  if (!rows.is_long(p)) return;
  state_columns<T> state;
  state.load(rows.before ? rows.before + matrix : nullptr);
  const int64_t first_position = p.kv_tokens[seq] - (rows.end - rows.row);
  bool reads_window = true;
  for (int64_t row = rows.row, end; row < rows.end; row = end) {
    end = rows.chunk_end(row, first_position + row - rows.row);
    const int n_rows = static_cast<int>(end - row);
    make_chunk(p, rows, h, row, n_rows, s);
    __syncthreads();
    if (reads_window && end - rows.row >= yk_cuda::CONV_WINDOW) {
      if (threadIdx.x == 0) s.is_last_reader = is_last_reader(p, h, seq);
      reads_window = false;
    }
    run_chunk(s, state);
    __syncthreads();
    store_chunk(p, h, row, n_rows, s);
    if (!rows.snapshot || end != rows.save_end) continue;
    state.store(rows.snapshot + matrix);
    store_window<T>(p, rows, h, end, rows.snapshot, h.of_key == 0);
  }
  state.store(rows.after + matrix);
  store_window<T>(p, rows, h, rows.end, rows.after, s.is_last_reader);
}

} // namespace yk_delta

#endif
