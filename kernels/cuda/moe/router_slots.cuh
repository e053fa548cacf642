/* router_slots.cuh - the second half of the router's kernel: choices, which all thread blocks that choose exchange as
 * bits, and slots, which follow from the bits of all rows. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTER_SLOTS_CUH
#define YK_KERNELS_CUDA_MOE_ROUTER_SLOTS_CUH

#include "kernels/cuda/moe/router_params.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_moe::router_kernels {

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

/* Destination of a row's choices, one bit per expert: all blocks of the grid through device memory; or, in a single
 * cluster, the shared memory of the n blocks that choose, whose barriers count the arrivals. */
struct choices_destination {
  uint32_t *global;
  uint32_t shared, barrier;
  int n;
};

/* Called by one warp. taken: bit i of a lane is expert i * 32 + lane. */
template <int PER_LANE, bool IS_ONE_CLUSTER>
__device__ __forceinline__ void send_choices(const choices_destination &to, uint32_t taken)
{
  const int lane = threadIdx.x % WARP;
  uint32_t words[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) words[i] = __ballot_sync(ALL_LANES, taken >> i & 1);
  if constexpr (IS_ONE_CLUSTER) {
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

/* Called by one warp: computes choices and weights of a row from its logits. keys: memory for one key per expert, used
 * with groups; chosen: memory for one entry per choice. Returns the expert of choice number `lane`, or -1. */
template <int PER_LANE, bool IS_ONE_CLUSTER>
__device__ __forceinline__ int choose_and_send(const route_params &p, const float *logits, int row, bool is_padding,
                                               uint32_t *keys, int *chosen, const choices_destination &to)
{
  const yk_route_spec &spec = p.spec;
  const int lane = threadIdx.x % WARP, at = row * spec.top_k + lane;
  uint32_t taken = !is_padding && lane < spec.top_k;
  int expert = is_padding ? -1 : lane;
  float scores[PER_LANE], weight = is_padding ? 0.0f : __uint_as_float(0x7FC00000u);
  load_logits(logits, spec.n_experts, lane, scores);
  const bool is_chosen = !is_padding && score(spec, scores);
  if (is_chosen) taken = choose_experts(p, scores, keys, lane, chosen);
  send_choices<PER_LANE, IS_ONE_CLUSTER>(to, taken);
  if (is_chosen) {
    expert = lane < spec.top_k ? chosen[lane] : 0;
    weight = scaled_weight_of_lane(p, scores, expert);
  }
  if (lane >= spec.top_k) return -1;
  p.choices[at] = expert;
  p.weights[at] = weight;
  return expert;
}

/* Gathers the rows that chose each expert: rows 32 w to 32 w + 31 are word rows_of[w][e]. A thread reads the bits of
 * one row, once they have arrived. */
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

/* For experts lane * PER_LANE + i: the number of rows that chose them, and of such rows before a given row. */
template <int PER_LANE> struct row_counts {
  int all[PER_LANE] = {}, before[PER_LANE] = {};

  /* rows_of: the result of gather_choices. */
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

  /* chosen: [n_tokens, PER_LANE], one bit per expert. A word counts four experts, one byte each. */
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

/* Called by one warp: writes to slots [PER_LANE * 32], in shared memory, the slot of the row with each expert, chosen
 * or not. The warp of row 0 also writes starts and adds the counts of rows. */
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

/* Empties part `share` of `shares` of a half of the mailbox. */
__device__ __forceinline__ void make_empty(uint32_t (&chosen)[MOST_ROWS][MOST_WORDS], int share, int shares)
{
  constexpr int PIECES = MOST_ROWS * MOST_WORDS / 4;
  for (int i = share + threadIdx.x * shares; i < PIECES; i += blockDim.x * shares)
    store_relaxed_gpu16(reinterpret_cast<uint4 *>(chosen) + i, EMPTY);
}

} // namespace yk_moe::router_kernels

#endif
