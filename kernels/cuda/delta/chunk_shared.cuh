/* chunk_shared.cuh - shared memory of a thread block that works on a chunk of up to 64 rows: see chunk_kernel.cuh. */
#ifndef YK_KERNELS_CUDA_DELTA_CHUNK_SHARED_CUH
#define YK_KERNELS_CUDA_DELTA_CHUNK_SHARED_CUH

#include "kernels/cuda/delta/params.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_delta {

constexpr int CHUNK = YK_STATE_SAVE_TOKENS, CHUNK_DIM = 128, CHUNK_WARPS = 8, CHUNK_THREADS = CHUNK_WARPS * 32;
constexpr int HALF = CHUNK / 2;

/* Rows are padded by 16 bytes, so that the eight rows of a matrix of ldmatrix lie in different banks. */
constexpr int ROW_STRIDE = CHUNK_DIM + 8, SQUARE_STRIDE = CHUNK + 8, FLOAT_STRIDE = CHUNK + 4;

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

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Two B fragments of m16n8k16 of a matrix stored as [n][k]: columns n .. n+15, k .. k+15. b[0], b[1]: of columns
 * n .. n+7; b[2], b[3]: of the others. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_b(uint32_t (&b)[4], const T (*matrix)[STRIDE], int n, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4(b, shared_address(&matrix[n + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]));
}

/* The same of a matrix stored as [k][n]. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_b_trans(uint32_t (&b)[4], const T (*matrix)[STRIDE], int n, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4_trans(b, shared_address(&matrix[k + lane / 8 % 2 * 8 + lane % 8][n + lane / 16 * 8]));
}

/* An A fragment of m16n8k16 of a matrix stored as [m][k]: rows m .. m+15. */
template <typename T, int STRIDE>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const T (*matrix)[STRIDE], int m, int k)
{
  const int lane = threadIdx.x % 32;
  yk_ptx::ldmatrix_x4(a, shared_address(&matrix[m + lane % 16][k + lane / 16 * 8]));
}

} // namespace yk_delta

#endif
