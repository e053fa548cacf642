/* one_launch.cu - both products of adapters after the GEMM, for steps of few rows (9.0): see adapters.h.
 *
 *   grid     clusters that share the outputs of a tile of rows; thread blocks along z that share the step's tiles
 *   cluster  A x of its tile, of all ranks of all parts: each thread block computes a range of K, and all blocks of the
 *   cluster add the sums in the order of the ranges block    its warps alternate over chunks of 32 columns of x, then
 *   over blocks of 32 outputs (outputs.cuh)
 *
 * x is read before griddepcontrol.wait: the GEMM lets this kernel start when x is complete, so A x, and its product
 * with B for a warp's first outputs, are computed while the GEMM runs. Only the GEMM's result is read after the wait.
 * Therefore a block must fit on a multiprocessor together with a block of a GEMM that takes half of a multiprocessor
 * (gemm/occupancy.cuh), and the grid has no more clusters than run at once with a multiprocessor for each block. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/outputs.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/adapters/x_products.cuh"
#include "kernels/cuda/ptx/cluster_barrier.cuh"
#include "kernels/cuda/ptx/cluster_memory.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/parameters.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

using namespace yk_adapters;

namespace {

constexpr int ONE_LAUNCH_WARPS = 8, ONE_LAUNCH_THREADS = ONE_LAUNCH_WARPS * WARP, OCTETS = 2,
              TILE_ROWS = OCTETS * OCTET;
constexpr int MOST_ROWS = 16;       /* most rows of a step: with 64 rows, one launch is no faster than two */
constexpr int MOST_GROUP_TILES = 3; /* tiles of ranks that a warp multiplies at a time: q, k and v with one tile each */
constexpr int MOST_TILES = 12;      /* most tiles of ranks of all parts: bounds shared memory */
constexpr int PITCH = MOST_TILES * RANKS + 4;
[[maybe_unused]] constexpr int LINE_BYTES = 128, BLOCK_BYTES = YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES;

/* Thread blocks of a cluster. Larger clusters compute A x sooner, before the short GEMM of few rows ends; with many
 * tiles, smaller clusters fill the groups of multiprocessors better. */
constexpr int MANY_PEERS = 8, FEW_PEERS = 4, FEW_TILES = 2;

/* Registers per thread, so that a thread block fits on a multiprocessor together with a GEMM's thread block: a quarter
 * of a multiprocessor has 512 registers per lane, of which 4 warps of the GEMM take 72 each and 2 warps of this kernel
 * 112 each. */
constexpr int REGISTERS = 112;

struct one_launch_params {
  row_source source;
  x_source x;
  output_params out;
  int n_tiles;      /* of ranks, of all parts */
  int range_chunks; /* chunks of columns of x of a thread block */
  int n_blocks;     /* of 32 outputs, of all parts */
};

struct alignas(16) shared_memory {
  row_tile tile;
  float4 of_range[OCTETS][MOST_TILES][WARP]; /* x_sums of this thread block's range; the cluster reads them */
  union {
    float4 of_warps[ONE_LAUNCH_WARPS][MOST_GROUP_TILES * WARP];
    float products[TILE_ROWS * PITCH]; /* A x times scale: [rows][tiles][RANKS] */
  };
};

/* A x of the tile over this thread block's range of K. */
template <typename T, int GROUP_TILES, bool IS_WIDE>
__device__ __forceinline__ void multiply_range(const one_launch_params &p, shared_memory &s)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, range = static_cast<int>(yk_ptx::cluster_rank());
  const int first = range * p.range_chunks + warp, end = min((range + 1) * p.range_chunks, p.x.k_chunks);
  const int n_octets = (s.tile.n_rows + OCTET - 1) / OCTET;
#pragma unroll 1
  for (int first_tile = 0; first_tile < p.n_tiles; first_tile += GROUP_TILES) {
    const int n_tiles = min(GROUP_TILES, p.n_tiles - first_tile);
    x_sums<OCTETS, GROUP_TILES> acc = {};
    a_chunk<GROUP_TILES> a = {};
    x_chunk<OCTETS> x;
    if (first < end) a.load(p.x, s.tile.adapter, first_tile, n_tiles, first);
#pragma unroll 1
    for (int chunk = first; chunk < end; chunk += ONE_LAUNCH_WARPS) {
      const a_chunk<GROUP_TILES> own = a;
      x.template load<IS_WIDE>(p.x, s.tile, 0, chunk);
      if (chunk + ONE_LAUNCH_WARPS < end) a.load(p.x, s.tile.adapter, first_tile, n_tiles, chunk + ONE_LAUNCH_WARPS);
      acc.template add<T>(own, x, n_octets, n_tiles);
    }
#pragma unroll
    for (int i = 0; i < OCTETS; i++) {
      if (i >= n_octets) continue;
      __syncthreads(); /* the previous sums have been read */
#pragma unroll
      for (int t = 0; t < GROUP_TILES; t++) s.of_warps[warp][t * WARP + lane] = acc.of(i, t);
      __syncthreads();
      if (warp < n_tiles) s.of_range[i][first_tile + warp][lane] = sum_of_warps(s.of_warps, threadIdx.x);
    }
  }
}

