/* row_tile_table.cuh - the row tiles of a grouped GEMM, computed by every thread block from the slots of each matrix,
 * which only the device has. A row tile is up to TILE_ROWS slots of one matrix. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_ROW_TILE_TABLE_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_ROW_TILE_TABLE_CUH

#include <cstdint>

#include "kernels/cuda/common/reduce.cuh"

namespace yk_gemm {

/* A matrix with slots. Matrices without slots have no entry. */
struct grouped_entry {
  int matrix;
  int first_tile; /* among the call's row tiles */
  int first_slot, end_slot;
};

/* In shared memory. */
struct grouped_table {
  grouped_entry *entries; /* [n_entries + 1]; the last one has no slots, and first_tile is the number of row tiles */
  int32_t *ends;          /* [n_matrices] the end of the slots of each matrix */
  int2 *size;             /* n_entries, row tiles */
};

__host__ __device__ constexpr int grouped_table_bytes(int n_matrices)
{
  return (n_matrices + 1) * static_cast<int>(sizeof(grouped_entry) + sizeof(int32_t)) + 16;
}

/* memory: grouped_table_bytes, 16-byte aligned. */
__device__ __forceinline__ grouped_table grouped_table_at(uint8_t *memory, int n_matrices)
{
  grouped_entry *entries = reinterpret_cast<grouped_entry *>(memory + 16);
  return {entries, reinterpret_cast<int32_t *>(entries + n_matrices + 1), reinterpret_cast<int2 *>(memory)};
}

/* Called by one warp, once the previous kernel's results may be read; the caller must run a barrier of the thread block
 * before others use the table. Returns its size, in every lane. Starts are read past the L1 cache, which may hold older
 * values. Each lane has a run of matrices, and keeps their starts in shared memory for itself. */
template <int TILE_ROWS>
__device__ __forceinline__ int2 build_grouped_table(const grouped_table &table, const int32_t *starts, int n_matrices)
{
  using namespace yk_cuda;
  constexpr int AHEAD = 4; /* starts that a lane loads together */
  const int lane = threadIdx.x % WARP, each = (n_matrices + WARP - 1) / WARP;
  const int first = min(lane * each, n_matrices), end = min(first + each, n_matrices);
  int2 own = {0, 0}; /* entries, tiles */
  int slot = __ldcg(starts + first);
  const int first_slot = slot;
  for (int m0 = first; m0 < end; m0 += AHEAD) {
    int next[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) next[i] = __ldcg(starts + min(m0 + i + 1, end));
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (m0 + i >= end) continue;
      const int rows = next[i] - slot;
      own.x += rows > 0;
      own.y += (rows + TILE_ROWS - 1) / TILE_ROWS;
      table.ends[m0 + i] = slot = next[i];
    }
  }
  int2 at = {warp_prefix_sum(own.x), warp_prefix_sum(own.y)};
  const int2 size = {__shfl_sync(ALL_LANES, at.x, WARP - 1), __shfl_sync(ALL_LANES, at.y, WARP - 1)};
  at.x -= own.x;
  at.y -= own.y;
  slot = first_slot;
  for (int m = first; m < end; m++) {
    const int next = table.ends[m], rows = next - slot;
    if (rows > 0) table.entries[at.x++] = {m, at.y, slot, next};
    at.y += (rows + TILE_ROWS - 1) / TILE_ROWS;
    slot = next;
  }
  if (lane == 0) {
    *table.size = size;
    table.entries[size.x] = {n_matrices, size.y, 0, 0};
  }
  return size;
}

} // namespace yk_gemm

#endif
