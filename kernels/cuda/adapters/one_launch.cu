/* one_launch.cu - both products of adapters after the GEMM, for steps of up to 64 rows (9.0): see adapters.h.
 *
 *   grid     thread blocks that share the outputs of a tile of rows; along z, those that share the step's tiles
 *   block    A x of its tile, of all ranks of all parts: the first blocks of a tile compute a range of K each, and all
 *            blocks add the sums of the ranges (range_sums.cuh)
 *   warp     alternates with the block's other warps over chunks of 32 columns of x, then with all warps of the tile
 *            over units of 32 outputs by an octet of rows (octet_outputs.cuh)
 *
 * x is read before griddepcontrol.wait: the GEMM lets this kernel start when x is complete, so A x and its products
 * with B are computed while the GEMM runs. The latter stay in shared memory until the wait, after which the GEMM's
 * results of several units are loaded at once.
 *
 * A block must fit on a multiprocessor together with a block of a GEMM that takes half of a multiprocessor
 * (gemm/occupancy.cuh), and the grid has at most one block per multiprocessor. */
#include "kernels/cuda/adapters/adapters.h"

#include "kernels/cuda/adapters/octet_outputs.cuh"
#include "kernels/cuda/adapters/outputs.cuh"
#include "kernels/cuda/adapters/range_sums.cuh"
#include "kernels/cuda/adapters/row_tiles.cuh"
#include "kernels/cuda/adapters/x_products.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/parameters.cuh"

using namespace yk_adapters;

namespace {

constexpr int ONE_LAUNCH_WARPS = 8, ONE_LAUNCH_THREADS = ONE_LAUNCH_WARPS * WARP, OCTETS = YK_ADAPTER_TILE_OCTETS,
              TILE_ROWS = OCTETS * OCTET;
constexpr int GROUP_TILES = 3; /* most tiles of ranks that a warp multiplies at a time */
/* Blocks of A, of all tiles of a group, that a warp loads at a time. */
[[maybe_unused]] constexpr int LOADED_BLOCKS = 4;
constexpr int HELD_UNITS = 4; /* units whose products a warp has in shared memory */
constexpr int MOST_ROWS = YK_ADAPTER_EXCHANGE_ROWS, MOST_TILES = YK_ADAPTER_EXCHANGE_TILES;
constexpr int PITCH = MOST_TILES * RANKS + 4;
[[maybe_unused]] constexpr int LINE_BYTES = 128, BLOCK_BYTES = YK_ADAPTER_BLOCK * YK_ADAPTER_ELEMENT_BYTES;

static_assert(MOST_ROWS == CHUNK_ROWS, "a step is one chunk");

/* Registers per thread, so that a thread block fits on a multiprocessor together with a GEMM's thread block: a quarter
 * of a multiprocessor has 512 registers per lane, of which 4 warps of the GEMM take 72 each and 2 warps of this kernel
 * 112 each. */
constexpr int REGISTERS = 112;

struct one_launch_params {
  row_source source;
  x_source x;
  output_params out;
  range_sums sums;
  int range_chunks; /* chunks of columns of x of a range */
  int n_blocks;     /* of 32 outputs, of all parts */
};

struct alignas(16) shared_memory {
  row_tile tile;
  yk_cuda_adapter_part entries[YK_MAX_LINEAR_PARTS]; /* of the tile's adapter; ranks of 0 without one */
  float4 of_warps[ONE_LAUNCH_WARPS][GROUP_TILES * WARP];
  float products[TILE_ROWS * PITCH]; /* A x times scale: [rows][tiles][RANKS] */
};

/* The thread's entry of the table, if it has one. */
[[maybe_unused]] __device__ __forceinline__ yk_cuda_adapter_part load_entry(const one_launch_params &p, int adapter)
{
  const int part = static_cast<int>(threadIdx.x);
  if (adapter == 0 || part >= p.out.n_parts) return {};
  return p.out.table[(adapter - 1) * p.out.n_parts + part];
}

[[maybe_unused]] __device__ __forceinline__ int octets_of(const row_tile &tile)
{
  return tile.n_rows > OCTET ? OCTETS : 1;
}

/* A x of tile number index over this thread block's range of K, for a group of TILES tiles of ranks. */
template <typename T, int TILES, bool IS_WIDE>
__device__ __forceinline__ void multiply_group(const one_launch_params &p, shared_memory &s, int index, int first_tile)
{
  constexpr int CHUNKS = LOADED_BLOCKS / TILES;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, range = static_cast<int>(blockIdx.x);
  const int first = range * p.range_chunks + warp, end = min((range + 1) * p.range_chunks, p.x.k_chunks);
  const int n_octets = octets_of(s.tile);
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
    if (warp < TILES) p.sums.send(index, i, range, first_tile + warp, sum_of_warps(s.of_warps, threadIdx.x));
  }
}

