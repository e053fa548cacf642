/* chunk_kernel.cuh - one head of one sequence with many rows, by chunks of up to 64 rows on tensor cores (the form of
 * Dao and Gu 2024, "Transformers are SSMs", section 6), with the state in registers from the first chunk to the last. A
 * chunk ends at each multiple of 64 tokens of the sequence, at the row after which a snapshot is saved, and at the last
 * row. With G the sums of log decays from the chunk's first row on, and t and s rows of the chunk:
 *
 *   mixed[t][s] = (c_t b_s) exp(G_t - G_s) step_s      for s <= t
 *   y_t = exp(G_t) S c_t + sum over s of mixed[t][s] x_s + skip x_t
 *   S = exp(G_end) S + sum over s of exp(G_end - G_s) step_s x_s b_s^T
 *
 *   -- the chunk's inputs have arrived; barrier
 *   begin to copy the next chunk's inputs; mixed: warp w has rows 16 w to 16 w + 15
 *   -- barrier
 *   every warp: y and S of 16 elements of the head; warp 0: decays of the next chunk
 *
 * The warp writes y over its columns of x, which it has read, and from there to the scratch.
 *
 * GROUPS of warps: with two, a multiprocessor's schedulers have two warps each, though the sequence has no more heads.
 * Group g has half of the tiles of mixed and half of the rows of y; both keep the same state. */
#ifndef YK_KERNELS_CUDA_MAMBA_CHUNK_KERNEL_CUH
#define YK_KERNELS_CUDA_MAMBA_CHUNK_KERNEL_CUH

#include "kernels/cuda/mamba/chunk_shared.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_mamba {

/* The warp's index in its group, which determines its elements of the head; and its group. */
__device__ __forceinline__ int warp_of_group()
{
  return threadIdx.x / WARP % CHUNK_WARPS;
}

__device__ __forceinline__ int group_of_warps()
{
  return threadIdx.x / CHUNK_THREADS;
}

/* The state of the warp's elements of the head, rows of S [CHUNK_HEAD, CHUNK_STATE]. */
template <typename T> struct state_rows : yk_cuda::state_values<T, CHUNK_STATE> {
  using base = yk_cuda::state_values<T, CHUNK_STATE>;
  using base::s;

  /* Elements j and j + 1 of tile n, j even: the offset in the head's matrix. */
  __device__ static __forceinline__ int offset(int n, int j)
  {
    const int lane = threadIdx.x % WARP, row = warp_of_group() * 16 + lane / 4 + j / 2 * 8;
    return row * CHUNK_STATE + 8 * n + lane % 4 * 2;
  }

  __device__ __forceinline__ void load(const float *matrix)
  {
#pragma unroll
    for (int n = 0; n < base::TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const float2 v = matrix ? *reinterpret_cast<const float2 *>(matrix + offset(n, j)) : make_float2(0, 0);
        s[n][j] = v.x, s[n][j + 1] = v.y;
      }
  }

  __device__ __forceinline__ void store(float *matrix) const
  {
#pragma unroll
    for (int n = 0; n < base::TILES; n++)
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        *reinterpret_cast<float2 *>(matrix + offset(n, j)) = make_float2(s[n][j], s[n][j + 1]);
  }
};

