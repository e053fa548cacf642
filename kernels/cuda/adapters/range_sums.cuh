/* range_sums.cuh - sums of A x over ranges of K, which the thread blocks of a tile of rows exchange through global
 * memory: each range is computed by one thread block, and all thread blocks of the tile add all ranges in order.
 *
 * The data serve as the flag, as in gemm/split_k.cuh: sums are sent with all bits inverted, and 0 means "not written
 * yet", since no arithmetic produces the NaN whose bits are all ones. A thread block that has read all sums of a tile
 * departs, and the last one to depart writes the zeros back. Thread blocks may wait for each other because all run at
 * once: the grid has at most one per multiprocessor, and a GPU places all thread blocks of a grid before any of the
 * next grid.
 *
 * The memory is read and written before griddepcontrol.wait: only kernels of this kind use it, and the GEMM before this
 * kernel starts it when all kernels before the GEMM have ended (yk_gemm_call.next_reads_x). */
#ifndef YK_KERNELS_CUDA_ADAPTERS_RANGE_SUMS_CUH
#define YK_KERNELS_CUDA_ADAPTERS_RANGE_SUMS_CUH

#include "kernels/cuda/adapters/x_products.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_adapters {

constexpr int MOST_RANGES = YK_ADAPTER_RANGES;

struct range_sums {
  uint4 *at;         /* [tiles of rows][octets of a tile][n_ranges][n_tiles][WARP], of x_sums */
  int32_t *departed; /* [tiles of rows] number of thread blocks, 0 between launches */
  int octets;        /* of a tile of rows, at most */
  int n_ranges, n_tiles;

  /* The sums of a warp's lanes: of the first range and tile of ranks. */
  __device__ __forceinline__ uint4 *of_octet(int row_tile, int octet) const
  {
    return at + static_cast<int64_t>(row_tile * octets + octet) * n_ranges * n_tiles * WARP;
  }

  __device__ __forceinline__ void send(int row_tile, int octet, int range, int tile, const float4 &v) const
  {
    const float sums[4] = {v.x, v.y, v.z, v.w};
    yk_ptx::store_inverted_relaxed_gpu16(
        of_octet(row_tile, octet) + (range * n_tiles + tile) * WARP + threadIdx.x % WARP, sums);
  }

  /* Waits for the sums of all ranges. Called by whole warps. */
  __device__ __forceinline__ float4 receive(int row_tile, int octet, int tile) const
  {
    const uint4 *from = of_octet(row_tile, octet) + tile * WARP + threadIdx.x % WARP;
    uint4 v[MOST_RANGES];
    bool is_complete;
    do {
      is_complete = true;
#pragma unroll
      for (int i = 0; i < MOST_RANGES; i++) {
        v[i] = make_uint4(~0u, ~0u, ~0u, ~0u); /* zeros, inverted */
        if (i < n_ranges) v[i] = yk_ptx::load_relaxed_gpu16(from + i * n_tiles * WARP);
      }
#pragma unroll
      for (int i = 0; i < MOST_RANGES; i++)
        is_complete = is_complete && v[i].x != 0 && v[i].y != 0 && v[i].z != 0 && v[i].w != 0;
    } while (!__all_sync(~0u, is_complete));
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < MOST_RANGES; i++)
      add_to(sum, make_float4(__uint_as_float(~v[i].x), __uint_as_float(~v[i].y), __uint_as_float(~v[i].z),
                              __uint_as_float(~v[i].w)));
    return sum;
  }

  /* Called by one thread once all threads of its thread block have received: the number of thread blocks that departed
   * before. */
  __device__ __forceinline__ int depart(int row_tile) const
  {
    return yk_ptx::increment_acq_rel_gpu(departed + row_tile);
  }

  /* Called by a warp of the last thread block that departs. */
  __device__ __forceinline__ void clear(int row_tile, int n_octets) const
  {
    const int lane = threadIdx.x % WARP;
#pragma unroll 4
    for (int i = 0; i < n_octets * n_ranges * n_tiles; i++)
      yk_ptx::store_relaxed_gpu16(of_octet(row_tile, 0) + i * WARP + lane, 0);
    if (lane == 0) departed[row_tile] = 0;
  }
};

} // namespace yk_adapters

#endif
