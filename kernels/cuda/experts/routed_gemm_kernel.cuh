/* routed_gemm_kernel.cuh - the kernel of routed_gemm.h: that of few rows a matrix (wna16_grouped_few_kernel.cuh), whose
 * thread blocks route first.
 *
 *   logits   the first blocks have 8 columns of the router each, whose weights they read before griddepcontrol.wait
 *   gather   a warp of every block takes all logits from a place that is empty until they come; the last block that
 *            has them all makes it empty again
 *   choose   by that warp; an expert has one slot at most, so row tiles follow from the choices alone
 *   outputs  block 0 writes what a route writes, while its other warps multiply. It lets the next kernel start only
 *            then, so that they are there for whoever reads them before its own wait
 *
 * Blocks wait for those that have columns: the first ones of the grid, which run before any other, and wait for nobody
 * but the kernels ahead. */
#ifndef YK_KERNELS_CUDA_EXPERTS_ROUTED_GEMM_KERNEL_CUH
#define YK_KERNELS_CUDA_EXPERTS_ROUTED_GEMM_KERNEL_CUH

#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/experts/route_assign.cuh"
#include "kernels/cuda/gemm/wna16_grouped_few_kernel.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_experts {

using namespace yk_gemm;

constexpr int ROUTED_TILE = 0; /* of GROUPED_FEW_SHAPES */
constexpr grouped_few_shape ROUTED_SHAPE = GROUPED_FEW_SHAPES[ROUTED_TILE];
constexpr int ROUTED_PER_LANE = 4, ROUTED_EXPERTS = ROUTED_PER_LANE * WARP;
constexpr uint32_t EMPTY_LOGIT = 0xFFFFFFFFu; /* a NaN that no logit is */

/* In device memory. Expert e has word e / 32 of logits[e % 32]: a lane takes its experts' at once. */
struct logits_exchange {
  uint4 logits[WARP];
  int32_t blocks; /* that have all logits */
};

struct routed_params {
  grouped_params gemm;
  route_params route;
  const void *x, *w;
  float *logits;
  int n_logits, k;
  logits_exchange *among_blocks;
};

template <typename T> using router_tile = few_outputs_tile<T, 8, 8>;
static_assert(sizeof(router_tile<__half>::sums) <= few_acc_bytes(ROUTED_SHAPE.n, ROUTED_SHAPE.panels),
              "in the accumulators' memory, which is free yet");
static_assert(ROUTED_EXPERTS * sizeof(uint32_t) <= few_acc_bytes(ROUTED_SHAPE.n, ROUTED_SHAPE.panels), "likewise");

/* In shared memory for as long as the kernel runs. */
struct routed_row {
  float logits[ROUTED_EXPERTS]; /* block 0 */
  int experts[YK_MAX_TOP_K];
};

/* By all threads: the logits of this block's columns, to all blocks. */
template <typename T>
__device__ __forceinline__ void send_logits(const routed_params &p, typename router_tile<T>::sums &m)
{
  using tile = router_tile<T>;
  const int column0 = blockIdx.x * tile::COLUMNS, step = gridDim.x * tile::COLUMNS;
  const bool is_of_tile = threadIdx.x < tile::THREADS;
  tile t;
  if (is_of_tile) t.read_ahead(p.w, p.n_logits, p.k, column0);
  wait_for_previous_kernel();
  for (int column = column0; column < p.n_logits; column += step) {
    if (is_of_tile && column > column0) t.read_ahead(p.w, p.n_logits, p.k, column);
    if (is_of_tile) t.multiply(p.w, p.n_logits, p.x, 1, p.k, column, 0, m);
    __syncthreads();
    const int own = column + static_cast<int>(threadIdx.x);
    if (threadIdx.x < tile::COLUMNS && own < p.n_logits) {
      const float logit = tile::sum_of(m, threadIdx.x, 0);
      const uint32_t bits = __float_as_uint(logit);
      uint32_t *to = reinterpret_cast<uint32_t *>(p.among_blocks->logits + own % WARP) + own / WARP;
      if (own < p.route.spec.n_experts) store_relaxed_gpu(to, bits == EMPTY_LOGIT ? EMPTY_LOGIT >> 1 : bits);
      p.logits[own] = logit;
    }
    __syncthreads();
  }
}

/* By one warp: the logits of each lane's experts, once they are there. */
__device__ __forceinline__ void gather_logits(const routed_params &p, float (&logits)[ROUTED_PER_LANE])
{
  const int lane = threadIdx.x % WARP, n = p.route.spec.n_experts;
  uint4 v;
  bool is_empty;
  do {
    v = load_relaxed_gpu16(p.among_blocks->logits + lane);
    is_empty = (lane < n && v.x == EMPTY_LOGIT) || (WARP + lane < n && v.y == EMPTY_LOGIT) ||
               (2 * WARP + lane < n && v.z == EMPTY_LOGIT) || (3 * WARP + lane < n && v.w == EMPTY_LOGIT);
  } while (is_empty);
  const uint32_t words[ROUTED_PER_LANE] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < ROUTED_PER_LANE; i++) logits[i] = i * WARP + lane < n ? __uint_as_float(words[i]) : -FLT_MAX;
}