/* The warp's rows of mixed, of which a group has every GROUPS-th tile of 16 columns. */
template <typename T, int GROUPS>
__device__ __forceinline__ void mix(const chunk_inputs<T> &in, chunk_shared<T> &shared)
{
  const int warp = warp_of_group(), group = group_of_warps(), lane = threadIdx.x % WARP;
  float cb[CHUNK / 8][4] = {};
#pragma unroll
  for (int k = 0; k < CHUNK_STATE; k += 16) {
    uint32_t a[4];
    yk_cuda::load_a(a, in.c, 16 * warp, k);
#pragma unroll
    for (int i = 0; i < CHUNK / 16; i++) {
      if (i > warp || i % GROUPS != group) continue;
      uint32_t b[4];
      yk_cuda::load_b(b, in.b, 16 * i, k);
      yk_ptx::mma_m16n8k16<T>(cb[2 * i], a[0], a[1], a[2], a[3], b[0], b[1]);
      yk_ptx::mma_m16n8k16<T>(cb[2 * i + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
    }
  }
#pragma unroll
  for (int n = 0; n < CHUNK / 8; n++) {
    if (n / 2 > warp || n / 2 % GROUPS != group) continue;
    const int column = 8 * n + lane % 4 * 2;
    const float2 log = *reinterpret_cast<const float2 *>(&in.log_decay[column]);
    const float2 step = *reinterpret_cast<const float2 *>(&in.step[column]);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const int row = 16 * warp + lane / 4 + j / 2 * 8;
      const float of_row = in.log_decay[row];
      const float low = row >= column ? cb[n][j] * __expf(of_row - log.x) * step.x : 0.0f;
      const float high = row > column ? cb[n][j + 1] * __expf(of_row - log.y) * step.y : 0.0f;
      *reinterpret_cast<uint32_t *>(&shared.mixed[row][column]) = yk_ptx::round_pair<T>(low, high);
    }
  }
}

/* The warp's elements of x, transposed. */
template <typename T> __device__ __forceinline__ left_factor transposed_x(const chunk_inputs<T> &in)
{
  left_factor x;
#pragma unroll
  for (int i = 0; i < CHUNK / 16; i++) {
    uint32_t v[4]; /* elements + 0, rows + 0; elements + 0, rows + 8; elements + 8, rows + 0; elements + 8, rows + 8 */
    yk_cuda::load_b_trans(v, in.x, warp_of_group() * 16, 16 * i);
    x.at[i][0] = v[0], x.at[i][1] = v[2], x.at[i][2] = v[1], x.at[i][3] = v[3];
  }
  return x;
}

/* y of the warp's elements, over its columns of x: with two groups of a half of the rows. */
template <typename T, int GROUPS>
__device__ __forceinline__ void make_results(const left_factor &x, const state_rows<T> &state, float skip,
                                             chunk_inputs<T> &in, const chunk_shared<T> &shared)
{
#pragma unroll
  for (int first = 0; first < CHUNK; first += HALF) {
    if (GROUPS > 1 && first / HALF != group_of_warps()) continue;
    float y[yk_cuda::HALF_TILES][4];
    state.read(y, in.c, first, in.decay);
#pragma unroll
    for (int i = 0; i < HALF / 16; i++) {
      yk_cuda::add_triangle(y[2 * i], y[2 * i + 1], x, shared.mixed, first / 16 + i);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float2 of = left_factor::unpack<T>(x.at[first / 16 + i][j]);
        float(&to)[4] = y[2 * i + j / 2];
        to[j % 2 * 2] = fmaf(skip, of.x, to[j % 2 * 2]);
        to[j % 2 * 2 + 1] = fmaf(skip, of.y, to[j % 2 * 2 + 1]);
      }
    }
    yk_cuda::store_transposed(y, in.x, first, warp_of_group() * 16);
  }
}

/* Copies y of the warp's elements and rows to the scratch: two lanes a row, 16 bytes each. */
template <typename T, int GROUPS>
__device__ __forceinline__ void store_results(const params &p, const head &h, const chunk_rows &rows,
                                              const chunk_inputs<T> &in)
{
  const int lane = threadIdx.x % WARP, column = warp_of_group() * 16 + lane % 2 * 8;
  const int first = group_of_warps() * (CHUNK / GROUPS) + lane / 2;
  __syncwarp();
#pragma unroll
  for (int row = first; row < first + CHUNK / GROUPS; row += WARP / 2) {
    T *to = reinterpret_cast<T *>(results_of(p, rows.first + row)) + h.z + column;
    if (row < rows.n) *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(&in.x[row][column]);
  }
}

/* Stores the convolution's inputs before row `end` to a state: those of the head, and the group's of b and c by its
 * first head. */
