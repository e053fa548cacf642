/* walk_kernel.cuh - one value head of one sequence with many rows, through its chunks of up to 64 rows on tensor cores,
 * with the state in registers from the first chunk to the last. A chunk ends at each multiple of 64 tokens of the
 * sequence, at the row after which a snapshot is saved, and at the last row.
 *
 *   -- the chunk's inputs have arrived; barrier
 *   begin to copy z, and the next chunk's inputs
 *   every warp: R, U, O, and S of its columns of the state      chunk_state.cuh
 *   -- z has arrived; barrier
 *   gated norm of O: warp w has rows 8 w to 8 w + 7
 */
#ifndef YK_KERNELS_CUDA_DELTA_WALK_KERNEL_CUH
#define YK_KERNELS_CUDA_DELTA_WALK_KERNEL_CUH

#include "kernels/cuda/delta/chunk_inputs.cuh"
#include "kernels/cuda/delta/chunk_state.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

/* Begins to copy the inputs of a chunk; inputs past the last row are zeros. */
template <typename T>
__device__ __forceinline__ void copy_inputs(const params &p, const head &h, const chunk_rows &rows, walk_inputs<T> &to)
{
  constexpr int PIECE = 16 / sizeof(T), OF_ROW = CHUNK_DIM / PIECE, OF_SQUARE = CHUNK / PIECE;
  const auto copy = [](T *target, const T *from, bool is_there) {
    yk_ptx::cp_async_16(yk_ptx::shared_address(target), from, is_there);
  };
#pragma unroll 1
  for (int row = threadIdx.x / OF_ROW; row < CHUNK; row += CHUNK_THREADS / OF_ROW) {
    const int at = threadIdx.x % OF_ROW * PIECE;
    const bool is_there = row < rows.n;
    const int64_t from = rows.first + (is_there ? row : 0);
    const T *keys = row_scratch::of(p, from).template keys<T>(h.key) + at;
    copy(&to.q[row][at], keys, is_there);
    copy(&to.k[row][at], keys + CHUNK_DIM, is_there);
    copy(&to.v[row][at], static_cast<const T *>(p.y) + (from * p.n_values + h.index) * CHUNK_DIM + at, is_there);
  }
#pragma unroll 1
  for (int row = threadIdx.x / OF_SQUARE; row < CHUNK; row += CHUNK_THREADS / OF_SQUARE) {
    const int at = threadIdx.x % OF_SQUARE * PIECE;
    const bool is_there = row < rows.n;
    const T *matrices = row_scratch::of(p, rows.first + (is_there ? row : 0)).template matrices<T>(h.index) + at;
    copy(&to.solve[row][at], matrices, is_there);
    copy(&to.attend[row][at], matrices + CHUNK, is_there);
  }
  if (threadIdx.x >= CHUNK) return;
  const int64_t last = rows.first + min(static_cast<int>(threadIdx.x), rows.n - 1); /* the row whose decay is the decay
                                                                                     * of the chunk */
  const float2 *decays = row_scratch::of(p, last).template decays<T>(h.index);
  yk_ptx::cp_async_4(yk_ptx::shared_address(&to.decay[threadIdx.x]), &decays->x);
  yk_ptx::cp_async_4(yk_ptx::shared_address(&to.decay_to_end[threadIdx.x]), &decays->y);
}

/* Begins to copy z: four bytes at once, as rows of x may begin anywhere. Rows after the last are that one. */
template <typename T>
__device__ __forceinline__ void copy_gates(const params &p, const head &h, const chunk_rows &rows, T (*to)[ROW_STRIDE])
{
  const int at = threadIdx.x % (CHUNK_DIM / 2) * 2;
#pragma unroll 2
  for (int row = threadIdx.x / (CHUNK_DIM / 2); row < CHUNK; row += CHUNK_THREADS / (CHUNK_DIM / 2)) {
    const T *z = static_cast<const T *>(p.x) + (rows.first + min(row, rows.n - 1)) * p.layout.x_stride + h.z + at;
    yk_ptx::cp_async_4(yk_ptx::shared_address(&to[row][at]), z);
  }
}

/* y = norm_w * rms_norm(o) * silu(z) of the warp's rows of the chunk. */
template <typename T>
__device__ __forceinline__ void store_chunk(const params &p, const head &h, const chunk_rows &rows,
                                            const T (*results)[ROW_STRIDE], const T (*gates)[ROW_STRIDE])
{
  const int lane = threadIdx.x % WARP;
  const float2 w_low = *reinterpret_cast<const float2 *>(p.norm_w + 2 * lane),
               w_high = *reinterpret_cast<const float2 *>(p.norm_w + 64 + 2 * lane);
#pragma unroll 2
  for (int i = first_row_of_warp(), end = min(i + WARP_ROWS, rows.n); i < end; i++) {
    const uint32_t *o = reinterpret_cast<const uint32_t *>(results[i]),
                   *z = reinterpret_cast<const uint32_t *>(gates[i]);
    const float2 low = left_factor::unpack<T>(o[lane]), high = left_factor::unpack<T>(o[lane + WARP]);
    const float2 z_low = left_factor::unpack<T>(z[lane]), z_high = left_factor::unpack<T>(z[lane + WARP]);
    const float squares = yk_cuda::warp_sum(low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y);
    const float factor = rsqrtf(squares * (1.0f / CHUNK_DIM) + p.norm_eps);
    const int64_t at = ((rows.first + i) * p.n_values + h.index) * CHUNK_DIM;
    uint32_t *y = reinterpret_cast<uint32_t *>(static_cast<T *>(p.y) + at);
    y[lane] = yk_ptx::round_pair<T>(low.x * factor * w_low.x * silu(z_low.x), low.y * factor * w_low.y * silu(z_low.y));
    y[lane + WARP] =
        yk_ptx::round_pair<T>(high.x * factor * w_high.x * silu(z_high.x), high.y * factor * w_high.y * silu(z_high.y));
  }
}

