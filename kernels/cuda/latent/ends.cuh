/* ends.cuh - the products with kv_b_proj before and after the attention of a one-launch decode, by the consumer warps:
 * queries K[h]^T q_nope for all thread blocks, and y = V[h] times the weighted sums of all thread blocks. */
#ifndef YK_KERNELS_CUDA_LATENT_ENDS_CUH
#define YK_KERNELS_CUDA_LATENT_ENDS_CUH

#include <cuda.h>

#include "kernels/cuda/latent/head_products.cuh"
#include "kernels/cuda/latent/work_list.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_latent {

constexpr int END_HEAD_DIM = 128;     /* nope_dim and value_dim of DeepSeek */
constexpr int PRODUCER_THREADS = 128; /* before the consumers */
constexpr int CONSUMER_WARPS = 8, CONSUMER_THREADS = 32 * CONSUMER_WARPS;
constexpr int BOX = 64, BOX_BYTES = BOX * 128;                /* box of kv_up: 64 rows by 64 columns, swizzled */
constexpr int K_SLICE_BYTES = END_HEAD_DIM / BOX * BOX_BYTES; /* 64 columns of K[h] */
constexpr int V_SLICE_BYTES = KV_RANK / BOX * BOX_BYTES;      /* 64 rows of V[h] */

/* Weighted sums of a tile of rows and a head in the layout of wgmma: see wide_output_shared. */
struct end_sums {
  static constexpr int ROWS = 64;
  char at[KV_RANK / 64][ROWS * 128];

  __device__ uint32_t sums_at(int row, int column) const
  {
    return shared_address(at[column / 64]) + row * 128 + ((column % 64 / 8 ^ row) & 7) * 16 + column % 8 * 2;
  }
};

/* Units of work [begin, end) with stride step: parts (of heads) times tiles of rows. If there are at most as many parts
 * as thread blocks, each thread block keeps one part. If thread blocks suffice, tiles have fewer than most_rows rows.
 * part and first_row: of the first unit. */
struct unit_range {
  int32_t begin, end, step, n_parts, rows, part, first_row;
  bool keeps_part;

  __device__ static unit_range of(int32_t n_parts, int32_t n_rows, int32_t most_rows, int32_t block, int32_t n_blocks)
  {
    constexpr int32_t LEAST = 2;
    int32_t rows = most_rows;
    while (rows > LEAST && n_parts * ceil_div(n_rows, rows / 2) <= n_blocks) rows /= 2;
    const int32_t n = n_parts * ceil_div(n_rows, rows);
    const int32_t step = n_blocks >= n_parts ? n_blocks / n_parts * n_parts : n_blocks;
    return {block < step ? block : n, n, step, n_parts, rows, block % n_parts, block / n_parts * rows,
            step % n_parts == 0};
  }
};

#if defined(YK_HAVE_SM90A)

__device__ __forceinline__ bool is_first_consumer()
{
  return threadIdx.x == PRODUCER_THREADS;
}

__device__ __forceinline__ void consumers_sync()
{
  named_barrier_sync(5, CONSUMER_THREADS);
}

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

/* Called by one thread: loads slice number i over all heads. */
__device__ __forceinline__ void load_k_slice(char *to, uint64_t *full, const CUtensorMap &weights, int32_t i)
{
  constexpr int OF_HEAD = KV_RANK / BOX;
  mbarrier_arrive_expect(full, K_SLICE_BYTES);
  for (int box = 0; box < END_HEAD_DIM / BOX; box++)
    tensor_copy(shared_address(to) + box * BOX_BYTES, &weights, i % OF_HEAD * BOX,
                i / OF_HEAD * 2 * END_HEAD_DIM + box * BOX, full);
}

/* A thread block's share of queries: n slices for each tile of 64 rows. If the staging buffers hold all slices, these
 * stay there. */
struct query_units {
  static constexpr int ROWS = 64, OF_HEAD = KV_RANK / BOX;
  int32_t first, n, n_units, n_loads;
  bool stay;

  template <int BUFFERS> __device__ static query_units of(const params &p, int32_t block, int32_t n_blocks)
  {
    const int32_t all = p.layout.n_heads * OF_HEAD, each = ceil_div(all, n_blocks), first = min(block * each, all);
    const int32_t n = min(each, all - first), n_units = n * ceil_div(p.n_rows, ROWS);
    return {first, n, n_units, n <= BUFFERS ? n : n_units, n <= BUFFERS};
  }
};

