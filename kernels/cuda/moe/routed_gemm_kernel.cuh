/* routed_gemm_kernel.cuh - routing of a single token and the grouped GEMM of the experts that it chooses, in one
 * kernel: that of few rows (gemm/grouped/few_rows_run.cuh), whose thread blocks route first. While they do, they
 * multiply the row with the weight of a shared expert, which needs no routing.
 *
 *   logits    the consumers of the first blocks have 8 columns of the router each, whose weights they read before
 *             griddepcontrol.wait
 *   shared    the other blocks share the panels of the shared expert's weight: their first item
 *   gather    the free producer warp of every block takes all logits from a place that is empty until they come; the
 *             last block that has them all makes it empty again
 *   choose    by that warp; an expert has one slot at most, so row tiles follow from the choices alone. A barrier tells
 *             the other warps that the block's share is known
 *   outputs   that warp of block 0 writes what a route writes. It lets the next kernel start only then, so that they
 *             are there for whoever reads them before its own wait
 *
 * Without a shared expert's weight nothing is there to be done meanwhile: the first warp chooses, before warps divide
 * their registers, and the thread block meets.
 *
 * Blocks wait for those that have columns: the first ones of the grid, which run before any other, and wait for nobody
 * but the kernels ahead. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTED_GEMM_KERNEL_CUH
#define YK_KERNELS_CUDA_MOE_ROUTED_GEMM_KERNEL_CUH

#include "kernels/cuda/gemm/grouped/few_rows_share.cuh"
#include "kernels/cuda/gemm/grouped/tiles.h"
#include "kernels/cuda/moe/logits_mailbox.cuh"
#include "kernels/cuda/moe/route_assign.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_moe {

using namespace yk_gemm;

constexpr int ROUTED_TILE = 0; /* of GROUPED_FEW_SHAPES */
constexpr grouped_few_shape ROUTED_SHAPE = GROUPED_FEW_SHAPES[ROUTED_TILE];

/* What a block multiplies the row with first, and then. */
enum { SHARED_EXPERT, EXPERTS, N_PRODUCTS };

struct routed_params {
  grouped_params gemm[N_PRODUCTS]; /* alike but for weights and results; SHARED_EXPERT has one matrix, or no panels */
  route_params route;
  row_router router;
  logits_mailbox *among_blocks;
  int first_shared_expert;   /* the first block with panels of SHARED_EXPERT */
  panel_split shared_expert; /* among the blocks from there on */
};

static_assert(sizeof(router_tile<__half, false>::sums) <= few_acc_bytes(ROUTED_SHAPE.n, ROUTED_SHAPE.panels),
              "in the accumulators' memory, which is free yet");
static_assert(router_tile<__half, false>::THREADS == 32 * CONSUMER_WARPS, "by the consumers");

/* In shared memory. */
struct routed_row {
  int experts[YK_MAX_TOP_K];
  few_share share;
  uint64_t has_share; /* barrier */
};

template <int PER_LANE>
__device__ __forceinline__ void gather_row_logits(const routed_params &p, float (&logits)[PER_LANE])
{
  gather_logits(p.among_blocks->words, p.route.spec.n_experts, logits, [] { return false; });
}

/* By one warp: the expert of choice number `lane`. -1 where the row is padding. keys: memory for each expert's, where
 * there are groups; chosen: for each choice. */