/* Stores the inputs of the convolution before row `end` to a state: those of v, and those of q and k by the first value
 * head of a key head. */
template <typename T>
__device__ void store_window(const params &p, const sequence &s, const head &h, int64_t end, float *state)
{
  for (int i = 2 * threadIdx.x; i < 3 * CHUNK_DIM; i += 2 * CHUNK_THREADS) {
    const int of = i / CHUNK_DIM, element = i % CHUNK_DIM;
    if (of < 2 && h.of_key != 0) continue;
    const int64_t column = (of == 0 ? h.q : of == 1 ? h.k : h.v) + element;
    const int32_t head_index = of < 2 ? of * p.layout.n_key_heads + h.key : 2 * p.layout.n_key_heads + h.index;
    const conv_place at = {head_index * CHUNK_DIM + element, column};
    yk_cuda::store_window_pair<T>(p, s, end, p.layout.x_stride, at, state);
  }
}

/* The chunk from `row` on; none from the sequence's end on. position: of that row in the sequence. */
__device__ __forceinline__ chunk_rows chunk_of(const sequence &s, int64_t row, int64_t position)
{
  return {row, row < s.end ? static_cast<int>(s.chunk_end(row, position) - row) : 0};
}

/* Computes a chunk whose inputs are in shared memory; results overwrite v. */
template <typename T> __device__ __forceinline__ void run_chunk(walk_inputs<T> &in, state_columns<T> &state)
{
  left_factor factor;
  state.residual(in, factor);
  multiply_triangle<T>(factor, in.solve);
  state.attend(factor, in);
  factor.scale<T>(in.decay_to_end);
  state.update(factor, in.k, in.decay[CHUNK - 1]);
}

/* The thread block's head of the state after a row, to a table's row. */
template <typename T>
__device__ __forceinline__ void store_state(const params &p, const sequence &rows, const head &h, int64_t end,
                                            const state_columns<T> &state, float *to)
{
  state.store(to + static_cast<int64_t>(h.index) * CHUNK_DIM * CHUNK_DIM);
  store_window<T>(p, rows, h, end, to);
}

/* Grid: value heads, sequences. Dynamic shared memory: a walk_shared. The kernel reads the state before
 * griddepcontrol.wait, which an earlier step has written. */
template <typename T, int STAGES>
__global__ void __launch_bounds__(CHUNK_THREADS, STAGES == 1 ? 2 : 1) walk_kernel(const __grid_constant__ params p)
{
  extern __shared__ __align__(16) unsigned char memory[];
  walk_shared<T, STAGES> &s = *reinterpret_cast<walk_shared<T, STAGES> *>(memory);
  const sequence rows = sequence::of(p, blockIdx.y);
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * CHUNK_DIM * CHUNK_DIM;
  state_columns<T> state;
  if (rows.is_long(p)) state.load(rows.before ? rows.before + matrix : nullptr);
  yk_ptx::wait_for_previous_kernel();
  if (!rows.is_long(p)) return;
  const int64_t first_position = p.kv_tokens[blockIdx.y] - rows.end; /* of row 0 */
  chunk_rows chunk = chunk_of(rows, rows.row, first_position + rows.row);
  copy_inputs(p, h, chunk, s.inputs[0]);
  yk_ptx::cp_async_commit();
  for (int stage = 0; chunk.n > 0; stage = (stage + 1) % STAGES) {
    const int64_t end = chunk.first + chunk.n;
    const chunk_rows next = chunk_of(rows, end, first_position + end);
    yk_ptx::cp_async_wait<0>();
    __syncthreads();
    copy_gates(p, h, chunk, s.z);
    yk_ptx::cp_async_commit();
    if (STAGES > 1 && next.n > 0) copy_inputs(p, h, next, s.inputs[(stage + 1) % STAGES]);
    yk_ptx::cp_async_commit();
    run_chunk(s.inputs[stage], state);
    yk_ptx::cp_async_wait<1>();
    __syncthreads();
    store_chunk(p, h, chunk, s.inputs[stage].v, s.z);
    if (rows.snapshot && end == rows.save_end) store_state(p, rows, h, end, state, rows.snapshot);
    chunk = next;
    if (STAGES > 1 || next.n == 0) continue;
    __syncthreads();
    copy_inputs(p, h, next, s.inputs[0]);
    yk_ptx::cp_async_commit();
  }
  yk_ptx::let_next_kernel_start();
  store_state(p, rows, h, rows.end, state, rows.after);
}

} // namespace yk_delta

#endif