/* Called by one thread: loads the first slices, which do not depend on the step. */
template <int BUFFERS>
__device__ void load_first_slices(const params &p, const CUtensorMap &weights, char (&buffers)[BUFFERS][K_SLICE_BYTES],
                                  uint64_t (&full)[BUFFERS], int32_t block, int32_t n_blocks)
{
  const query_units units = query_units::of<BUFFERS>(p, block, n_blocks);
  for (int32_t i = 0; i < min(units.n_loads, BUFFERS); i++)
    load_k_slice(buffers[i], &full[i], weights, units.first + i % units.n);
}

/* Called after load_first_slices. Each warpgroup computes every second unit, a slice and a tile of rows; rows of q are
 * its operand in registers. */
template <typename T, int BUFFERS>
__device__ void make_queries(const params &p, const CUtensorMap &weights, char (&buffers)[BUFFERS][K_SLICE_BYTES],
                             uint64_t (&full)[BUFFERS], int32_t block, int32_t n_blocks)
{
  static_assert(BUFFERS % 2 == 0, "buffers of a pair of units are loaded together");
  constexpr int STEPS = END_HEAD_DIM / 16, OF_HEAD = query_units::OF_HEAD;
  const int lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128 - 1;
  const auto [first, n, n_units, n_loads, stay] = query_units::of<BUFFERS>(p, block, n_blocks);
  wait_for_previous_kernel();
  uint32_t a[STEPS][4];
  int32_t loaded = -1; /* head and tile of rows in registers */
  for (int32_t pair = 0; pair < n_units; pair += 2) {
    const int32_t unit = pair + warpgroup;
    if (unit < n_units) {
      const int32_t tile = quotient(unit, n), own = unit - tile * n, slice = first + own, head = slice / OF_HEAD;
      const int32_t load = stay ? own : unit, buffer = load % BUFFERS;
      const int32_t row = tile * query_units::ROWS + threadIdx.x % 128 / 32 * 16 + lane / 4;
      if (tile * p.layout.n_heads + head != loaded) {
        loaded = tile * p.layout.n_heads + head;
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const bool exists = row + 8 * e < p.n_rows;
          const T *q = static_cast<const T *>(p.q) + (exists ? row + 8 * e : 0) * p.q_stride +
                       head * (END_HEAD_DIM + ROPE_DIM) + lane % 4 * 2;
#pragma unroll
          for (int i = 0; i < 2 * STEPS; i++) {
            a[i / 2][i % 2 * 2 + e] = *reinterpret_cast<const uint32_t *>(q + i * 8);
            if (!exists) a[i / 2][i % 2 * 2 + e] = 0;
          }
        }
      }
      mbarrier_wait_loop(&full[buffer], load / BUFFERS & 1);
      float acc[BOX / 8][4];
      const uint64_t b = tile_descriptor(shared_address(buffers[buffer]), 1024, 16);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < STEPS; i++)
        wgmma<T, BOX>::template run_rs<true>(acc, a[i], b + descriptor_step(i * 2048), i > 0);
      wgmma_commit();
      wgmma_wait<0>();
      pin(acc);
#pragma unroll
      for (int e = 0; e < 2; e++)
        yk_cuda::store_row<T>(static_cast<T *>(p.absorbed) +
                                  (static_cast<int64_t>(row + 8 * e) * p.layout.n_heads + head) * KV_RANK +
                                  slice % OF_HEAD * BOX,
                              acc, e, 1.0f, row + 8 * e < p.n_rows);
    }
    if (pair + BUFFERS >= n_loads) continue;
    consumers_sync(); /* the pair's slices have been read */
    for (int32_t i = pair + BUFFERS; is_first_consumer() && i < min(pair + 2 + BUFFERS, n_loads); i++)
      load_k_slice(buffers[i % BUFFERS], &full[i % BUFFERS], weights, first + i % n);
  }
}

/* ---- Outputs ----------------------------------------------------------------------------------------------------- */

/* Called by one thread: loads V[h] from a row on, n boxes of rows. */
__device__ __forceinline__ void load_v(char *to, uint64_t *full, const CUtensorMap &weights, int32_t head, int32_t row,
                                       int n)
{
  mbarrier_arrive_expect(full, n * V_SLICE_BYTES);
  for (int i = 0; i < n * (KV_RANK / BOX); i++)
    tensor_copy(shared_address(to) + i * BOX_BYTES, &weights, i % (KV_RANK / BOX) * BOX,
                (2 * head + 1) * END_HEAD_DIM + row + i / (KV_RANK / BOX) * BOX, full);
}

/* A thread block's share of y, in units of a tile of rows and COLUMNS columns of a head, a part; each warpgroup
 * computes half of the columns. QUERIES: of a tile of the attention. v: memory for one part's weights, the first of
 * which load_first loads. */