/* The same for all tiles of ranks. */
template <typename T, bool IS_WIDE>
__device__ __forceinline__ void multiply_range(const one_launch_params &p, shared_memory &s, int index)
{
#pragma unroll 1
  for (int tile = 0; tile < p.sums.n_tiles; tile += GROUP_TILES) {
    if (tile + 2 < p.sums.n_tiles)
      multiply_group<T, 3, IS_WIDE>(p, s, index, tile);
    else if (tile + 1 < p.sums.n_tiles)
      multiply_group<T, 2, IS_WIDE>(p, s, index, tile);
    else
      multiply_group<T, 1, IS_WIDE>(p, s, index, tile);
  }
}

/* Products from the sums of all ranges; zeros for parts that the adapter does not change. */
[[maybe_unused]] __device__ __forceinline__ void receive_products(const one_launch_params &p, shared_memory &s,
                                                                  int index)
{
  const int lane = threadIdx.x % WARP, n_tiles = p.sums.n_tiles;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x) / WARP; item < octets_of(s.tile) * n_tiles; item += ONE_LAUNCH_WARPS) {
    const int tile = item % n_tiles, octet = item / n_tiles;
    const yk_cuda_adapter_part entry = s.entries[tile / p.out.part_tiles];
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (entry.rank > 0) v = p.sums.receive(index, octet, tile);
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

/* Prefetches the B of a warp's blocks of outputs but the first into the L2 cache. */
template <int PARTS> __device__ __forceinline__ void prefetch_b(const one_launch_params &p, int adapter)
{
  const char *matrices = p.out.matrices + (adapter - 1) * p.out.adapter_bytes;
#pragma unroll 1
  for (int block = own_block() + block_step(); block < p.n_blocks; block += block_step()) {
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

/* A unit of a warp's work: a block of outputs by an octet of rows. The octets of a block are successive units. */
template <int PARTS, bool IS_WIDE> struct work_unit {
  octet_outputs<PARTS, IS_WIDE> out;
  int block, octet;

  __device__ __forceinline__ bool exists(const one_launch_params &p) const
  {
    return block < p.n_blocks;
  }

  __device__ __forceinline__ void place(const one_launch_params &p)
  {
    if (exists(p)) out.place(p.out, block);
  }

  /* The warp's first unit. */
  __device__ __forceinline__ void begin(const one_launch_params &p)
  {
    block = own_block();
    octet = 0;
    place(p);
  }

  __device__ __forceinline__ void advance(const one_launch_params &p, const row_tile &tile)
  {
    if (++octet < octets_of(tile)) return;
    octet = 0;
    block += block_step();
    place(p);
  }

  /* Whether an existing unit has products, and whether its outputs are written. */
  __device__ __forceinline__ bool changes(const shared_memory &s) const
  {
    return s.entries[out.part].rank > 0 || s.entries[out.part + PARTS - 1].rank > 0;
  }

  __device__ __forceinline__ bool writes(const one_launch_params &p, const shared_memory &s) const
  {
    return changes(s) || p.out.finishes;
  }
};

/* A warp's work: HELD_UNITS units at a time. */
template <typename T, int PARTS, bool IS_WIDE> struct warp_work {
  using unit_type = work_unit<PARTS, IS_WIDE>;
  unit_type unit;   /* the next unit */
  b_block<PARTS> b; /* its first tile of ranks */

  __device__ __forceinline__ void load_b(const one_launch_params &p, const row_tile &tile)
  {
    if (unit.exists(p) && tile.adapter > 0) b.load(p.out, tile.adapter, unit.out.part, unit.out.output, 0);
  }

  /* Multiplies units from the next one on. */
  __device__ __forceinline__ void multiply_b(const one_launch_params &p, const shared_memory &s,
                                             held_products<PARTS, HELD_UNITS> &held)
  {
#pragma unroll 1
    for (int i = 0; i < HELD_UNITS && unit.exists(p); i++) {
      const unit_type done = unit;
      b_block<PARTS> own = b;
      octet_sums<PARTS> acc = {};
      float product[PARTS][WIDE];
      unit.advance(p, s.tile);
      load_b(p, s.tile);
#pragma unroll 1
      for (int t = 0; done.changes(s) && t < p.out.part_tiles; t++) {
        if (t > 0) own.load(p.out, s.tile.adapter, done.out.part, done.out.output, t);
        const int tile = done.out.part * p.out.part_tiles + t;
        multiply<T>(block_products<PITCH>{s.products + tile * RANKS, p.out.part_tiles * RANKS}, own, done.octet, acc);
      }
      acc.exchange(product);
      held.store(i, product);
    }
  }

  /* Waits for the GEMM, and writes the units that multiply_b has multiplied, from `first` on. The addresses of the
   * GEMM's results are ready before the wait. */
  __device__ __forceinline__ void write(const one_launch_params &p, const shared_memory &s, unit_type first,
                                        const held_products<PARTS, HELD_UNITS> &held) const
  {
    octet_source from[HELD_UNITS];
    uint4 src[HELD_UNITS][PARTS] = {};
    unit_type at = first;
#pragma unroll
    for (int i = 0; i < HELD_UNITS; i++) {
      from[i] = {};
      if (at.exists(p) && at.writes(p, s)) from[i] = at.out.source(p.out, s.tile, at.octet);
      at.advance(p, s.tile);
    }
    yk_ptx::wait_for_previous_kernel(); /* returns at once, except for the first units */
#pragma unroll
    for (int i = 0; i < HELD_UNITS; i++) from[i].template load<PARTS, IS_WIDE>(p.out, src[i]);
      /* One copy of the code: instructions that run for the first time are read from the L2 cache. */
#pragma unroll 1
    for (int i = 0; i < HELD_UNITS && first.exists(p); i++) {
      float product[PARTS][WIDE];
      held.load(i, product);
      if (first.writes(p, s)) first.out.template store<T>(p.out, s.tile, first.octet, src[0], product);
      first.advance(p, s.tile);
#pragma unroll
      for (int next = 1; next < HELD_UNITS; next++) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) src[next - 1][part] = src[next][part];
      }
    }
    __syncwarp(); /* lanes without a row or outputs have skipped the stores */
  }
};

/* Tile number index, of which all thread blocks along x have a share of the outputs. */
template <typename T, int PARTS, bool IS_WIDE>
__device__ __forceinline__ void adapt_tile(const one_launch_params &p, shared_memory &s,
                                           held_products<PARTS, HELD_UNITS> &held, int index)
{
  const bool is_adapted = s.tile.adapter > 0;
  const yk_cuda_adapter_part entry = load_entry(p, s.tile.adapter);
  warp_work<T, PARTS, IS_WIDE> work = {};
  int departed = 0;
  work.unit.begin(p);
  work.load_b(p, s.tile);
  if (is_adapted) {
    prefetch_b<PARTS>(p, s.tile.adapter);
    if (static_cast<int>(blockIdx.x) < p.sums.n_ranges) multiply_range<T, IS_WIDE>(p, s, index);
  }
  if (static_cast<int>(threadIdx.x) < p.out.n_parts) s.entries[threadIdx.x] = entry;
  __syncthreads();
  if (is_adapted) receive_products(p, s, index);
  __syncthreads();
  if (is_adapted && threadIdx.x == ONE_LAUNCH_THREADS - 1) departed = p.sums.depart(index);
  bool departs = is_adapted && threadIdx.x / WARP == ONE_LAUNCH_WARPS - 1;
#pragma unroll 1
  do {
    const work_unit<PARTS, IS_WIDE> first = work.unit;
    work.multiply_b(p, s, held);
    if (departs && __shfl_sync(~0u, departed, WARP - 1) == static_cast<int>(gridDim.x) - 1)
      p.sums.clear(index, octets_of(s.tile));
    departs = false;
    work.write(p, s, first, held);
  } while (work.unit.exists(p));
}

/* PARTS: 2 for a gated activation. */
template <typename T, int PARTS, bool IS_WIDE>
__global__ void __maxnreg__(REGISTERS) one_launch_kernel(const __grid_constant__ one_launch_params p)
{
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char dynamic[];
  shared_memory &s = *reinterpret_cast<shared_memory *>(dynamic);
  auto *held = reinterpret_cast<held_products<PARTS, HELD_UNITS> *>(dynamic + sizeof(shared_memory));
  yk_ptx::let_next_kernel_start();
  yk_ptx::read_parameters(p);
  find_tile(s.tile, p.source, 0, blockIdx.z);
  for (int index = blockIdx.z; index < s.tile.n_tiles;) {
    adapt_tile<T, PARTS, IS_WIDE>(p, s, held[threadIdx.x / WARP], index);
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

template <typename T> cudaError_t launch_one(const one_launch_params &p, dim3 grid, cudaStream_t stream)
{
  const auto kernel = one_launch_kernel_of<T>(p);
  const void *function = reinterpret_cast<const void *>(kernel);
  const size_t held_bytes =
      p.out.activation.is_gated ? sizeof(held_products<2, HELD_UNITS>) : sizeof(held_products<1, HELD_UNITS>);
  const size_t shared_bytes = sizeof(shared_memory) + ONE_LAUNCH_WARPS * held_bytes;
  cudaError_t error = yk_ptx::prefer_shared_memory(function);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, ONE_LAUNCH_THREADS, shared_bytes, 1}, stream, p);
}

/* Thread blocks of each of `slots` tiles: one warp per block of outputs, but at most one block per multiprocessor. */
int peers_of_tile(int n_blocks, int slots, int n_multiprocessors)
{
  const int wanted = (n_blocks + ONE_LAUNCH_WARPS - 1) / ONE_LAUNCH_WARPS;
  return std::clamp(n_multiprocessors / slots, 1, wanted);
}

/* Ranges of K: at most one for each of the tile's thread blocks, and a chunk for each warp. */
void fill_ranges(one_launch_params &p, int peers)
{
  const int wanted = std::clamp(p.x.k_chunks / ONE_LAUNCH_WARPS, 1, std::min(peers, MOST_RANGES));
  p.range_chunks = (p.x.k_chunks + wanted - 1) / wanted;
  p.sums.n_ranges = (p.x.k_chunks + p.range_chunks - 1) / p.range_chunks;
}

} // namespace