/* The sums of all ranges at an address of of_range. */
__device__ __forceinline__ float4 sum_of_ranges(uint32_t address)
{
  const uint32_t n_ranges = yk_ptx::cluster_size();
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
  for (uint32_t first = 0; first < n_ranges; first += FEW_PEERS) {
    uint4 v[FEW_PEERS];
#pragma unroll
    for (uint32_t i = 0; i < FEW_PEERS; i++)
      v[i] = yk_ptx::load_remote16_if(yk_ptx::remote_address(address, first + i), true);
#pragma unroll
    for (uint32_t i = 0; i < FEW_PEERS; i++)
      add_to(sum, make_float4(__uint_as_float(v[i].x), __uint_as_float(v[i].y), __uint_as_float(v[i].z),
                              __uint_as_float(v[i].w)));
  }
  return sum;
}

/* Products from the ranges of the cluster's thread blocks; zeros for rows that the tile does not have, and for parts
 * that the adapter does not change. */
[[maybe_unused]] __device__ __forceinline__ void gather_products(const one_launch_params &p, shared_memory &s)
{
#pragma unroll 1
  for (int item = threadIdx.x; item < OCTETS * p.n_tiles * WARP; item += ONE_LAUNCH_THREADS) {
    const int lane = item % WARP, tile = item / WARP % p.n_tiles, octet = item / WARP / p.n_tiles;
    const yk_cuda_adapter_part entry = p.out.table[(s.tile.adapter - 1) * p.out.n_parts + tile / p.out.part_tiles];
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (octet * OCTET < s.tile.n_rows && entry.rank > 0)
      v = sum_of_ranges(yk_ptx::shared_address(&s.of_range[octet][tile][lane]));
    float *to = s.products + (octet * OCTET + lane % 4 * 2) * PITCH + tile * RANKS + lane / 4;
    to[0] = v.x * entry.scale;
    to[PITCH] = v.y * entry.scale;
    to[8] = v.z * entry.scale;
    to[PITCH + 8] = v.w * entry.scale;
  }
}

/* Prefetches the B of a warp's blocks of outputs into the L2 cache. */
template <int PARTS>
__device__ __forceinline__ void prefetch_b(const one_launch_params &p, int adapter, int block, int step)
{
  const char *matrices = p.out.matrices + (adapter - 1) * p.out.adapter_bytes;
#pragma unroll 1
  for (; block < p.n_blocks; block += step) {
    const int part = part_of_block<PARTS>(p.out, block);
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
      const char *b = matrices + p.out.parts[part + i].b +
                      static_cast<int64_t>(block - p.out.parts[part].first_block) * p.out.part_tiles * BLOCK_BYTES;
#pragma unroll 1
      for (int at = threadIdx.x % WARP * LINE_BYTES; at < p.out.part_tiles * BLOCK_BYTES; at += WARP * LINE_BYTES)
        yk_ptx::prefetch_l2(b + at);
    }
  }
}

/* The products of a block of outputs, as operands of multiply. */
template <int ROW_PITCH> struct block_products {
  const float *at;  /* of the block's part and tile of ranks */
  int part_columns; /* from gate to up */

  __device__ __forceinline__ float4 load(int row, int i, int quad) const
  {
    return *reinterpret_cast<const float4 *>(at + row * ROW_PITCH + i * part_columns + quad * 4);
  }
};

/* A warp's products of a block of outputs, to be added to the GEMM's result. */
template <typename T, int PARTS, bool IS_WIDE> struct block_work {
  outputs_of_lane<1, PARTS, IS_WIDE> out;
  part_entries<PARTS> entries;
  b_block<PARTS> b; /* of the first tile of ranks */
  sums_of_lane<1, PARTS> acc;

  __device__ __forceinline__ bool writes(const output_params &p) const
  {
    return entries.change() || p.finishes;
  }

  /* Loads the operands. */
  __device__ __forceinline__ void begin(const output_params &p, const row_tile &tile, int block)
  {
    out.place(p, part_of_block<PARTS>(p, block), block, YK_ADAPTER_CHUNK);
    entries.load(p, tile.adapter, out.part);
    if (entries.change()) b.load(p, tile.adapter, out.part, out.output, 0);
  }

  __device__ __forceinline__ void multiply_products(const output_params &p, const shared_memory &s)
  {
    acc = {};
#pragma unroll 1
    for (int t = 0; entries.change() && t < p.part_tiles; t++) {
      if (t > 0) b.load(p, s.tile.adapter, out.part, out.output, t);
      const block_products<PITCH> products = {s.products + (out.part * p.part_tiles + t) * RANKS, p.part_tiles * RANKS};
      multiply<T>(products, b, acc);
    }
  }
};

/* Adds the products to a warp's blocks of outputs. The GEMM's result of a block is loaded together with the operands of
 * the next block's products. */
