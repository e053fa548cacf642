/* awq_rows.cuh - 16-bit weights to AWQ's tensors with all inputs of an output as one group: read once, written once.
 *
 * A cluster takes the tile of outputs that one thread block has in awq_fused.cuh; each of its thread blocks holds TILES
 * tiles of their inputs in registers:
 *
 *   global [n, k]                thread block r: inputs from r * TILES * K_TILE on
 *        |  range of each output over these inputs -> shared memory of all thread blocks of the cluster
 *        |  cluster barrier
 *        |  range over all inputs, scale and zero
 *        v
 *   nibbles, transposed and written as in awq_fused.cuh, tile by tile
 *
 * Larger clusters hold longer rows, but leave more multiprocessors idle: a cluster lies within one of a GPU's groups of
 * 16 or 18 multiprocessors. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_ROWS_CUH
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_ROWS_CUH

#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/quantize/awq_fused.cuh"

namespace yk_awq {

constexpr int ROWS_THREADS = 256, ROWS_N_TILE = ROWS_THREADS / LANES, MAX_CLUSTER = 16;

template <int TILES> struct rows_shared {
  fused_shared<ROWS_N_TILE, 0> tiles[TILES];
  uint32_t ranges[MAX_CLUSTER][ROWS_N_TILE]; /* over the inputs of each thread block */
  uint8_t zeros[ROWS_N_TILE];
};

/* The range over the inputs of a row in its four lanes. */
template <typename T> __device__ __forceinline__ uint32_t range_of_lanes(uint32_t range)
{
#pragma unroll
  for (int lane = 1; lane < LANES; lane *= 2) range = least<T>(range, __shfl_xor_sync(0xffffffffu, range, lane));
  return range;
}

/* The range over all inputs of a row. range: over the thread's own inputs. */
template <typename T>
__device__ __forceinline__ uint32_t exchange_range(uint32_t (&ranges)[MAX_CLUSTER][ROWS_N_TILE], uint32_t range,
                                                   int n_ranks)
{
  const int rank = static_cast<int>(yk_ptx::cluster_rank()), lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
  range = range_of_lanes<T>(range);
  for (int other = lane; other < n_ranks; other += LANES) *yk_ptx::map_shared_rank(&ranges[rank][row], other) = range;
  yk_ptx::cluster_sync();
  for (int other = lane; other < n_ranks; other += LANES) range = least<T>(range, ranges[other][row]);
  return range_of_lanes<T>(range);
}

/* Writes the zeros of the tile's outputs. Called by the threads of one thread block of the cluster. */
__device__ __forceinline__ void write_zeros(const fused_args &p, const uint8_t (&zeros)[ROWS_N_TILE],
                                            int64_t first_output)
{
  const int column = threadIdx.x;
  if (column >= ROWS_N_TILE / 8 || first_output + column * 8 >= p.n) return;
  uint32_t word = 0;
#pragma unroll
  for (int j = 0; j < 8; j++) word |= static_cast<uint32_t>(zeros[column * 8 + j]) << 4 * nibble_of_output(j);
  p.qzeros[first_output / 8 + column] = word;
}

/* Grid: clusters of n_ranks thread blocks, one for each tile of outputs. */
template <typename T, int TILES, int MIN_BLOCKS>
__global__ void __launch_bounds__(ROWS_THREADS, MIN_BLOCKS) rows_kernel(const fused_args p, int n_ranks)
{
#if __CUDA_ARCH__ >= 900
  constexpr int N = TILES * VECTORS;
  __shared__ rows_shared<TILES> shared;
  const int rank = static_cast<int>(yk_ptx::cluster_rank()), lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
  const int64_t first_input = static_cast<int64_t>(rank) * (TILES * K_TILE);
  const int64_t first_output = blockIdx.x / n_ranks * static_cast<int64_t>(ROWS_N_TILE), output = first_output + row;
  const T *from = static_cast<const T *>(p.w) + output * p.k + first_input + lane * 8;
  uint4 v[N];
#pragma unroll
  for (int i = 0; i < N; i++) {
    const bool is_inside = output < p.n && first_input + i * LANES * 8 + lane * 8 < p.k;
    v[i] = is_inside ? __ldcs(reinterpret_cast<const uint4 *>(from + i * LANES * 8)) : make_uint4(0, 0, 0, 0);
  }
  yk_ptx::cluster_sync(); /* others may write to a thread block's shared memory once it has started */
  uint32_t range = 0;
#pragma unroll
  for (int i = 0; i < N; i++) range = least<T>(range, range_of_vector<T>(v[i]));
  const group g = group_in<T>(exchange_range<T>(shared.ranges, range, n_ranks));
  const uint32_t zero = static_cast<uint32_t>(g.zero);
  const rounding r = {__frcp_rn(g.scale), zero << 16 | zero};
  if (rank == 0 && lane == 0 && output < p.n) {
    p.scales[output] = g.scale_bits;
    shared.zeros[row] = static_cast<uint8_t>(zero);
    if (!g.is_sound) note_bad(p.first_bad, output);
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
    auto &tile = shared.tiles[i / VECTORS];
    tile.nibbles[row * PITCH + row / 8 * tile.SKEW + i % VECTORS * LANES + lane] = nibbles_of<T>(v[i], r);
  }
  __syncthreads();
  for (int i = 0; i < TILES; i++)
    write_tile<ROWS_THREADS, ROWS_N_TILE, 0>(p, shared.tiles[i], first_output, first_input + i * K_TILE);
  if (rank == 0) write_zeros(p, shared.zeros, first_output);
#endif
}

/* *fits: whether the GPU has clusters that hold a row; otherwise nothing is launched. */
template <typename T, int TILES, int MIN_BLOCKS>
cudaError_t launch_rows(const fused_args &p, cudaStream_t stream, bool *fits)
{
  const auto kernel = rows_kernel<T, TILES, MIN_BLOCKS>;
  const int64_t n_tiles = (p.n + ROWS_N_TILE - 1) / ROWS_N_TILE;
  const int64_t n_ranks = (p.k + TILES * K_TILE - 1) / (TILES * K_TILE);
  cudaFuncAttributes code;
  cudaError_t error = cudaFuncGetAttributes(&code, kernel);
  *fits = error == cudaSuccess && code.ptxVersion >= 90 && n_ranks <= MAX_CLUSTER;
  if (!*fits) return error;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(n_ranks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(n_tiles * n_ranks));
  config.blockDim = dim3(ROWS_THREADS);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int n_clusters = 0;
  error = cudaOccupancyMaxActiveClusters(&n_clusters, kernel, &config);
  *fits = error == cudaSuccess && n_clusters > 0;
  return *fits ? cudaLaunchKernelEx(&config, kernel, p, static_cast<int>(n_ranks)) : error;
}

} // namespace yk_awq

#endif