template <int PER_LANE>
__device__ __forceinline__ int choose_expert(const routed_params &p, uint32_t *keys, int *chosen)
{
  const int lane = threadIdx.x % WARP;
  float scores[PER_LANE];
  gather_row_logits(p, scores);
  if (p.route.kv_slots && p.route.kv_slots[0] < 0) return -1;
  if (!score(p.route.spec, scores)) return lane;
  choose_experts(p.route, scores, keys, lane, chosen);
  return lane < p.route.spec.top_k ? chosen[lane] : lane;
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

/* By the warp of block 0 that has chosen: what a route writes. The logits are still there. */
template <int PER_LANE> __device__ __forceinline__ void write_route(const routed_params &p, const routed_row &row)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP, expert = lane < spec.top_k ? row.experts[lane] : -1;
  const auto slots_of_experts_below = [&](int e) {
    int slots = 0;
    for (int i = 0; i < spec.top_k; i++)
      slots += static_cast<unsigned>(row.experts[i] - spec.first_local) < static_cast<unsigned>(e);
    return slots;
  };
  for (int e = lane; e <= spec.n_local; e += WARP) p.route.starts[e] = slots_of_experts_below(e);
  float scores[PER_LANE], weight = __uint_as_float(0x7FC00000u);
  gather_row_logits(p, scores);
  if (score(spec, scores)) weight = weight_of_lane(spec, scores, max(expert, 0));
  if (lane < spec.top_k) {
    const int e = expert - spec.first_local;
    const bool is_local = expert >= 0 && e >= 0 && e < spec.n_local;
    const int slot = is_local ? slots_of_experts_below(e) : -1;
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

/* Of the shared expert's weight; then, once the row is routed, of its experts. */
struct routed_items {
  const routed_params &p;
  const grouped_table &table;
  routed_row &row;
  few_items<ROUTED_SHAPE.n> items;
  bool are_of_experts = false;

  __device__ __forceinline__ bool next(few_item &item)
  {
    while (!items.next(params(), item)) {
      if (are_of_experts) return false;
      go_on();
    }
    return true;
  }
  __device__ __forceinline__ const grouped_params &params() const
  {
    return p.gemm[are_of_experts];
  }
  template <typename F> __device__ __forceinline__ void for_each(F f)
  {
    items.for_each(p.gemm[SHARED_EXPERT], f);
    go_on();
    items.for_each(p.gemm[EXPERTS], f);
  }

private:
  __device__ __forceinline__ void go_on()
  {
    mbarrier_wait_loop(&row.has_share, 0);
    are_of_experts = true;
    items = few_items<ROUTED_SHAPE.n>(p.gemm[EXPERTS], table.entries, row.share);
  }
};

/* As run_few wants it. */
template <typename T, int PER_LANE, bool HAS_SHARED_EXPERT> struct routed_work {
  const routed_params &p;
  const grouped_table &table;
  routed_row &row;
  grouped_entry (&only)[2]; /* the table of the shared expert's weight */
  uint8_t *free_memory;     /* where accumulators lie later */

  __device__ __forceinline__ void begin() const
  {
    if constexpr (!HAS_SHARED_EXPERT) {
      if (threadIdx.x < 32 * CONSUMER_WARPS) send();
      if (threadIdx.x < WARP) find();
    } else if (threadIdx.x == 0) {
      only[0] = {0, 0, 0, 1};
      only[1] = {1, 1, 0, 0};
      mbarrier_init(&row.has_share, 1);
    }
  }
  __device__ __forceinline__ auto items() const
  {
    if constexpr (!HAS_SHARED_EXPERT)
      return few_share_items<ROUTED_SHAPE.n>{p.gemm[EXPERTS], {p.gemm[EXPERTS], table.entries, row.share}};
    else
      return items_of_both();
  }
  __device__ __forceinline__ auto weight_items() const
  {
    return items();
  }
  __device__ __forceinline__ void before_items() const
  {
    if constexpr (!HAS_SHARED_EXPERT) return;
    send();
    sync_consumers(); /* accumulators come where its sums lie */
  }
  __device__ __forceinline__ void rest() const
  {
    wait_for_previous_kernel();
    if constexpr (HAS_SHARED_EXPERT) {
      find();
      if (threadIdx.x % WARP == 0) mbarrier_arrive(&row.has_share);
    }
    if (blockIdx.x == 0)
      write_route<PER_LANE>(p, row);
    else if (HAS_SHARED_EXPERT && threadIdx.x % WARP == 0)
      let_next_kernel_start();
    release_mailbox(*p.among_blocks);
  }

private:
  __device__ __forceinline__ routed_items items_of_both() const
  {
    const int block = static_cast<int>(blockIdx.x) - p.first_shared_expert;
    const int begin = block * p.shared_expert.each + min(block, p.shared_expert.longer);
    const few_share shared_expert = {
        begin, block < 0 ? begin : begin + p.shared_expert.each + (block < p.shared_expert.longer), 0, 0};
    return {p, table, row, few_items<ROUTED_SHAPE.n>(p.gemm[SHARED_EXPERT], only, shared_expert)};
  }
  /* By the consumers. */
  __device__ __forceinline__ void send() const
  {
    send_logits<T, false>(
        p.router, [&]() -> logits_words & { return p.among_blocks->words; },
        *reinterpret_cast<typename router_tile<T, false>::sums *>(free_memory));
  }

  /* By one warp, once the previous kernel has ended: the block's share. */
  __device__ __forceinline__ void find() const
  {
    const int expert = choose_expert<PER_LANE>(p, reinterpret_cast<uint32_t *>(table.ends), row.experts);
    row.experts[threadIdx.x % WARP] = expert;
    find_share(p.gemm[EXPERTS], table, build_row_table(p.route.spec, table, expert), row.share);
    if (!HAS_SHARED_EXPERT && blockIdx.x > 0 && threadIdx.x % WARP == 0) let_next_kernel_start();
    __syncwarp();
  }
};

template <yk_dtype DTYPE, typename PANEL, int PER_LANE, bool HAS_SHARED_EXPERT>
__global__ void __maxnreg__(few_registers(ROUTED_SHAPE.taken))
    routed_gemm_kernel(const __grid_constant__ routed_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ routed_row row;
  __shared__ grouped_entry only[2];
  const grouped_params &experts = p.gemm[EXPERTS];
  const grouped_table table = few_table<ROUTED_SHAPE.n, ROUTED_SHAPE.panels>(experts, shared);
  const routed_work<element<DTYPE>, PER_LANE, HAS_SHARED_EXPERT> work = {p, table, row, only,
                                                                         shared + experts.ring_bytes};
  run_few<DTYPE, PANEL, ROUTED_SHAPE.n, ROUTED_SHAPE.panels, ROUTED_SHAPE.taken>(experts, shared, work);
#endif
}

} // namespace yk_moe

#endif