/* By one warp, once the block has all logits. */
__device__ __forceinline__ void release_exchange(const routed_params &p)
{
  const int lane = threadIdx.x % WARP;
  const int before = lane == 0 ? increment_acq_rel_gpu(&p.among_blocks->blocks) : 0;
  if (__shfl_sync(ALL_LANES, before, 0) + 1 < static_cast<int>(gridDim.x)) return;
  p.among_blocks->logits[lane] = make_uint4(EMPTY_LOGIT, EMPTY_LOGIT, EMPTY_LOGIT, EMPTY_LOGIT);
  if (lane == 0) p.among_blocks->blocks = 0;
}

/* By one warp: the expert of choice number `lane` and, in block 0, logits for its outputs. -1 where the row is
 * padding. keys: memory of ROUTED_EXPERTS. */
__device__ __forceinline__ int choose_expert(const routed_params &p, routed_row &row, uint32_t *keys)
{
  const int lane = threadIdx.x % WARP;
  float scores[ROUTED_PER_LANE];
  gather_logits(p, scores);
#pragma unroll
  for (int i = 0; i < ROUTED_PER_LANE; i++)
    if (blockIdx.x == 0) row.logits[i * WARP + lane] = scores[i];
  if (p.route.kv_slots && p.route.kv_slots[0] < 0) return -1;
  return score(p.route.spec, lane, scores) ? expert_of_lane(p.route, scores, keys, lane) : lane;
}

/* By one warp: the row tiles of the chosen experts that the rank holds. Returns the table's size. */
__device__ __forceinline__ int2 build_row_table(const yk_route_spec &spec, const grouped_table &table, int expert)
{
  const int lane = threadIdx.x % WARP, matrix = expert - spec.first_local;
  const bool is_local = lane < spec.top_k && matrix >= 0 && matrix < spec.n_local;
  const int n_slots = __popc(__ballot_sync(ALL_LANES, is_local));
  int slot = 0;
#pragma unroll 8
  for (int i = 0; i < spec.top_k; i++) slot += __shfl_sync(ALL_LANES, is_local ? matrix : spec.n_local, i) < matrix;
  if (is_local) table.entries[slot] = {matrix, slot, slot, slot + 1};
  if (lane == 0) table.entries[n_slots] = {spec.n_local, n_slots, 0, 0};
  return {n_slots, n_slots};
}

/* By one warp of block 0: what a route writes. */
__device__ __forceinline__ void write_route(const routed_params &p, const routed_row &row)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP, expert = lane < spec.top_k ? row.experts[lane] : -1;
  const auto slots_below = [&](int e) { /* of the rank's experts */
                                        int slots = 0;
                                        for (int i = 0; i < spec.top_k; i++)
                                          slots += static_cast<unsigned>(row.experts[i] - spec.first_local) <
                                                   static_cast<unsigned>(e);
                                        return slots;
  };
  for (int e = lane; e <= spec.n_local; e += WARP) p.route.starts[e] = slots_below(e);
  float scores[ROUTED_PER_LANE], weight = __uint_as_float(0x7FC00000u);
  load_logits(row.logits, spec.n_experts, lane, scores);
  if (score(spec, lane, scores)) weight = weight_of_lane(spec, scores, max(expert, 0));
  if (lane < spec.top_k) {
    const int e = expert - spec.first_local;
    const bool is_local = expert >= 0 && e >= 0 && e < spec.n_local;
    const int slot = is_local ? slots_below(e) : -1;
    p.route.choices[lane] = expert;
    p.route.weights[lane] = expert >= 0 ? weight : 0.0f;
    p.route.slot_of_choice[lane] = slot;
    if (is_local) p.route.row_of_slot[slot] = 0;
    if (p.route.counts && expert >= 0) atomicAdd(reinterpret_cast<unsigned long long *>(p.route.counts) + expert, 1ull);
  }
  __threadfence();
  __syncwarp();
  if (lane == 0) let_next_kernel_start();
}

template <yk_dtype DTYPE, typename PANEL>
__global__ void __maxnreg__(few_registers(ROUTED_SHAPE.taken))
    routed_gemm_kernel(const __grid_constant__ routed_params p)
{
#ifdef YK_HAVE_SM90A
  using T = element<DTYPE>;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ routed_row row;
  run_few<DTYPE, PANEL, ROUTED_SHAPE.n, ROUTED_SHAPE.panels, ROUTED_SHAPE.taken>(
      p.gemm, shared,
      [&](const grouped_table &table, few_share &share) {
        send_logits<T>(p, *reinterpret_cast<typename router_tile<T>::sums *>(shared + p.gemm.ring_bytes));
        if (threadIdx.x >= WARP) return;
        const int expert = choose_expert(p, row, reinterpret_cast<uint32_t *>(shared + p.gemm.ring_bytes));
        row.experts[threadIdx.x] = expert;
        find_share(p.gemm, table, build_row_table(p.route.spec, table, expert), share);
        if (blockIdx.x > 0 && threadIdx.x == 0) let_next_kernel_start();
      },
      [&] {
        if (blockIdx.x == 0) write_route(p, row);
        release_exchange(p);
      });
#endif
}

} // namespace yk_experts

#endif
