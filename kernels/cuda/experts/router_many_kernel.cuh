/* router_many_kernel.cuh - the router's GEMM and the routing of up to 256 rows in one kernel: see route.h.
 *
 *   multiply   a cluster of eight thread blocks has 8 or 16 rows. Each block multiplies an eighth of K, whose weights
 *              it reads before griddepcontrol.wait, and sends two rows' sums to each of the cluster's first blocks
 *   choose     by these, a warp a row
 *   exchange   which experts a row chose, a bit each, from all such blocks of the grid to all, through device memory
 *              that is empty until they come. Two halves take turns: a call empties what the call before has used
 *   assign     every such block counts the bits of all rows, and has the slots of its own
 *
 * Logits have the same bits as those of few_outputs_tile's other users: the blocks have of K what its warps have.
 * Blocks wait for each other, so all of them must fit at once. */
#ifndef YK_KERNELS_CUDA_EXPERTS_ROUTER_MANY_KERNEL_CUH
#define YK_KERNELS_CUDA_EXPERTS_ROUTER_MANY_KERNEL_CUH

#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/experts/route_assign.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_experts::many {

using namespace yk_ptx;

constexpr int MOST_ROWS = 256, MOST_EXPERTS = 256, MOST_WORDS = MOST_EXPERTS / WARP, ROW_WORDS = MOST_ROWS / WARP;
constexpr uint32_t EMPTY = 0xFFFFFFFFu; /* no row chooses 32 experts */

constexpr int BLOCKS = few_outputs_tile<__half, 8>::WARPS; /* of a cluster */
constexpr int OWN = 2;                                     /* rows of a block that chooses */
constexpr int COLUMNS = few_outputs_tile<__half, 8>::COLUMNS;

/* In device memory. */
struct choices_exchange {
  uint32_t chosen[2][MOST_ROWS][MOST_WORDS]; /* bit e % 32 of word e / 32: expert e */
  int32_t half;                              /* of the next call */
};

struct router_params {
  route_params route;
  const void *x, *w;
  float *logits;
  int n_logits, n_tiles, k, n_pieces; /* n_tiles: of COLUMNS logits; n_pieces: of 32 inputs, of a block */
  choices_exchange *exchange;
};

/* Warps of a block: one for each COLUMNS experts. */
template <int PER_LANE> constexpr int WARPS = PER_LANE *WARP / COLUMNS;

/* Dynamic shared memory. An element of sums is of two columns, lane / 4 of a tile and 8 more, by two rows, as they lie
 * in an accumulator of few_outputs_tile. */
struct router_memory {
  uint4 *x;            /* [n_pieces, rows, 4] */
  float4 *sums;        /* [BLOCKS, n_tiles, 8] */
  float *logits;       /* [OWN, n_tiles * COLUMNS] */
  float *bias;         /* [PER_LANE * 32] */
  uint32_t *rows_of;   /* [ROW_WORDS, PER_LANE * 32]: which rows chose an expert */
  int *totals;         /* [PER_LANE * 32]: slots of the rank's experts */
  int *starts;         /* [OWN, PER_LANE * 32] */
  uint32_t *of_groups; /* [OWN, PER_LANE * 32] */
};

template <int PER_LANE> constexpr int SHARED_WORDS = (1 + ROW_WORDS + 1 + OWN + OWN) * PER_LANE *WARP;

template <int PER_LANE, int ROWS> __device__ router_memory memory_of(const router_params &p, uint4 *shared)
{
  constexpr int EXPERTS = PER_LANE * WARP;
  float4 *sums = reinterpret_cast<float4 *>(shared + p.n_pieces * ROWS * 4);
  float *logits = reinterpret_cast<float *>(sums + BLOCKS * p.n_tiles * 8), *bias = logits + OWN * p.n_tiles * COLUMNS;
  uint32_t *rows_of = reinterpret_cast<uint32_t *>(bias + EXPERTS);
  int *totals = reinterpret_cast<int *>(rows_of + ROW_WORDS * EXPERTS), *starts = totals + EXPERTS;
  return {shared, sums, logits, bias, rows_of, totals, starts, reinterpret_cast<uint32_t *>(starts + OWN * EXPERTS)};
}

