/* chunk_shared.cuh - the rows of a chunk, and their data in shared memory and in the scratch: see delta.h. */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_SHARED_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_SHARED_CUH

#include "kernels/cuda/common/chunk_products.cuh"
#include "kernels/cuda/delta/params.cuh"

namespace yk_delta {

using yk_cuda::left_factor;
using yk_cuda::load_a;
using yk_cuda::load_b;
using yk_cuda::load_b_trans;
using yk_cuda::round_a;
using yk_cuda::SQUARE_STRIDE;

constexpr int CHUNK = yk_cuda::STATE_CHUNK, CHUNK_DIM = 128, CHUNK_WARPS = 8, CHUNK_THREADS = CHUNK_WARPS * 32;
constexpr int HALF = yk_cuda::HALF_CHUNK, HALF_TILES = yk_cuda::HALF_TILES;
static_assert(CHUNK == YK_DELTA_CHUNK, "rows of the scratch hold rows of a chunk's matrices");

constexpr int ROW_STRIDE = CHUNK_DIM + 8, FLOAT_STRIDE = CHUNK + 4; /* padded: see chunk_products.cuh */

struct chunk_rows {
  int64_t first;
  int n;
};

/* A row of the scratch has three parts, in this order: for each key head q and k, normalised, [2, CHUNK_DIM]; for each
 * value head the row of solve and of attend [2, CHUNK] (chunk_solve.cuh), whose blocks of 32 above the diagonal are
 * undefined; for each value head the decay from the chunk's first row to this row, and from there to its end. */
struct row_scratch {
  unsigned char *row;
  int32_t n_keys, n_values;

  __device__ static __forceinline__ row_scratch of(const params &p, int64_t row)
  {
    return {p.scratch + row * p.scratch_stride, p.layout.n_key_heads, p.n_values};
  }
  template <typename T> __device__ __forceinline__ T *keys(int32_t key) const
  {
    return reinterpret_cast<T *>(row) + key * 2 * CHUNK_DIM;
  }
  template <typename T> __device__ __forceinline__ T *matrices(int32_t value) const
  {
    return reinterpret_cast<T *>(row) + n_keys * 2 * CHUNK_DIM + value * 2 * CHUNK;
  }
  template <typename T> __device__ __forceinline__ float2 *decays(int32_t value) const
  {
    return reinterpret_cast<float2 *>(matrices<T>(n_values)) + value;
  }
};

/* ---- The kernel that prepares chunks -------------------------------------------------------------------------- */

constexpr int HEADS_AT_ONCE = CHUNK_WARPS / 2; /* value heads: two warps invert the matrix of one */

struct head_matrix {
  /* A below the diagonal; later its inverse on the diagonal blocks of HALF, and a product on the other block. */
  alignas(16) float a[CHUNK][FLOAT_STRIDE];
  float log_decay[CHUNK], beta[CHUNK]; /* the sum of log decays up to a row */
};

template <typename T> struct prepare_shared {
  T q[CHUNK][ROW_STRIDE], k[CHUNK][ROW_STRIDE]; /* [row][element]; rows after the chunk's last one are zeros */
  uint32_t begins[CHUNK / 32];                  /* bits of the rows of the thread block with which a chunk begins */
  head_matrix heads[1];                         /* number of elements: as many as fit in the launch's shared memory */
};

/* Shared memory for n_heads value heads at a time. */
template <typename T> constexpr size_t prepare_bytes(int n_heads)
{
  return sizeof(prepare_shared<T>) + (n_heads - 1) * sizeof(head_matrix);
}

/* ---- The kernel that goes through a sequence ------------------------------------------------------------------ */

/* A chunk's inputs. Rows after the chunk's last one are zeros. v: later the results of its columns. */
template <typename T> struct walk_inputs {
  T q[CHUNK][ROW_STRIDE], k[CHUNK][ROW_STRIDE], v[CHUNK][ROW_STRIDE];
  T solve[CHUNK][SQUARE_STRIDE], attend[CHUNK][SQUARE_STRIDE];
  alignas(8) float decay[CHUNK], decay_to_end[CHUNK];
};

/* STAGES: chunks in shared memory; with two, one is copied while the other is computed. */
template <typename T, int STAGES> struct walk_shared {
  walk_inputs<T> inputs[STAGES];
  T z[CHUNK][ROW_STRIDE]; /* of the chunk that is computed */
};

} // namespace yk_delta

#endif
