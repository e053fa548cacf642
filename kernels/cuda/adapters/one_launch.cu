/* one_launch.cu - both products of adapters after the GEMM, for steps of up to 64 rows (9.0): see adapters.h.
 *
 *   grid     clusters that share the outputs of a tile of rows; thread blocks along z that share the step's tiles
 *   cluster  A x of its tile, of all ranks of all parts: each thread block computes a range of K, and all blocks of the
 *            cluster add the sums in the order of the ranges
 *   block    its warps alternate over chunks of 32 columns of x, then over units of 32 outputs by an octet of rows
 *            (octet_outputs.cuh)
 *
 * x is read before griddepcontrol.wait: the GEMM lets this kernel start when x is complete, so A x, and its product
 * with B for a warp's first outputs, are computed while the GEMM runs. Only the GEMM's result is read after the wait.
 * Therefore a block must fit on a multiprocessor together with a block of a GEMM that takes half of a multiprocessor
 * (gemm/occupancy.cuh), and the grid has no more clusters than run at once with a multiprocessor for each block. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/octet_outputs.cuh"
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
constexpr int MOST_ROWS = CHUNK_ROWS; /* most rows of a step: one chunk */
constexpr int GROUP_TILES = 2;        /* most tiles of ranks that a warp multiplies at a time */
constexpr int LOADED_BLOCKS = 4;      /* blocks of A, of all tiles of a group, that a warp loads at a time */
constexpr int MOST_TILES = 12;        /* most tiles of ranks of all parts: bounds shared memory */
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
  yk_cuda_adapter_part entries[YK_MAX_LINEAR_PARTS]; /* of the tile's adapter; ranks of 0 without one */
  float4 of_range[OCTETS][MOST_TILES][WARP];         /* x_sums of this thread block's range; the cluster reads them */
  union {
    float4 of_warps[ONE_LAUNCH_WARPS][GROUP_TILES * WARP];
    float products[TILE_ROWS * PITCH]; /* A x times scale: [rows][tiles][RANKS] */
  };
};

[[maybe_unused]] __device__ __forceinline__ void load_entries(const output_params &p, shared_memory &s)
{
  const int part = threadIdx.x;
  if (part >= p.n_parts) return;
  s.entries[part] = {};
  if (s.tile.adapter > 0) s.entries[part] = p.table[(s.tile.adapter - 1) * p.n_parts + part];
}

/* A x of the tile over this thread block's range of K, for a group of TILES tiles of ranks. */
template <typename T, int TILES, bool IS_WIDE>
__device__ __forceinline__ void multiply_group(const one_launch_params &p, shared_memory &s, int first_tile)
{
  constexpr int CHUNKS = LOADED_BLOCKS / TILES;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, range = static_cast<int>(yk_ptx::cluster_rank());
  const int first = range * p.range_chunks + warp, end = min((range + 1) * p.range_chunks, p.x.k_chunks);
  const int n_octets = (s.tile.n_rows + OCTET - 1) / OCTET;
  x_sums<OCTETS, TILES> acc = {};
#pragma unroll 1
  for (int chunk = first; chunk < end; chunk += CHUNKS * ONE_LAUNCH_WARPS) {
    a_chunk<TILES> a[CHUNKS] = {};
    x_chunk<OCTETS> x[CHUNKS] = {};
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
      const int at = chunk + i * ONE_LAUNCH_WARPS;
      if (at >= end) continue;
      a[i].load(p.x, s.tile.adapter, first_tile, TILES, at);
      x[i].template load<IS_WIDE>(p.x, s.tile, 0, at);
    }
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) acc.template add<T>(a[i], x[i], n_octets, TILES);
  }
#pragma unroll
  for (int i = 0; i < OCTETS; i++) {
    if (i >= n_octets) continue;
    __syncthreads(); /* the previous sums have been read */
#pragma unroll
    for (int t = 0; t < TILES; t++) s.of_warps[warp][t * WARP + lane] = acc.of(i, t);
    __syncthreads();
    if (warp < TILES) s.of_range[i][first_tile + warp][lane] = sum_of_warps(s.of_warps, threadIdx.x);
  }
}