inline size_t shared_bytes(const router_params &p, int per_lane, int rows)
{
  const int pieces = p.n_pieces * rows * 4 + BLOCKS * p.n_tiles * 8;
  const int words = OWN * p.n_tiles * COLUMNS + (per_lane == 4 ? SHARED_WORDS<4> : SHARED_WORDS<MOST_WORDS>);
  return static_cast<size_t>(pieces) * sizeof(uint4) + static_cast<size_t>(words) * sizeof(uint32_t);
}

/* Bit b of lane l becomes bit l of lane b, in each word. */
template <int N> __device__ __forceinline__ void transpose_bits(uint32_t (&words)[N], int lane)
{
  uint32_t mask = 0x0000FFFFu;
#pragma unroll 1
  for (int step = WARP / 2; step > 0; step /= 2, mask ^= mask << step) {
#pragma unroll
    for (int i = 0; i < N; i++) {
      const uint32_t other = __shfl_xor_sync(ALL_LANES, words[i], step);
      words[i] =
          lane & step ? (words[i] & ~mask) | (other >> step & mask) : (words[i] & mask) | (other << step & ~mask);
    }
  }
}

/* The block's part of K of the cluster's rows. */
template <int ROWS> __device__ __forceinline__ void copy_x(const router_params &p, int part, int row0, uint4 *to)
{
  const int n = p.n_pieces * ROWS * 4;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int row = row0 + i / 4 % ROWS, at = (i / 4 / ROWS * BLOCKS + part) * 32 + i % 4 * 8;
    const bool is_there = row < p.route.n_tokens && at < p.k;
    const uint16_t *from = static_cast<const uint16_t *>(p.x) + (is_there ? static_cast<int64_t>(row) * p.k + at : 0);
    cp_async_16(shared_address(to + i), from, is_there);
  }
  cp_async_commit();
  cp_async_wait<0>();
}

/* By one warp: the block's sums of a tile's columns, to the blocks that choose. */
template <typename T, int ROWS>
__device__ __forceinline__ void multiply(const router_params &p, const few_outputs_tile<T, ROWS> &t, int column,
                                         const router_memory &m, uint64_t *full)
{
  const int lane = threadIdx.x % WARP;
  float acc[ROWS / 8][4] = {};
  t.accumulate(
      p.w, p.n_logits, p.k, column, [&](int i, int r) { return m.x[(i * ROWS / 8 + r) * WARP + lane]; }, acc);
  const uint32_t to = shared_address(m.sums + (t.part * p.n_tiles + column / COLUMNS) * 8 + lane / 4);
#pragma unroll
  for (int r = 0; r < ROWS / 8; r++)
    store_async_remote16(to, shared_address(full), r * 4 + lane % 4,
                         make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
}

/* Logits of the block's rows. */
__device__ __forceinline__ void add_parts(const router_params &p, const router_memory &m, int row0, int n_rows)
{
  for (int column = threadIdx.x; column < p.n_logits; column += blockDim.x) {
    const float2 *from = reinterpret_cast<const float2 *>(m.sums) + (column / 16 * 8 + column % 8) * 2 + column / 8 % 2;
    float sums[OWN] = {};
#pragma unroll
    for (int part = 0; part < BLOCKS; part++) {
      const float2 v = from[part * p.n_tiles * COLUMNS];
      sums[0] += v.x;
      sums[1] += v.y;
    }
#pragma unroll
    for (int row = 0; row < OWN; row++) {
      m.logits[row * p.n_tiles * COLUMNS + column] = sums[row];
      if (row < n_rows) p.logits[(row0 + row) * p.route.logits_stride + column] = sums[row];
    }
  }
}

/* By one warp: the row's experts, a bit each, to all blocks. expert: of each lane, or -1. */
template <int PER_LANE> __device__ __forceinline__ void send_choices(uint32_t *to, int expert)
{
  const int lane = threadIdx.x % WARP;
  uint32_t own = 0;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const uint32_t word = __reduce_or_sync(ALL_LANES, expert >= 0 && expert / WARP == i ? 1u << expert % WARP : 0u);
    own = lane == i ? word : own;
  }
  if (lane < PER_LANE) store_relaxed_gpu(to + lane, own);
}

/* By one warp: choices and weights of a row. logits: the row's. to: where its choices are sent. Returns the expert that
 * is choice number `lane`, -1 where there is none. */
