/* prepare_kernel.cuh - the values of a chunk that do not depend on the state (the WY form of Yang et al. 2024,
 * "Parallelizing linear transformers with the delta rule over sequence length"): a thread block takes the chunks that
 * begin in 64 rows of the step, for one key head and the value heads that read it. Chunks do not depend on each other
 * here.
 *
 *   q and k to shared memory and the scratch, v to y; decays   chunk_inputs.cuh
 *   -- barrier
 *   A and attend                                               chunk_solve.cuh
 *   -- barrier
 *   two warps for each value head: inverses of A's diagonal blocks
 *   -- barrier, the block below them, with a barrier inside -- barrier
 */
#ifndef YK_KERNELS_CUDA_DELTA_PREPARE_KERNEL_CUH
#define YK_KERNELS_CUDA_DELTA_PREPARE_KERNEL_CUH

#include "kernels/cuda/delta/chunk_inputs.cuh"
#include "kernels/cuda/delta/chunk_solve.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_delta {

/* A row of a long sequence, and the rest of its chunk from there on. Rows of short sequences have an empty chunk. */
struct placed_row {
  sequence seq;
  chunk_rows chunk;
  bool begins; /* a chunk */

  __device__ static __forceinline__ placed_row of(const params &p, int64_t row)
  {
    const int32_t seq = p.seq_of_row[row];
    placed_row r = {sequence::of(p, seq), {row, 0}, false};
    if (!r.seq.is_long(p) || row >= r.seq.end) return r; /* padding has the last sequence's number */
    const int64_t position = p.kv_tokens[seq] - (r.seq.end - row);
    r.chunk.n = static_cast<int>(r.seq.chunk_end(row, position) - row);
    r.begins = row == r.seq.row || position % CHUNK == 0 || (r.seq.snapshot && row == r.seq.save_end);
    return r;
  }
};

/* The matrices of up to HEADS_AT_ONCE value heads from `first` on, after a barrier. */
template <typename T>
__device__ __forceinline__ void make_matrices(const params &p, const chunk_rows &rows, const key_products &products,
                                              int32_t first, int n_heads, prepare_shared<T> &s)
{
  const int warp = threadIdx.x / WARP;
  for (int i = 0; i < n_heads; i++) products.template store<T>(p, rows, first + i, s.heads[i]);
  __syncthreads();
  if (warp < 2 * n_heads) invert_block<T>(p, rows, first + warp / 2, warp % 2 * HALF, s.heads[warp / 2]);
  __syncthreads();
  for (int i = 0; i < n_heads; i++) multiply_below(s.heads[i]);
  __syncthreads();
  for (int i = 0; i < n_heads; i++) store_below<T>(p, rows, first + i, s.heads[i]);
}

template <typename T>
__device__ void prepare_chunk(const params &p, const sequence &seq, const chunk_rows &rows, int32_t key,
                              prepare_shared<T> &s)
{
  const int32_t per_key = p.layout.values_per_key, first_value = key * per_key;
  key_products products;
  make_keys(p, seq, rows, key, 0, s.q);
  make_keys(p, seq, rows, key, 1, s.k);
  for (int32_t i = 0; i < per_key; i++) make_values<T>(p, seq, rows, head::of(p, first_value + i));
  for (int32_t i = 0; i < per_key; i += HEADS_AT_ONCE) {
    const int n_heads = min(per_key - i, HEADS_AT_ONCE), warp = threadIdx.x / WARP;
    if (warp < n_heads) make_decays<T>(p, head::of(p, first_value + i + warp), rows, s.heads[warp]);
    __syncthreads();
    if (i == 0) products.multiply(s);
    make_matrices(p, rows, products, first_value + i, n_heads, s);
    __syncthreads();
  }
}

/* Grid: key heads, groups of CHUNK rows of the step. Dynamic shared memory: prepare_bytes. */
template <typename T>
__global__ void __launch_bounds__(CHUNK_THREADS, 2) prepare_kernel(const __grid_constant__ params p)
{
  extern __shared__ __align__(16) unsigned char memory[];
  prepare_shared<T> &s = *reinterpret_cast<prepare_shared<T> *>(memory);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * CHUNK;
  yk_ptx::wait_for_previous_kernel();
  if (threadIdx.x < CHUNK) {
    const bool begins = first + threadIdx.x < p.n_tokens && placed_row::of(p, first + threadIdx.x).begins;
    const uint32_t bits = __ballot_sync(ALL_LANES, begins);
    if (threadIdx.x % WARP == 0) s.begins[threadIdx.x / WARP] = bits;
  }
  __syncthreads();
  for (int i = 0; i < CHUNK; i++) {
    if (!(s.begins[i / WARP] >> i % WARP & 1)) continue;
    const placed_row row = placed_row::of(p, first + i);
    prepare_chunk(p, row.seq, row.chunk, blockIdx.x, s);
  }
  yk_ptx::let_next_kernel_start();
}

} // namespace yk_delta

#endif
