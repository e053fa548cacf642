/* router_kernel.cuh - the router's GEMM and the routing of up to 256 rows in one kernel: see route.h.
 *
 *   normalise  a cluster of eight thread blocks has 8 or 16 rows. With 8 rows and a pending norm, each block first adds
 *              and normalises one row, and sends each packet to the block that multiplies it
 *   multiply   each block multiplies an eighth of K, whose weights it reads before griddepcontrol.wait, and sends two
 *              rows' sums to each of the cluster's first blocks
 *   choose     these blocks choose, one warp per row
 *   exchange   the blocks that choose send the experts of each row, one bit per expert, to all such blocks of the grid,
 *              through device memory that is empty until the words arrive. Calls use two halves alternately: a call
 *              empties the half of the previous call. A single cluster exchanges through its shared memory
 *   assign     a warp counts the bits of all rows and computes the slots of its row
 *
 * Logits have the same bits as those of few_outputs_tile's other users: a block's part of K is the part of a warp
 * there. Blocks wait for each other, so all of them must fit at once. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTER_KERNEL_CUH
#define YK_KERNELS_CUDA_MOE_ROUTER_KERNEL_CUH

#include "kernels/cuda/moe/router_logits.cuh"
#include "kernels/cuda/moe/router_slots.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_moe::router_kernels {

/* PER_LANE: number of experts / 32. ROWS: of a cluster. IS_ONE_CLUSTER: the grid is a single cluster. */
template <typename T, int PER_LANE, int ROWS, bool IS_ONE_CLUSTER>
__global__ void __launch_bounds__(WARPS<PER_LANE> *WARP, 16 / WARPS<PER_LANE>)
    router_kernel(const __grid_constant__ router_params p)
{
#if __CUDA_ARCH__ >= 900
  constexpr int EXPERTS = PER_LANE * WARP;
  constexpr bool NORMALISES = ROWS == BLOCKS;
  extern __shared__ uint4 shared[];
  __shared__ uint64_t x_full, full,
      all_chosen; /* barriers: normalised rows; this block's sums; choices (IS_ONE_CLUSTER) */
  __shared__ int first_half;
  __shared__ alignas(16) float squares[WARPS<PER_LANE>];
  const router_memory m = memory_of<PER_LANE, ROWS>(p, shared);
  const yk_route_spec &spec = p.route.spec;
  /* The shuffle makes the value uniform over the warp for the compiler, which otherwise adds a detour to each shuffle
   * behind a branch on the value. */
  const int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / WARP, 0);
  const int column0 = warp * COLUMNS, part = static_cast<int>(blockIdx.x) % BLOCKS;
  const int cluster_row0 = static_cast<int>(blockIdx.x) / BLOCKS * ROWS, row0 = cluster_row0 + part * OWN;
  const int n_rows = part < ROWS / OWN ? min(OWN, p.route.n_tokens - row0) : 0;
  const int own = warp - (WARPS<PER_LANE> - OWN), row = row0 + own; /* computed by the last warps */
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
  cluster_sync_relaxed(); /* no block may write the shared memory of a block that does not run yet */
  wait_for_previous_kernel();
  /* no thread waits for this load yet */
  const int next_half = !IS_ONE_CLUSTER && threadIdx.x == 0 ? p.mailbox->half : 0;
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
    const choices_destination to = {p.mailbox->chosen[half][row], shared_address(m.rows_of + row * PER_LANE),
                                    shared_address(&all_chosen), (p.route.n_tokens + OWN - 1) / OWN};
    expert = choose_and_send<PER_LANE, IS_ONE_CLUSTER>(route, m.logits + own * p.n_tiles * COLUMNS, row, is_padding,
                                                       reinterpret_cast<uint32_t *>(m.of_experts + own * EXPERTS),
                                                       m.chosen + own * WARP, to);
  }
  row_counts<PER_LANE> counts;
  if constexpr (IS_ONE_CLUSTER) {
    if (!chooses) return;
    mbarrier_wait_loop(&all_chosen, 0);
    counts.template count_rows<ROWS>(m.rows_of, p.route.n_tokens, row);
  } else {
    make_empty(p.mailbox->chosen[1 - half], row0 / OWN, (p.route.n_tokens + OWN - 1) / OWN);
    gather_choices<PER_LANE>(p.mailbox->chosen[half], p.route.n_tokens, m.rows_of);
    __syncthreads();
    /* every block has read `half` before it sent */
    if (blockIdx.x == 0 && threadIdx.x == 0) p.mailbox->half = 1 - half;
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

} // namespace yk_moe::router_kernels

#endif