template <typename T, int QUERIES, int COLUMNS> struct outputs {
  static constexpr int OF_HEAD = END_HEAD_DIM / COLUMNS, OWN = COLUMNS / 2;

  const params &p;
  const CUtensorMap &weights;
  char *v;
  uint64_t *full;
  item_splits *splits; /* [end_sums::ROWS] */
  const unit_range units;

  static __device__ outputs of(const params &p, const CUtensorMap &weights, char *v, uint64_t *full,
                               item_splits *splits, int32_t block, int32_t n_blocks)
  {
    return {p,    weights, v,
            full, splits,  unit_range::of(p.layout.n_heads * OF_HEAD, p.n_rows, end_sums::ROWS, block, n_blocks)};
  }

  __device__ void load(int32_t part) const
  {
    load_v(v, full, weights, part / OF_HEAD, part % OF_HEAD * COLUMNS, COLUMNS / BOX);
  }

  /* Called by one thread. */
  __device__ void load_first() const
  {
    if (units.begin < units.end) load(units.part);
  }

  /* Called by one thread: prefetches the first part's weights into the L2 cache. */
  __device__ void prefetch_first() const
  {
    constexpr int BYTES = COLUMNS * KV_RANK * 2, PIECE = 16384;
    const int32_t part = units.part;
    const int64_t row = (2 * int64_t{part / OF_HEAD} + 1) * END_HEAD_DIM + part % OF_HEAD * COLUMNS;
    const char *from = static_cast<const char *>(p.kv_up) + row * KV_RANK * 2;
    for (int at = 0; units.begin < units.end && at < BYTES; at += PIECE) bulk_prefetch_l2(from + at, PIECE);
  }

  __device__ void multiply(const end_sums &sums, int32_t part, int32_t first_row, int32_t end_row) const
  {
    const int warpgroup = threadIdx.x / 128 - 1, column = part % OF_HEAD * COLUMNS + warpgroup * OWN;
    float acc[OWN / 8][4];
    /* first row of the weights */
    const int first = warpgroup * OWN / BOX * V_SLICE_BYTES + warpgroup * OWN % BOX * 128;
    const uint64_t a = tile_descriptor(shared_address(sums.at), 1024, 16),
                   b = tile_descriptor(shared_address(v) + first, 1024, 16);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < KV_RANK / 16; i++)
      wgmma<T, OWN>::run_ss(acc, a + descriptor_step(i / 4 * end_sums::ROWS * 128 + i % 4 * 32),
                            b + descriptor_step(i / 4 * BOX_BYTES + i % 4 * 32), i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin(acc);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int32_t row = first_row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * e;
      const bool exists = row < end_row;
      T *to = static_cast<T *>(p.y) +
              (static_cast<int64_t>(exists ? row : 0) * p.layout.n_heads + part / OF_HEAD) * END_HEAD_DIM + column;
      yk_cuda::store_row<T>(to, acc, e, 1.0f, exists);
    }
  }

  /* Called by all consumer warps: finds the partial results of a unit's rows. list and mine: the list that every thread
   * block builds, and this block's part of it. */
  __device__ void find_splits(const work_list &list, const block_tiles &mine, int32_t first_row) const
  {
    const int32_t i = threadIdx.x % CONSUMER_THREADS, row = first_row + i;
    if (i >= units.rows || row >= p.n_rows) return;
    splits[i] = list.item_of_row[row] < 0 ? item_splits{row, 0, 0} : splits_of_row(list, mine, row);
  }

  /* Called by all consumer warps, after load_first and find_splits of the first unit. */
  __device__ void run(end_sums &sums, const work_list &list, const block_tiles &mine) const
  {
    const int warp = threadIdx.x / 32 % CONSUMER_WARPS;
    uint32_t phase = 0;
    int32_t part = units.part, first_row = units.first_row;
    for (int32_t unit = units.begin; unit < units.end; unit += units.step) {
      const bool is_new = unit == units.begin || !units.keeps_part;
      if (unit != units.begin) {
        part = unit % units.n_parts;
        first_row = unit / units.n_parts * units.rows;
        consumers_sync(); /* sums, weights and splits have been read */
        if (is_new && is_first_consumer()) load(part);
        find_splits(list, mine, first_row);
        consumers_sync();
      }
      const int32_t end_row = min(first_row + units.rows, p.n_rows);
      load_sums<T, QUERIES, CONSUMER_WARPS>(sums, p, first_row, end_row - first_row, part / OF_HEAD, warp,
                                            [&](int32_t row) { return splits[row - first_row]; });
      cp_async_commit();
      cp_async_wait<0>();
      fence_async_shared();
      consumers_sync();
      if (is_new) {
        mbarrier_wait_loop(full, phase);
        phase ^= 1;
      }
      multiply(sums, part, first_row, end_row);
    }
  }
};

#endif

} // namespace yk_latent

#endif
