/* router_many_kernel.cuh - the router's GEMM and the routing of up to 256 rows in one kernel: see route.h.
 *
 *   normalise  a cluster of eight thread blocks has 8 or 16 rows. Of 8, each block may have to add and normalise one
 *              first, and sends each packet to the block that multiplies it
 *   multiply   each block multiplies an eighth of K, whose weights it reads before griddepcontrol.wait, and sends two
 *              rows' sums to each of the cluster's first blocks
 *   choose     by these, a warp a row
 *   exchange   which experts a row chose, a bit each, from all such blocks of the grid to all, through device memory
 *              that is empty until they come. Two halves take turns: a call empties what the call before has used. A
 *              cluster that is the only one exchanges through its shared memory
 *   assign     a warp counts the bits of all rows, and has the slots of its own
 *
 * Logits have the same bits as those of few_outputs_tile's other users: the blocks have of K what its warps have.
 * Blocks wait for each other, so all of them must fit at once. */
#ifndef YK_KERNELS_CUDA_EXPERTS_ROUTER_MANY_KERNEL_CUH
#define YK_KERNELS_CUDA_EXPERTS_ROUTER_MANY_KERNEL_CUH

#include "kernels/cuda/common/elements.cuh"
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

/* What x is first to be: the y of yk_add_norm_args with one part. w NULL: x is there. */
struct router_norm {
  void *y, *residual;
  const void *part, *w;
  float alpha, eps, per_element; /* per_element: 1 / k */
};

struct router_params {
  route_params route;
  const void *x, *w;
  float *logits;
  int n_logits, n_tiles, k, n_pieces; /* n_tiles: of COLUMNS logits; n_pieces: of 32 inputs, of a block */
  choices_exchange *exchange;
  router_norm norm;
};

/* Warps of a block: one for each COLUMNS experts. */
template <int PER_LANE> constexpr int WARPS = PER_LANE *WARP / COLUMNS;

/* Dynamic shared memory. An element of sums is of two columns, lane / 4 of a tile and 8 more, by two rows, as they lie
 * in an accumulator of few_outputs_tile. */
struct router_memory {
  uint4 *x;     /* [n_pieces, rows, 4] */
  float4 *sums; /* [BLOCKS, n_tiles, 8] */
  uint32_t
      *rows_of;    /* [ROW_WORDS, PER_LANE * 32]: which rows chose an expert; of a lone cluster [rows, PER_LANE]: which
                        experts a row chose */
  float *logits;   /* [OWN, n_tiles * COLUMNS] */
  float *bias;     /* [PER_LANE * 32] */
  int *of_experts; /* [OWN, PER_LANE * 32]: keys of groups, then slots */
  int *chosen;     /* [OWN, 32] */
};

template <int PER_LANE> constexpr int SHARED_WORDS = ((ROW_WORDS + 1 + OWN) * PER_LANE + OWN) * WARP;

