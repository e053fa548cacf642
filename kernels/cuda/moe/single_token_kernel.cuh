/* single_token_kernel.cuh - a single token through a mixture of experts in one launch, on compute capability 9.0:
 * routing, gate and up, down and the combination, with the layers of a shared expert. One thread block per
 * multiprocessor; all its warps do the same work.
 *
 *   logits    the warps of the first blocks compute 8 columns of the router each and read their weights before
 *             griddepcontrol.wait. Logits go to all blocks through a mailbox in device memory, whose words are empty
 *             until they arrive
 *   choose    one warp of every block, which reads all logits
 *   weights   each warp has a ring, filled by bulk copies: no warp waits for another warp's weights. Copies of the
 *             shared expert's gate and up are issued before the wait, those of the chosen experts' gate and up once
 *             they are chosen, those of down as stages become free: they arrive while the thread blocks exchange
 *             results
 *   gate, up  panels of all experts are divided evenly among blocks; the warps of a block divide K
 *   exchange  results go to all blocks through the mailbox, as logits do
 *   down      panels of the row: the warps of a block divide the K tiles of all slots, and their weighted sums are
 *             added
 *
 * Weights are 4-bit integers, multiplied as such, or 4-bit floats, scaled in the fragment.
 *
 * Thread blocks wait for each other, so all of them must run at once: there is at most one per multiprocessor, and a
 * GPU places all thread blocks of a grid before any of the next grid. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_KERNEL_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_KERNEL_CUH

#include "kernels/cuda/moe/single_token_mailbox.cuh"
#include "kernels/cuda/moe/single_token_products.cuh"
#include "kernels/cuda/moe/single_token_routing.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_moe {

/* Returns a value that the compiler can prove uniform over the warp: behind a branch on any other value the compiler
 * puts slow sequences around all warp-wide operations. */
__device__ __forceinline__ int same_in_warp(int x)
{
  return __shfl_sync(ALL_LANES, x, 0);
}

/* PER_LANE: maximum number of experts of a lane. One kernel for all numbers of experts would be half as long again, and
 * slower after the other kernels of a step, which share the instruction cache. */
template <yk_dtype DTYPE, typename PANEL, int PER_LANE>
__global__ void __maxnreg__(SINGLE_TOKEN_REGISTERS) single_token_kernel(const __grid_constant__ single_token_params p)
{
#ifdef YK_HAVE_SM90A
  using T = element<DTYPE>;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ single_token_memory row;
  const int warp = same_in_warp(threadIdx.x / WARP), lane = threadIdx.x % WARP;
  const bool routes = warp == SINGLE_TOKEN_WARPS - 1;
  const int down_tiles = p.max_slots * p.down.k_tiles + p.down.shared_k_tiles;
  const uint32_t memory = shared_address(shared);
  const single_token_x x = {memory, reinterpret_cast<float *>(shared + row_x_bytes(p.gate_up.k_tiles))};
  const int down_x_at = (single_token_x_bytes(p.gate_up.k_tiles) + 1023) & ~1023;
  const single_token_x down_x = {memory + down_x_at,
                                 reinterpret_cast<float *>(shared + down_x_at + row_x_bytes(down_tiles))};
  const int sums_at = down_x_at + single_token_x_bytes(down_tiles);
  float *const sums = reinterpret_cast<float *>(shared + sums_at);
  const int rings_at = sums_at + SINGLE_TOKEN_WARPS * p.max_panels * PANEL_COLUMNS * 4;
  single_token_work w(p, warp, p.max_slots);
  single_token_ring<PANEL> ring = {p, w, row.matrix,
                                   memory + rings_at + warp * p.stages * single_token_ring<PANEL>::STAGE_BYTES,
                                   shared_address(row.full[warp])};
  if (lane < p.stages) mbarrier_init(ring.full + lane * 8, 1);
  fence_mbarrier_init();
  __syncwarp();
  ring.describe();
  ring.begin(min(w.n_shared_units(), p.stages));
  if (warp < router_tile<T, true>::WARPS)
    send_logits<T, true>(
        p.router, [&]() -> logits_words & { return p.mailbox->logits[half_of_block(*p.mailbox)]; },
        *reinterpret_cast<typename router_tile<T, true>::sums *>(&row.logits));
  else
    wait_for_previous_kernel();
  const int half = half_of_block(*p.mailbox);
  load_single_token_x<T, PANEL>(p, w, x);
  if (routes) route_single_token<PER_LANE>(p, p.mailbox->logits[half], row);
  __syncthreads();
  const int n_slots = same_in_warp(row.n_slots);
  if (n_slots != p.max_slots) {
    w = single_token_work(p, warp, n_slots);
    ring.describe();
  }
  ring.begin(min(w.n_gate_up, p.stages));
  let_next_kernel_start();
  const bool writes = blockIdx.x == gridDim.x - 1;
  if (routes) weigh_slots(p, row, writes);
  if (writes) write_starts(p, row);
  if (warp == 0) prepare_next_half(*p.mailbox, half);
  uint32_t *const inner = p.mailbox->inner[half];
  const single_token_column own_column(p, w);
  const sum_terms terms = terms_of_column<PANEL::ENCODING, DTYPE>(p, own_column, row.matrix);
  prefetch_down<PANEL::ENCODING>(p, w, row.matrix);
  multiply_gate_up<DTYPE>(p, w, ring, x, sums);
  __syncthreads();
  send_inner<DTYPE>(p, w, own_column, terms, sums, inner);
  for (int i = 0; i < p.stages; i++) ring.issue_next();
  gather_inner<T, PANEL>(p, w, inner, down_x);
#pragma unroll 1
  for (int panel = 0; panel < w.n_down; panel++) {
    const float2 bias = biases_of_panel<DTYPE>(p, w, row.matrix, row.weight, w.down_panel + panel);
    float2 sum = multiply_down<DTYPE>(p, w, ring, down_x, row.matrix, row.weight, w.down_panel + panel);
    sum.x += bias.x;
    sum.y += bias.y;
    auto &all = row.down_sums[panel % 2];
    if (lane % 4 == 0) {
      all[warp][lane / 4] = sum.x;
      all[warp][lane / 4 + 8] = sum.y;
    }
    __syncthreads();
    const int column = (w.down_panel + panel) * PANEL_COLUMNS + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= PANEL_COLUMNS || column >= p.hidden) continue;
    float of_column = 0.0f;
#pragma unroll
    for (int i = 0; i < SINGLE_TOKEN_WARPS; i++) of_column += all[i][threadIdx.x];
    if (p.sum.shared && !p.down.shared) of_column += load_float<DTYPE>(p.sum.shared, column) * row.weight[YK_MAX_TOP_K];
    static_cast<uint16_t *>(p.sum.y)[column] = static_cast<uint16_t>(round_pair<T>(of_column, 0.0f));
  }
#endif
}

} // namespace yk_moe

#endif
