/* chunk_shared.cuh - shared memory of a thread block that works on a chunk of up to 64 rows: see chunk_kernel.cuh. */
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

constexpr int ROW_STRIDE = CHUNK_DIM + 8, FLOAT_STRIDE = CHUNK + 4; /* padded: see chunk_products.cuh */

template <typename T> struct chunk_shared {
  /* [row][element]; rows behind the chunk's last one are zeros. v: later the results of its columns. */
  T q[CHUNK][ROW_STRIDE], k[CHUNK][ROW_STRIDE], v[CHUNK][ROW_STRIDE];
  /* solve: (I + A)^-1 with columns times beta. attend: q k^T times decays. Only blocks on and below the diagonal. */
  T solve[CHUNK][SQUARE_STRIDE], attend[CHUNK][SQUARE_STRIDE];
  /* A below the diagonal; later its inverse on the diagonal blocks of HALF, and a product on the other block. */
  alignas(16) float a[CHUNK][FLOAT_STRIDE];
  /* For each row: the sum of log decays up to it; exp of that; exp of (the whole chunk's sum - that); beta. */
  alignas(8) float log_decay[CHUNK], decay[CHUNK], decay_to_end[CHUNK], beta[CHUNK];
  bool is_last_reader;
};

} // namespace yk_delta

#endif