extern "C" bool yk_cuda_adapts_in_one_launch(const yk_cuda_adapter_layout *layout, int64_t n_rows)
{
  bool yes = false;
  if (n_rows > MOST_ROWS || layout->n_parts * layout->part_tiles > MOST_TILES) return false;
  return yk_ptx::has_code_for_90(reinterpret_cast<const void *>(one_launch_kernel<__half, 1, true>), &yes) ==
             cudaSuccess &&
         yes;
}

extern "C" cudaError_t yk_cuda_launch_adapt(const yk_cuda_adapted_rows *rows, const void *x,
                                            const yk_cuda_expand_args *args, cudaStream_t stream)
{
  const yk_cuda_adapter_layout &layout = *rows->layout;
  const int slots = tile_slots_of(rows->n_rows, layout.n_adapters);
  one_launch_params p = {};
  p.n_blocks = fill_parts(p.out, layout, args->activation.is_gated, YK_ADAPTER_CHUNK);
  if (rows->n_rows == 0 || p.n_blocks == 0) return cudaSuccess;
  fill_outputs(p.out, *rows, *args);
  p.source = {rows->adapters, static_cast<int>(rows->n_rows), args->finishes ? 0 : 1, TILE_ROWS};
  p.x = x_source_of(layout, rows->memory, x);
  p.sums.departed = static_cast<int32_t *>(rows->exchange);
  p.sums.at = reinterpret_cast<uint4 *>(p.sums.departed + MOST_ROWS);
  p.sums.octets = OCTETS;
  p.sums.n_tiles = layout.n_parts * layout.part_tiles;
  const int peers = peers_of_tile(p.n_blocks, slots, rows->n_multiprocessors);
  fill_ranges(p, peers);
  const dim3 grid(static_cast<unsigned>(peers), 1, static_cast<unsigned>(slots));
  return yk_cuda::with_act_type(rows->dtype, [&](auto type) { return launch_one<decltype(type)>(p, grid, stream); });
}