template <int PER_LANE>
__device__ __forceinline__ int choose_and_send(const route_params &p, const float *logits, int row, bool is_padding,
                                               uint32_t *of_groups, uint32_t *to)
{
  const yk_route_spec &spec = p.spec;
  const int lane = threadIdx.x % WARP, at = row * spec.top_k + lane;
  int expert = is_padding ? -1 : lane;
  float scores[PER_LANE], weight = is_padding ? 0.0f : __uint_as_float(0x7FC00000u);
  load_logits(logits, spec.n_experts, lane, scores);
  const bool is_chosen = !is_padding && score(spec, lane, scores);
  if (is_chosen) expert = expert_of_lane(p, scores, of_groups, lane);
  if (lane >= spec.top_k) expert = -1;
  send_choices<PER_LANE>(to, expert);
  if (is_chosen) weight = weight_of_lane(spec, scores, expert);
  if (lane < spec.top_k) {
    p.choices[at] = expert;
    p.weights[at] = weight;
  }
  return expert;
}

/* Which rows chose an expert, for all: rows 32 w to 32 w + 31 are word rows_of[w][e]. A thread takes the bits of a row,
 * once they are there. */
template <int PER_LANE>
__device__ __forceinline__ void gather_choices(const uint32_t (*chosen)[MOST_WORDS], int n_tokens, uint32_t *rows_of)
{
  const int row = threadIdx.x, warp = row / WARP, lane = row % WARP;
  if (warp * WARP >= n_tokens) return;
  uint32_t words[PER_LANE] = {};
  bool is_there = true;
  do {
    is_there = true;
#pragma unroll
    for (int i = 0; i < PER_LANE && row < n_tokens; i += 4) {
      const uint4 v = load_relaxed_gpu16(reinterpret_cast<const uint4 *>(chosen[row] + i));
      words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
      is_there = is_there && v.x != EMPTY && v.y != EMPTY && v.z != EMPTY && v.w != EMPTY;
    }
  } while (!__all_sync(ALL_LANES, is_there));
  transpose_bits(words, lane);
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) rows_of[(warp * PER_LANE + i) * WARP + lane] = words[i];
}

/* Slots of each of the rank's experts; the first block counts what rows chose. */
template <int PER_LANE>
__device__ __forceinline__ void count_rows(const route_params &p, const uint32_t *rows_of, int *totals)
{
  const int expert = threadIdx.x, local = expert - p.spec.first_local, n_words = (p.n_tokens + WARP - 1) / WARP;
  if (expert >= PER_LANE * WARP) return;
  int total = 0;
#pragma unroll
  for (int w = 0; w < ROW_WORDS; w++) total += w < n_words ? __popc(rows_of[w * PER_LANE * WARP + expert]) : 0;
  if (local >= 0 && local < p.spec.n_local) totals[local] = total;
  if (blockIdx.x == 0 && p.counts && total > 0)
    atomicAdd(reinterpret_cast<unsigned long long *>(p.counts) + expert, static_cast<unsigned long long>(total));
}

/* Rows before `row` that chose the expert. */
template <int PER_LANE> __device__ __forceinline__ int rows_before(const uint32_t *rows_of, int expert, int row)
{
  int n = __popc(rows_of[row / WARP * PER_LANE * WARP + expert] & ((1u << row % WARP) - 1));
#pragma unroll
  for (int w = 0; w < ROW_WORDS - 1; w++) n += w < row / WARP ? __popc(rows_of[w * PER_LANE * WARP + expert]) : 0;
  return n;
}

/* By one warp: first slots of the rank's experts. The warp of row 0 writes what a route does of them. */
template <int PER_LANE>
__device__ __forceinline__ void add_totals(const route_params &p, const int *totals, int row, int *starts)
{
  const int lane = threadIdx.x % WARP;
  int own[PER_LANE], sum = 0;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = lane * PER_LANE + i;
    own[i] = e < p.spec.n_local ? totals[e] : 0;
    sum += own[i];
  }
  int start = warp_prefix_sum(sum) - sum;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = lane * PER_LANE + i;
    starts[e] = start;
    if (row == 0 && e < p.spec.n_local) p.starts[e] = start;
    start += own[i];
  }
  if (row == 0 && lane == WARP - 1) p.starts[p.spec.n_local] = start;
  __syncwarp();
}

/* Share number `share` of `shares` of a half of the exchange. */
__device__ __forceinline__ void make_empty(uint32_t (&chosen)[MOST_ROWS][MOST_WORDS], int share, int shares)
{
  constexpr int PIECES = MOST_ROWS * MOST_WORDS / 4;
  for (int i = share + threadIdx.x * shares; i < PIECES; i += blockDim.x * shares)
    store_relaxed_gpu16(reinterpret_cast<uint4 *>(chosen) + i, EMPTY);
}