/* The same for all tiles of ranks. */
template <typename T, bool IS_WIDE>
__device__ __forceinline__ void multiply_range(const one_launch_params &p, shared_memory &s)
{
  int tile = 0;
#pragma unroll 1
  for (; tile + GROUP_TILES <= p.n_tiles; tile += GROUP_TILES) multiply_group<T, GROUP_TILES, IS_WIDE>(p, s, tile);
  if (tile < p.n_tiles) multiply_group<T, 1, IS_WIDE>(p, s, tile);
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
    const yk_cuda_adapter_part entry = s.entries[tile / p.out.part_tiles];
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

/* The warp's first block of outputs; it also has every step-th one after this block. */
[[maybe_unused]] __device__ __forceinline__ int own_block()
{
  return static_cast<int>(blockIdx.x * ONE_LAUNCH_WARPS + threadIdx.x / WARP);
}

[[maybe_unused]] __device__ __forceinline__ int block_step()
{
  return static_cast<int>(gridDim.x * ONE_LAUNCH_WARPS);
}

/* Prefetches the B of a warp's blocks of outputs into the L2 cache. */
template <int PARTS> __device__ __forceinline__ void prefetch_b(const one_launch_params &p, int adapter)
{
  const char *matrices = p.out.matrices + (adapter - 1) * p.out.adapter_bytes;
#pragma unroll 1
  for (int block = own_block(); block < p.n_blocks; block += block_step()) {
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

/* A unit of a warp's work: products of a block of outputs for an octet of rows, to be added to the GEMM's result. */
template <typename T, int PARTS, bool IS_WIDE> struct work_unit {
  octet_outputs<1, PARTS, IS_WIDE> out;
  int octet;                    /* of the tile */
  bool exists, changes, writes; /* whether there are products, and whether outputs are written */
  b_block<PARTS> b;             /* of the first tile of ranks */

  /* Unit number i of the warp. Loads B. */
  __device__ __forceinline__ void begin(const one_launch_params &p, const shared_memory &s, int i)
  {
    const int n_octets = s.tile.n_rows > OCTET ? OCTETS : 1, block = own_block() + i / n_octets * block_step();
    exists = block < p.n_blocks;
    changes = writes = false;
    if (!exists) return;
    octet = i % n_octets;
    out.place(p.out, part_of_block<PARTS>(p.out, block), block, YK_ADAPTER_CHUNK);
    changes = s.entries[out.part].rank > 0 || s.entries[out.part + PARTS - 1].rank > 0;
    writes = changes || p.out.finishes;
    if (changes) b.load(p.out, s.tile.adapter, out.part, out.output, 0);
  }

  /* Loads the GEMM's results. */
  __device__ __forceinline__ void load_results(const one_launch_params &p, const shared_memory &s)
  {
    if (writes) out.load(p.out, s.tile, 0, octet);
  }

  __device__ __forceinline__ void multiply_products(const one_launch_params &p, const shared_memory &s,
                                                    octet_sums<PARTS> &acc)
  {
    acc = {};
#pragma unroll 1
    for (int t = 0; changes && t < p.out.part_tiles; t++) {
      if (t > 0) b.load(p.out, s.tile.adapter, out.part, out.output, t);
      const int tile = out.part * p.out.part_tiles + t;
      multiply<T>(block_products<PITCH>{s.products + tile * RANKS, p.out.part_tiles * RANKS}, b, octet, acc);
    }
  }
};

/* Adds the products to all units of the warp, of which the first has begun. The operands and the GEMM's results of a
 * unit are loaded while the unit before is stored. */
template <typename T, int PARTS, bool IS_WIDE>
__device__ __forceinline__ void add_products(const one_launch_params &p, const shared_memory &s,
                                             work_unit<T, PARTS, IS_WIDE> &unit)
{
  octet_sums<PARTS> acc[1];
  unit.multiply_products(p, s, acc[0]);
  yk_ptx::wait_for_previous_kernel();
  unit.load_results(p, s);
#pragma unroll 1
  for (int next = 1; unit.exists; next++) {
    const work_unit<T, PARTS, IS_WIDE> done = unit;
    unit.begin(p, s, next);
    unit.load_results(p, s);
    if (done.writes) done.out.template store<T>(p.out, s.tile, 0, acc, done.octet);
    unit.multiply_products(p, s, acc[0]);
  }
}

/* PARTS: 2 for a gated activation. */
template <typename T, int PARTS, bool IS_WIDE>
__global__ void __maxnreg__(REGISTERS) one_launch_kernel(const __grid_constant__ one_launch_params p)
{
#if __CUDA_ARCH__ >= 900
  __shared__ shared_memory s;
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(s.tile, p.source, 0, blockIdx.z);
  for (int index = blockIdx.z; index < s.tile.n_tiles;) {
    const bool is_adapted = s.tile.adapter > 0;
    work_unit<T, PARTS, IS_WIDE> unit = {};
    load_entries(p.out, s);
    if (is_adapted) {
      prefetch_b<PARTS>(p, s.tile.adapter);
      multiply_range<T, IS_WIDE>(p, s);
      yk_ptx::cluster_sync();
    } else {
      __syncthreads();
    }
    unit.begin(p, s, 0);
    if (is_adapted) gather_products(p, s);
    __syncthreads();
    if (is_adapted) yk_ptx::cluster_arrive_relaxed();
    add_products<T, PARTS, IS_WIDE>(p, s, unit);
    __syncwarp();
    if (is_adapted) yk_ptx::cluster_wait(); /* all blocks have read of_range */
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