template <int PER_LANE, int ROWS> __device__ router_memory memory_of(const router_params &p, uint4 *shared)
{
  constexpr int EXPERTS = PER_LANE * WARP;
  float4 *sums = reinterpret_cast<float4 *>(shared + p.n_pieces * ROWS * 4);
  uint32_t *rows_of = reinterpret_cast<uint32_t *>(sums + BLOCKS * p.n_tiles * 8);
  float *logits = reinterpret_cast<float *>(rows_of + ROW_WORDS * EXPERTS), *bias = logits + OWN * p.n_tiles * COLUMNS;
  int *of_experts = reinterpret_cast<int *>(bias + EXPERTS);
  return {shared, sums, rows_of, logits, bias, of_experts, of_experts + OWN * EXPERTS};
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

/* The sum of what warps have, in the order of block_sum (common/reduce.cuh). */
template <int WARPS> __device__ __forceinline__ float sum_of_warps(const float *of_warps)
{
  float sums[WARPS];
#pragma unroll
  for (int i = 0; i < WARPS; i++) sums[i] = of_warps[i];
#pragma unroll
  for (int step = 2; step <= WARPS; step *= 2) {
#pragma unroll
    for (int i = 0; i < WARPS / 2; i++)
      if (i < WARPS / step) sums[i] += sums[i + WARPS / step];
  }
  return sums[0];
}

/* A row of the cluster, the block's, becomes its norm, and goes to the blocks that multiply it as well. A thread has
 * one packet, w of the weights, and the sum of squares has the bits that it has in rows/norm.cu. squares: of warps. */
template <typename T, int WARPS>
__device__ __forceinline__ void normalise(const router_params &p, int part, int cluster_row0, const vec<T, 8> &w,
                                          uint4 *x, uint64_t *x_full, float *squares)
{
  using V = vec<T, 8>;
  const router_norm &norm = p.norm;
  const int own = threadIdx.x, n = p.k / 8, warp = own / WARP, lane = own % WARP, piece = own / 4;
  const int row = cluster_row0 + part;
  const bool is_there = own < n && row < p.route.n_tokens;
  const int64_t at = static_cast<int64_t>(row) * n + own;
  V sum = {}, of_part = {}, y = {};
  float square = 0.0f;
  if (is_there) {
    sum = static_cast<const V *>(norm.residual)[at];
    of_part = static_cast<const V *>(norm.part)[at];
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    sum.at[j] = from_float<T>(to_float(sum.at[j]) + norm.alpha * (0.0f + to_float(of_part.at[j])));
    square += to_float(sum.at[j]) * to_float(sum.at[j]);
  }
  square = warp_sum(square);
  if (lane == 0) squares[warp] = square;
  __syncthreads();
  const float factor = rsqrtf(sum_of_warps<WARPS>(squares) * norm.per_element + norm.eps);
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (is_there) y.at[j] = from_float<T>(rounded<T>(to_float(sum.at[j]) * factor) * to_float(w.at[j]));
  if (piece / BLOCKS < p.n_pieces)
    store_async_remote16(shared_address(x + (piece / BLOCKS * BLOCKS + part) * 4 + own % 4), shared_address(x_full),
                         piece % BLOCKS, *reinterpret_cast<const float4 *>(&y));
  if (!is_there) return;
  static_cast<V *>(norm.residual)[at] = sum;
  static_cast<V *>(norm.y)[at] = y;
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

/* Where a row's choices go, an expert a bit: to all blocks of the grid through device memory, or of a lone cluster's n
 * blocks that choose straight into their shared memory, whose barriers count them. */
struct choices_way {
  uint32_t *global;
  uint32_t shared, barrier;
  int n;
};

/* By one warp. taken: bit i of a lane is expert i * 32 + lane. */
template <int PER_LANE, bool IS_LONE>
__device__ __forceinline__ void send_choices(const choices_way &to, uint32_t taken)
{
  const int lane = threadIdx.x % WARP;
  uint32_t words[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) words[i] = __ballot_sync(ALL_LANES, taken >> i & 1);
  if constexpr (IS_LONE) {
#pragma unroll
    for (int i = 0; i < PER_LANE; i += 4)
      if (lane < to.n)
        store_async_remote16(to.shared + i * 4, to.barrier, lane,
                             make_float4(__uint_as_float(words[i]), __uint_as_float(words[i + 1]),
                                         __uint_as_float(words[i + 2]), __uint_as_float(words[i + 3])));
  } else {
    uint32_t own = words[0];
#pragma unroll
    for (int i = 1; i < PER_LANE; i++) own = lane == i ? words[i] : own;
    if (lane < PER_LANE) store_relaxed_gpu(to.global + lane, own);
  }
}

/* By one warp: choices and weights of a row. logits: the row's. keys: memory for each expert's, where there are groups;
 * chosen: for each choice. Returns the expert that is choice number `lane`, -1 where there is none. */
template <int PER_LANE, bool IS_LONE>
__device__ __forceinline__ int choose_and_send(const route_params &p, const float *logits, int row, bool is_padding,
                                               uint32_t *keys, int *chosen, const choices_way &to)
{
  const yk_route_spec &spec = p.spec;
  const int lane = threadIdx.x % WARP, at = row * spec.top_k + lane;
  uint32_t taken = !is_padding && lane < spec.top_k;
  int expert = is_padding ? -1 : lane;
  float scores[PER_LANE], weight = is_padding ? 0.0f : __uint_as_float(0x7FC00000u);
  load_logits(logits, spec.n_experts, lane, scores);
  const bool is_chosen = !is_padding && score(spec, scores);
  if (is_chosen) taken = choose_experts(p, scores, keys, lane, chosen);
  send_choices<PER_LANE, IS_LONE>(to, taken);
  if (is_chosen) {
    expert = lane < spec.top_k ? chosen[lane] : 0;
    weight = weight_of_lane(spec, scores, expert);
  }
  if (lane >= spec.top_k) return -1;
  p.choices[at] = expert;
  p.weights[at] = weight;
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

/* Of experts lane * PER_LANE + i: rows that chose them, and those of them that lie before a row. */
template <int PER_LANE> struct row_counts {
  int all[PER_LANE] = {}, before[PER_LANE] = {};

  /* rows_of: as gather_choices leaves it. */
  __device__ __forceinline__ void count_words(const uint32_t *rows_of, int n_tokens, int row)
  {
    const int lane = threadIdx.x % WARP, n_words = (n_tokens + WARP - 1) / WARP;
    for (int w = 0; w < n_words; w++) {
      const uint32_t below = row / WARP > w ? ~0u : row / WARP == w ? (1u << row % WARP) - 1 : 0u;
#pragma unroll
      for (int i = 0; i < PER_LANE; i += 4) {
        const uint4 v = reinterpret_cast<const uint4 *>(rows_of + (w * WARP + lane) * PER_LANE + i)[0];
        add(i, v.x, below), add(i + 1, v.y, below), add(i + 2, v.z, below), add(i + 3, v.w, below);
      }
    }
  }

  /* chosen: [n_tokens, PER_LANE], a bit an expert. Four experts are counted in a word, a byte each. */
  template <int ROWS> __device__ __forceinline__ void count_rows(const uint32_t *chosen, int n_tokens, int row)
  {
    const int first = threadIdx.x % WARP * PER_LANE;
    uint32_t sums[PER_LANE / 4] = {}, sums_before[PER_LANE / 4] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const uint32_t word = r < n_tokens ? chosen[r * PER_LANE + first / WARP] : 0;
#pragma unroll
      for (int i = 0; i < PER_LANE / 4; i++) {
        if (r == row) sums_before[i] = sums[i];
        sums[i] += (word >> (first % WARP + 4 * i) & 15) * 0x00204081u & 0x01010101u; /* bit b goes to byte b */
      }
    }
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
      all[i] = static_cast<int>(sums[i / 4] >> i % 4 * 8 & 255);
      before[i] = static_cast<int>(sums_before[i / 4] >> i % 4 * 8 & 255);
    }
  }

  __device__ __forceinline__ void add(int i, uint32_t rows, uint32_t below)
  {
    all[i] += __popc(rows);
    before[i] += __popc(rows & below);
  }
};

/* By one warp: the row's slot with each expert, where it has one. The warp of row 0 writes what a route does of the
 * experts, and counts the rows. */
template <int PER_LANE>
__device__ __forceinline__ void find_slots(const route_params &p, const row_counts<PER_LANE> &counts, int row,
                                           int *slots)
{
  const int lane = threadIdx.x % WARP, first_local = lane * PER_LANE - p.spec.first_local;
  const auto is_local = [&](int i) {
    return static_cast<unsigned>(first_local + i) < static_cast<unsigned>(p.spec.n_local);
  };
  int sum = 0;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) sum += is_local(i) ? counts.all[i] : 0;
  int start = warp_prefix_sum(sum) - sum;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    slots[lane * PER_LANE + i] = start + counts.before[i];
    if (row == 0 && is_local(i)) p.starts[first_local + i] = start;
    if (row == 0 && p.counts && counts.all[i] > 0)
      atomicAdd(reinterpret_cast<unsigned long long *>(p.counts) + lane * PER_LANE + i,
                static_cast<unsigned long long>(counts.all[i]));
    start += is_local(i) ? counts.all[i] : 0;
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

/* PER_LANE: 32 experts each. ROWS: of a cluster. IS_LONE: the cluster is the only one. */
template <typename T, int PER_LANE, int ROWS, bool IS_LONE>
__global__ void __launch_bounds__(WARPS<PER_LANE> *WARP, 16 / WARPS<PER_LANE>)
    router_many_kernel(const __grid_constant__ router_params p)
{
#if __CUDA_ARCH__ >= 900
  constexpr int EXPERTS = PER_LANE * WARP;
  constexpr bool NORMALISES = ROWS == BLOCKS;
  extern __shared__ uint4 shared[];
  __shared__ uint64_t x_full, full,
      all_chosen; /* normalised rows; all of this block's sums; a lone cluster's choices */
  __shared__ int first_half;
  __shared__ alignas(16) float squares[WARPS<PER_LANE>];
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
  vec<T, 8> norm_w = {};
  if (NORMALISES && p.norm.w && static_cast<int>(threadIdx.x) < p.k / 8)
    norm_w = static_cast<const vec<T, 8> *>(p.norm.w)[threadIdx.x];
  route_params route = p.route;
  for (int e = threadIdx.x; p.route.bias && e < spec.n_experts; e += blockDim.x) m.bias[e] = p.route.bias[e];
  if (p.route.bias) route.bias = m.bias;
  const bool is_padding = chooses && p.route.kv_slots && p.route.kv_slots[row] < 0;
  if (threadIdx.x == 0) {
    mbarrier_init(&x_full, 1);
    mbarrier_init(&full, 1);
    mbarrier_init(&all_chosen, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&x_full, p.n_pieces * ROWS * 4 * static_cast<int>(sizeof(uint4)));
    mbarrier_arrive_expect(&full, BLOCKS * p.n_tiles * 8 * static_cast<int>(sizeof(float4)));
    mbarrier_arrive_expect(&all_chosen, p.route.n_tokens * PER_LANE * static_cast<int>(sizeof(uint32_t)));
  }
  let_next_kernel_start();
  cluster_sync_relaxed(); /* nobody may write the memory of a block that does not run yet */
  wait_for_previous_kernel();
  const int next_half = !IS_LONE && threadIdx.x == 0 ? p.exchange->half : 0; /* nobody waits for it yet */
  if (NORMALISES && p.norm.w) {
    normalise<T, WARPS<PER_LANE>>(p, part, cluster_row0, norm_w, m.x, &x_full, squares);
    mbarrier_wait_loop(&x_full, 0);
  } else {
    copy_x<ROWS>(p, part, cluster_row0, m.x);
    __syncthreads();
  }
  for (int column = column0; column < p.n_logits; column += WARPS<PER_LANE> * COLUMNS) {
    if (column > column0) t.read_ahead(p.w, p.n_logits, p.k, column);
    multiply<T, ROWS>(p, t, column, m, &full);
  }
  if (part >= ROWS / OWN) return;
  if (threadIdx.x == 0) first_half = next_half;
  mbarrier_wait_loop(&full, 0);
  if (n_rows <= 0) return;
  add_parts(p, m, row0, n_rows);
  __syncthreads();
  const int half = first_half;
  int expert = -1;
  if (chooses) {
    const choices_way to = {p.exchange->chosen[half][row], shared_address(m.rows_of + row * PER_LANE),
                            shared_address(&all_chosen), (p.route.n_tokens + OWN - 1) / OWN};
    expert = choose_and_send<PER_LANE, IS_LONE>(route, m.logits + own * p.n_tiles * COLUMNS, row, is_padding,
                                                reinterpret_cast<uint32_t *>(m.of_experts + own * EXPERTS),
                                                m.chosen + own * WARP, to);
  }
  row_counts<PER_LANE> counts;
  if constexpr (IS_LONE) {
    if (!chooses) return;
    mbarrier_wait_loop(&all_chosen, 0);
    counts.template count_rows<ROWS>(m.rows_of, p.route.n_tokens, row);
  } else {
    make_empty(p.exchange->chosen[1 - half], row0 / OWN, (p.route.n_tokens + OWN - 1) / OWN);
    gather_choices<PER_LANE>(p.exchange->chosen[half], p.route.n_tokens, m.rows_of);
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) p.exchange->half = 1 - half; /* every block has read it before it sent */
    if (!chooses) return;
    counts.count_words(m.rows_of, p.route.n_tokens, row);
  }
  int *slots = m.of_experts + own * EXPERTS;
  find_slots(route, counts, row, slots);
  const int lane = threadIdx.x % WARP;
  const bool is_local =
      expert >= 0 && static_cast<unsigned>(expert - spec.first_local) < static_cast<unsigned>(spec.n_local);
  const int slot = is_local ? slots[expert] : -1;
  if (is_local) route.row_of_slot[slot] = row;
  if (lane < spec.top_k) route.slot_of_choice[row * spec.top_k + lane] = slot;
#endif
}

} // namespace yk_experts::many

#endif
