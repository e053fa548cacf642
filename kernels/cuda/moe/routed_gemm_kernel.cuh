/* routed_gemm_kernel.cuh - the routing of a single token and the grouped GEMM of the chosen experts in one kernel: the
 * kernel for few rows (gemm/grouped/few_rows_run.cuh), whose thread blocks route first. Meanwhile they multiply the row
 * with the weight of a shared expert, which needs no routing.
 *
 *   logits    the consumers of the first blocks compute 8 columns of the router each and read the weights before
 *             griddepcontrol.wait
 *   shared    the other blocks share the panels of the shared expert's weight: their first item
 *   gather    the free producer warp of every block reads all logits from a mailbox whose words are empty until they
 *             arrive; the last block that has read them all empties the mailbox
 *   choose    the same warp; an expert has at most one slot, so the row tiles follow from the choices alone. A barrier
 *             signals the other warps that the block's share is determined
 *   outputs   the same warp of block 0 writes the outputs of a route. Only then it lets the next kernel start, so that
 *             a kernel may read them before its own wait
 *
 * Without a shared expert's weight there is no work to overlap: the first warp chooses before the warps divide their
 * registers, and the thread block synchronises.
 *
 * Blocks wait for the blocks that compute logits: the first blocks of the grid, which run before any other block and
 * wait only for the preceding kernels. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTED_GEMM_KERNEL_CUH
#define YK_KERNELS_CUDA_MOE_ROUTED_GEMM_KERNEL_CUH

#include "kernels/cuda/gemm/grouped/few_rows_share.cuh"
#include "kernels/cuda/gemm/grouped/tiles.h"
#include "kernels/cuda/moe/logits_mailbox.cuh"
#include "kernels/cuda/moe/route_assign.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_moe {

using namespace yk_gemm;

constexpr int ROUTED_TILE = 0; /* index in GROUPED_FEW_SHAPES */
constexpr grouped_few_shape ROUTED_SHAPE = GROUPED_FEW_SHAPES[ROUTED_TILE];

/* The products of a block, in order. */
enum { SHARED_EXPERT, EXPERTS, N_PRODUCTS };

struct routed_params {
  grouped_params gemm[N_PRODUCTS]; /* equal but for weights and results; SHARED_EXPERT has one matrix, or no panels */
  route_params route;
  row_router router;
  logits_mailbox *among_blocks;
  int first_shared_expert;   /* the first block with panels of SHARED_EXPERT */
  panel_split shared_expert; /* among the blocks from first_shared_expert on */
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

/* Called by one warp: returns the expert of choice number `lane`, or -1 if the row is padding. keys: memory for one key
 * per expert, used with groups; chosen: memory for one entry per choice. */
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

/* Called by one warp: builds the row tiles of the chosen experts of this rank. Returns the table's size. */
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

/* Called by the choosing warp of block 0: writes the outputs of a route. The logits are still in the mailbox. */
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

/* The items of the shared expert's weight; then, once the row is routed, those of the block's experts. */
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

/* The work in the form that run_few takes. */
template <typename T, int PER_LANE, bool HAS_SHARED_EXPERT> struct routed_work {
  const routed_params &p;
  const grouped_table &table;
  routed_row &row;
  grouped_entry (&only)[2]; /* table of the shared expert's weight */
  uint8_t *free_memory;     /* memory in which accumulators are stored later */

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
    sync_consumers(); /* accumulators overwrite the memory of the sums */
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
  /* Called by the consumers. */
  __device__ __forceinline__ void send() const
  {
    send_logits<T, false>(
        p.router, [&]() -> logits_words & { return p.among_blocks->words; },
        *reinterpret_cast<typename router_tile<T, false>::sums *>(free_memory));
  }

  /* Called by one warp, once the previous kernel has ended: determines the block's share. */
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