/* PER_LANE: 32 experts each. ROWS: of a cluster. */
template <typename T, int PER_LANE, int ROWS>
__global__ void __launch_bounds__(WARPS<PER_LANE> *WARP, 16 / WARPS<PER_LANE>)
    router_many_kernel(const __grid_constant__ router_params p)
{
#if __CUDA_ARCH__ >= 900
  constexpr int EXPERTS = PER_LANE * WARP;
  extern __shared__ uint4 shared[];
  __shared__ uint64_t full; /* all of this block's sums */
  __shared__ int first_half;
  const router_memory m = memory_of<PER_LANE, ROWS>(p, shared);
  const yk_route_spec &spec = p.route.spec;
  /* By a shuffle, so that the compiler knows it to be one for the warp, and needs no detour at each shuffle behind a
   * branch on it. */
  const int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / WARP, 0);
  const int column0 = warp * COLUMNS, part = static_cast<int>(blockIdx.x) % BLOCKS;
  const int cluster_row0 = static_cast<int>(blockIdx.x) / BLOCKS * ROWS, row0 = cluster_row0 + part * OWN;
  const int n_rows = part < ROWS / OWN ? min(OWN, p.route.n_tokens - row0) : 0;
  const int own = warp - (WARPS<PER_LANE> - OWN), row = row0 + own; /* of the last warps */
  const bool chooses = own >= 0 && own < n_rows;
  few_outputs_tile<T, ROWS> t;
  t.part = part;
  t.read_ahead(p.w, p.n_logits, p.k, column0);
  t.prefetch_rest(p.w, p.n_logits, p.k, column0);
  route_params route = p.route;
  for (int e = threadIdx.x; p.route.bias && e < spec.n_experts; e += blockDim.x) m.bias[e] = p.route.bias[e];
  if (p.route.bias) route.bias = m.bias;
  const bool is_padding = chooses && p.route.kv_slots && p.route.kv_slots[row] < 0;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&full, BLOCKS * p.n_tiles * 8 * static_cast<int>(sizeof(float4)));
  }
  let_next_kernel_start();
  cluster_sync_relaxed(); /* nobody may write the memory of a block that does not run yet */
  wait_for_previous_kernel();
  copy_x<ROWS>(p, part, cluster_row0, m.x);
  if (threadIdx.x == 0) first_half = p.exchange->half;
  __syncthreads();
  for (int column = column0; column < p.n_logits; column += WARPS<PER_LANE> * COLUMNS) {
    if (column > column0) t.read_ahead(p.w, p.n_logits, p.k, column);
    multiply<T, ROWS>(p, t, column, m, &full);
  }
  if (part >= ROWS / OWN) return;
  mbarrier_wait_loop(&full, 0);
  if (n_rows <= 0) return;
  const int half = first_half;
  add_parts(p, m, row0, n_rows);
  __syncthreads();
  int expert = -1;
  if (chooses)
    expert = choose_and_send<PER_LANE>(route, m.logits + own * p.n_tiles * COLUMNS, row, is_padding,
                                       m.of_groups + own * EXPERTS, p.exchange->chosen[half][row]);
  make_empty(p.exchange->chosen[1 - half], row0 / OWN, (p.route.n_tokens + OWN - 1) / OWN);
  gather_choices<PER_LANE>(p.exchange->chosen[half], p.route.n_tokens, m.rows_of);
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) p.exchange->half = 1 - half; /* every block has read it before it sent */
  count_rows<PER_LANE>(route, m.rows_of, m.totals);
  __syncthreads();
  if (!chooses) return;
  int *starts = m.starts + own * EXPERTS;
  add_totals<PER_LANE>(route, m.totals, row, starts);
  const int lane = threadIdx.x % WARP, local = expert - spec.first_local;
  int slot = -1;
  if (expert >= 0 && local >= 0 && local < spec.n_local) {
    slot = starts[local] + rows_before<PER_LANE>(m.rows_of, expert, row);
    route.row_of_slot[slot] = row;
  }
  if (lane < spec.top_k) route.slot_of_choice[row * spec.top_k + lane] = slot;
#endif
}

} // namespace yk_experts::many

#endif