template <typename T, int THREADS>
__device__ void store_window(const params &p, const sequence &s, const head &h, int64_t end, float *state)
{
  const int n = h.of_group == 0 ? CHUNK_HEAD + 2 * CHUNK_STATE : CHUNK_HEAD;
  for (int i = 2 * threadIdx.x; i < n; i += 2 * THREADS) {
    const int of_bc = i - CHUNK_HEAD, element = of_bc < 0 ? i : of_bc % CHUNK_STATE;
    const conv_place &first = of_bc < 0 ? h.x : of_bc < CHUNK_STATE ? h.b : h.c;
    const conv_place at = {first.channel + element, first.column + element};
    yk_cuda::store_window_pair<T>(p, s, end, p.x_stride, at, state);
  }
}

/* The chunk from `row` on; none from the sequence's end on. position: of that row in the sequence. */
__device__ __forceinline__ chunk_rows chunk_of(const sequence &s, int64_t row, int64_t position)
{
  return {row, row < s.end ? static_cast<int>(s.chunk_end(row, position) - row) : 0};
}

/* Grid: heads, sequences. Dynamic shared memory: a chunk_shared. */
template <typename T, int GROUPS>
__global__ void __launch_bounds__(GROUPS *CHUNK_THREADS, GROUPS == 1 ? 2 : 1)
    chunk_kernel(const __grid_constant__ params p)
{
  constexpr int THREADS = GROUPS * CHUNK_THREADS;
  extern __shared__ __align__(16) unsigned char memory[];
  chunk_shared<T> &shared = *reinterpret_cast<chunk_shared<T> *>(memory);
  const int32_t seq = blockIdx.y;
  const int warp = threadIdx.x / WARP;
  const sequence rows = sequence::of(p, seq);
  const head h = head::of(p, blockIdx.x);
  const int64_t matrix = static_cast<int64_t>(h.index) * CHUNK_HEAD * CHUNK_STATE;
  const int64_t first_position = p.kv_tokens[seq] - (rows.end - rows.row);
  state_rows<T> state;
  chunk_steps steps;
  if (rows.is_long(p)) state.load(rows.before ? rows.before + matrix : nullptr);
  const float skip = p.skip[h.index];
  yk_ptx::wait_for_previous_kernel();
  if (!rows.is_long(p)) return;
  chunk_rows chunk = chunk_of(rows, rows.row, first_position);
  copy_chunk<T, THREADS>(p, h, chunk, shared.inputs[0]);
  if (warp == 0) {
    steps.load<T>(p, h, chunk);
    steps.store(p, h, chunk, shared.inputs[0]);
  }
  for (int which = 0; chunk.n > 0; which = 1 - which) {
    chunk_inputs<T> &in = shared.inputs[which], &of_next = shared.inputs[1 - which];
    const int64_t end = chunk.first + chunk.n;
    const chunk_rows next = chunk_of(rows, end, first_position + end - rows.row);
    yk_ptx::cp_async_wait<0>();
    __syncthreads();
    if (next.n > 0) copy_chunk<T, THREADS>(p, h, next, of_next);
    if (warp == 0) steps.load<T>(p, h, next);
    mix<T, GROUPS>(in, shared);
    left_factor x = transposed_x(in);
    __syncthreads();
    make_results<T, GROUPS>(x, state, skip, in, shared);
    store_results<T, GROUPS>(p, h, chunk, in);
    x.scale<T>(in.weight);
    state.update(x, in.b, in.decay[CHUNK - 1]);
    if (warp == 0) steps.store(p, h, next, of_next);
    chunk = next;
    if (!rows.snapshot || end != rows.save_end) continue;
    if (group_of_warps() == 0) state.store(rows.snapshot + matrix);
    store_window<T, THREADS>(p, rows, h, end, rows.snapshot);
  }
  yk_ptx::let_next_kernel_start();
  if (group_of_warps() == 0) state.store(rows.after + matrix);
  store_window<T, THREADS>(p, rows, h, rows.end, rows.after);
}

} // namespace yk_mamba

#endif