template <typename T, int PARTS, bool IS_WIDE>
__device__ __forceinline__ void add_products(const one_launch_params &p, const shared_memory &s, int block, int step)
{
  block_work<T, PARTS, IS_WIDE> work;
  work.out = {};
  work.b = {};
  if (block < p.n_blocks) {
    work.begin(p.out, s.tile, block);
    work.multiply_products(p.out, s);
  }
  yk_ptx::wait_for_previous_kernel();
  while (block < p.n_blocks) {
    const bool writes = work.writes(p.out);
    if (writes) work.out.load(p.out, s.tile, 0);
    const outputs_of_lane<1, PARTS, IS_WIDE> out = work.out;
    block += step;
    if (block < p.n_blocks) work.begin(p.out, s.tile, block);
    if (writes) out.template store<T>(p.out, s.tile, 0, work.acc);
    if (block < p.n_blocks) work.multiply_products(p.out, s);
  }
}

/* PARTS: 2 for a gated activation. */
template <typename T, int PARTS, bool IS_WIDE>
__global__ void __maxnreg__(REGISTERS) one_launch_kernel(const __grid_constant__ one_launch_params p)
{
#if __CUDA_ARCH__ >= 900
  __shared__ shared_memory s;
  const int first_block = blockIdx.x * ONE_LAUNCH_WARPS + threadIdx.x / WARP, step = gridDim.x * ONE_LAUNCH_WARPS;
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(s.tile, p.source, 0, blockIdx.z);
  for (int index = blockIdx.z; index < s.tile.n_tiles;) {
    if (s.tile.adapter > 0) {
      prefetch_b<PARTS>(p, s.tile.adapter, first_block, step);
      multiply_range<T, PARTS == 2 ? 2 : MOST_GROUP_TILES, IS_WIDE>(p, s);
      yk_ptx::cluster_sync();
      gather_products(p, s);
      __syncthreads();
      yk_ptx::cluster_arrive_relaxed();
    }
    add_products<T, PARTS, IS_WIDE>(p, s, first_block, step);
    __syncwarp();
    if (s.tile.adapter > 0) yk_ptx::cluster_wait(); /* all blocks have read of_range */
    index += gridDim.z;
    if (index >= s.tile.n_tiles) return;
    find_tile(s.tile, p.source, 0, index);
  }
  yk_ptx::wait_for_previous_kernel(); /* a block without a tile */
#endif
}

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

template <typename T> auto one_launch_kernel_of(const one_launch_params &p)
{
  const bool is_wide = has_wide_outputs(p.out) && p.x.k % WIDE == 0 && yk_cuda::is_aligned(p.x.x, 16);
  if (p.out.activation.is_gated) return is_wide ? one_launch_kernel<T, 2, true> : one_launch_kernel<T, 2, false>;
  return is_wide ? one_launch_kernel<T, 1, true> : one_launch_kernel<T, 1, false>;
}

template <typename T>
cudaError_t launch_one(const one_launch_params &p, int peers, int clusters, int slots, cudaStream_t stream)
{
  const auto kernel = one_launch_kernel_of<T>(p);
  const dim3 grid(static_cast<unsigned>(peers * clusters), 1, static_cast<unsigned>(slots));
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, ONE_LAUNCH_THREADS, 0, peers}, stream, p);
}

/* Clusters for each of `slots` tiles: one warp per block of outputs, but at most `most` clusters. */
int clusters_of_tile(int n_blocks, int peers, int slots, int most)
{
  const int wanted = (n_blocks + peers * ONE_LAUNCH_WARPS - 1) / (peers * ONE_LAUNCH_WARPS);
  return std::clamp(most / slots, 1, wanted);
}

} // namespace

extern "C" bool yk_cuda_adapts_in_one_launch(const yk_cuda_adapter_layout *layout, int64_t n_rows)
{
  bool has_clusters = false;
  if (n_rows > MOST_ROWS || layout->n_parts * layout->part_tiles > MOST_TILES) return false;
  const void *kernel = reinterpret_cast<const void *>(one_launch_kernel<__half, 1, true>);
  return yk_ptx::has_code_for_90(kernel, &has_clusters) == cudaSuccess && has_clusters;
}

extern "C" cudaError_t yk_cuda_launch_adapt(const yk_cuda_adapted_rows *rows, const void *x,
                                            const yk_cuda_expand_args *args, cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  const int slots = tile_slots_of(rows->n_rows, layout.n_adapters);
  const int peers = slots <= FEW_TILES ? MANY_PEERS : FEW_PEERS;
  one_launch_params p = {};
  p.n_blocks = fill_parts(p.out, layout, args->activation.is_gated, YK_ADAPTER_CHUNK);
  if (rows->n_rows == 0 || p.n_blocks == 0) return cudaSuccess;
  fill_outputs(p.out, *rows, *args);
  p.source = {rows->adapters, static_cast<int>(rows->n_rows), args->finishes ? 0 : 1, TILE_ROWS};
  p.x = x_source_of(layout, rows->memory, x);
  p.n_tiles = layout.n_parts * layout.part_tiles;
  p.range_chunks = (p.x.k_chunks + peers - 1) / peers;
  const int clusters = clusters_of_tile(p.n_blocks, peers, slots, rows->clusters[peers]);
  return yk_cuda::with_act_type(
      rows->dtype, [&](auto type) { return launch_one<decltype(type)>(p, peers, clusters, slots, stream); });
}
