/* single_row_kernel.cuh - grouped WNA16 GEMM of one row's experts together with their combination, on 9.0: y = sum over
 * the row's slots of weight * (x[slot] W of its matrix), added in float32 and rounded once. A shared expert's weight,
 * with its own x, counts as one more slot, after the others.
 *
 *   block   a range of panels, one after the other (usually one). Its warps divide the K tiles of all slots; their sums
 *           are added at the end of a panel
 *   warp    its own ring of weights, filled by bulk copies: no warp waits for another before the end. Copies are issued
 *           before griddepcontrol.wait, if the starts allow it
 *   x       of the warp's K tiles, in shared memory, each 64 inputs in 128 bytes, as the main loop of
 *           dense/small_batch_kernel.cuh requires. All columns of the B operand are the same row */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_SINGLE_ROW_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_SINGLE_ROW_KERNEL_CUH

#include "kernels/cuda/gemm/dense/small_batch_kernel.cuh"
#include "kernels/cuda/gemm/grouped/params.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/experts.h"

namespace yk_gemm {

constexpr int ROW_WARPS = 16, ROW_THREADS = 32 * ROW_WARPS;
constexpr int ROW_STAGES = 8;     /* maximum of a warp's ring */
constexpr int ROW_REGISTERS = 56; /* registers that a block of the preceding grouped GEMM leaves (occupancy.cuh) */
static_assert(ROW_REGISTERS * ROW_THREADS + HALF_REGISTERS * HALF_THREADS[1] <= SM_REGISTERS, "both fit");

struct grouped_row_params {
  grouped_params gemm;
  yk_combine_args sum;
  int stages; /* stages of a warp's ring */
};

/* Bytes of x: eight K tiles in 2048, as the main loop for 8 rows takes the two halves of a K tile 1024 bytes apart. */
__host__ __device__ constexpr int row_x_bytes(int k_tiles)
{
  return (k_tiles + 7) / 8 * 2048;
}

__device__ __forceinline__ uint32_t row_x_at(int k_tile)
{
  return k_tile / 8 * 2048 + k_tile % 8 * 128;
}

/* The row's slots. In shared memory. */
struct row_slots {
  int matrix[YK_MAX_TOP_K];
  float weight[YK_MAX_TOP_K];
  int n;
};

/* Called by two warps, once the starts may be read. A matrix has at most one slot. */
__device__ __forceinline__ void find_row_slots(const grouped_row_params &p, row_slots &slots)
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_matrices = p.gemm.call.n_matrices;
  if (warp == 0) {
#pragma unroll 4
    for (int m = lane; m < n_matrices; m += 32) {
      const int slot = __ldcg(p.gemm.call.starts + m), next = __ldcg(p.gemm.call.starts + m + 1);
      if (next > slot) slots.matrix[slot] = m;
      if (m == n_matrices - 1) slots.n = next;
    }
  } else if (warp == 1 && lane < p.sum.top_k) {
    const int slot = __ldcg(p.sum.slot_of_choice + lane);
    if (slot >= 0) slots.weight[slot] = __ldcg(p.sum.weights + lane);
  }
}

/* The slot of a K tile, counted over slots; n: the shared expert's weight, if the kernel has one. */
template <bool HAS_SHARED_EXPERT>
__device__ __forceinline__ int slot_of_tile(const grouped_row_params &p, const row_slots &slots, int tile)
{
  const int slot = tile / p.gemm.k_tiles;
  return HAS_SHARED_EXPERT ? min(slot, slots.n) : slot;
}

template <bool HAS_SHARED_EXPERT> __device__ __forceinline__ bool is_shared_expert(const row_slots &slots, int slot)
{
  return HAS_SHARED_EXPERT && slot == slots.n;
}

/* For encodings with row scales. Those of the shared expert's weight follow its own panels. */
template <bool HAS_SHARED_EXPERT>
__device__ __forceinline__ const float *row_scales_of_slot(const grouped_row_params &p, const row_slots &slots,
                                                           int slot)
{
  if (!is_shared_expert<HAS_SHARED_EXPERT>(slots, slot)) return p.gemm.row_scales_of(slots.matrix[slot]);
  const uint8_t *weights = static_cast<const uint8_t *>(p.gemm.call.shared_expert.weights);
  return reinterpret_cast<const float *>(weights + p.gemm.shared_expert_row_scales_at);
}

/* The work of a warp: K tiles first .. first + n_tiles - 1, counted over slots, of each of the block's panels. */
struct row_work {
  int panel, panel_end, first, n_tiles;
};

__device__ __forceinline__ row_work work_of_warp(const grouped_row_params &p, const row_slots &slots)
{
  const int warp = threadIdx.x / 32, tiles = slots.n * p.gemm.k_tiles + p.gemm.shared_expert_k_tiles,
            first = warp * tiles / ROW_WARPS;
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return {block * p.gemm.n_panels / blocks, (block + 1) * p.gemm.n_panels / blocks, first,
          (warp + 1) * tiles / ROW_WARPS - first};
}

/* The stages of a warp in the order of its work: the K tiles of the first panel, then those of the next. */
template <typename PANEL, bool HAS_SHARED_EXPERT> struct row_ring {
  const grouped_row_params &p;
  const row_slots &slots;
  uint32_t memory, full; /* addresses of the warp's stages and barriers */

  /* Called by one lane: issues the copy of a K tile of a panel. */
  __device__ __forceinline__ void issue_copy(int stage, int tile, int panel) const
  {
    const int slot = slot_of_tile<HAS_SHARED_EXPERT>(p, slots, tile), k_tile = tile - slot * p.gemm.k_tiles;
    const int64_t at = static_cast<int64_t>(k_tile) * p.gemm.n_panels + panel;
    const uint8_t *weights = is_shared_expert<HAS_SHARED_EXPERT>(slots, slot)
                                 ? static_cast<const uint8_t *>(p.gemm.call.shared_expert.weights)
                                 : p.gemm.weights_of(slots.matrix[slot]);
    mbarrier_arrive_expect(full + stage * 8, PANEL::BYTES);
    bulk_copy(memory + stage * PANEL::BYTES, weights + at * PANEL::BYTES, PANEL::BYTES, full + stage * 8);
  }
};

/* x of the warp's K tiles, zeros past k. */
template <bool HAS_SHARED_EXPERT>
__device__ __forceinline__ void load_row_x(const grouped_row_params &p, const row_slots &slots, uint32_t x,
                                           const row_work &w)
{
  for (int i = threadIdx.x % 32; i < w.n_tiles * 16; i += 32) {
    const int tile = w.first + i / 16, slot = slot_of_tile<HAS_SHARED_EXPERT>(p, slots, tile);
    const int k = (tile - slot * p.gemm.k_tiles) * TILE_K + i % 16 * 8;
    const bool shared_expert = is_shared_expert<HAS_SHARED_EXPERT>(slots, slot);
    const uint16_t *from = static_cast<const uint16_t *>(shared_expert ? p.gemm.call.shared_expert.x : p.gemm.call.x) +
                           k + (shared_expert ? 0 : static_cast<int64_t>(slot) * p.gemm.k);
    const bool is_valid = k < (shared_expert ? static_cast<int>(p.gemm.call.shared_expert.k) : p.gemm.k);
    const uint4 v = is_valid ? __ldcg(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
    store_shared16(x + row_x_at(tile) + i % 16 / 8 * 1024 + i % 8 * 16, v);
  }
}

/* Called by all lanes, before the wait for the preceding kernel: prefetches the row scales that the warp reads. */
template <typename PANEL, bool HAS_SHARED_EXPERT>
__device__ __forceinline__ void prefetch_row_scales_of_slots(const grouped_row_params &p, const row_slots &slots,
                                                             const row_work &w)
{
  if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < w.n_tiles; i += 32) {
      const int slot = slot_of_tile<HAS_SHARED_EXPERT>(p, slots, w.first + i);
      const float *row_scales = row_scales_of_slot<HAS_SHARED_EXPERT>(p, slots, slot);
#pragma unroll 1
      for (int panel = w.panel; panel < w.panel_end; panel++) prefetch_l2(row_scales + panel * PANEL_COLUMNS);
    }
  }
}

/* The weight of the row's shared expert. */
__device__ __forceinline__ float factor_of_shared(const yk_combine_args &sum)
{
  return sum.shared_gate ? 1.0f / (1.0f + expf(-*sum.shared_gate)) : 1.0f;
}

/* Terms of a column other than products: biases, and the shared expert's result if this kernel does not compute it. */
template <yk_dtype DTYPE, bool HAS_SHARED_EXPERT>
__device__ __forceinline__ float add_to_column(const grouped_row_params &p, const row_slots &slots, int column,
                                               float sum)
{
  for (int slot = 0; p.gemm.call.bias && slot < slots.n; slot++)
    sum += slots.weight[slot] * load_float<DTYPE>(p.gemm.bias_of(slots.matrix[slot]), column);
  if (!p.sum.shared || HAS_SHARED_EXPERT) return sum;
  return sum + load_float<DTYPE>(p.sum.shared, column) * factor_of_shared(p.sum);
}

template <yk_dtype DTYPE, typename PANEL, bool HAS_SHARED_EXPERT>
__global__ void __maxnreg__(ROW_REGISTERS) grouped_row_kernel(const __grid_constant__ grouped_row_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[ROW_WARPS][ROW_STAGES];
  __shared__ row_slots slots;
  __shared__ float sums[2][ROW_WARPS][PANEL_COLUMNS]; /* sums of two panels, used alternately */
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_stages = p.stages;
  const row_ring<PANEL, HAS_SHARED_EXPERT> ring = {p, slots, shared_address(shared) + warp * n_stages * PANEL::BYTES,
                                                   shared_address(barriers[warp])};
  const uint32_t x = shared_address(shared) + (ROW_WARPS * n_stages * PANEL::BYTES + 1023) / 1024 * 1024;
  if (lane < n_stages) mbarrier_init(ring.full + lane * 8, 1);
  fence_mbarrier_init();
  if (!p.gemm.call.starts_are_settled) wait_for_previous_kernel();
  find_row_slots(p, slots);
  __syncthreads();
  const row_work w = work_of_warp(p, slots);
  int next_tile_of_warp = 0, next_panel = w.panel; /* the next to be copied */
  const auto issue = [&](int stage) {
    if (w.n_tiles == 0 || next_panel >= w.panel_end) return;
    if (lane == 0) ring.issue_copy(stage, w.first + next_tile_of_warp, next_panel);
    if (++next_tile_of_warp == w.n_tiles) next_tile_of_warp = 0, next_panel++;
  };
  for (int stage = 0; stage < n_stages; stage++) issue(stage);
  prefetch_row_scales_of_slots<PANEL, HAS_SHARED_EXPERT>(p, slots, w);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const float shared_expert_weight = HAS_SHARED_EXPERT ? factor_of_shared(p.sum) : 0.0f;
  load_row_x<HAS_SHARED_EXPERT>(p, slots, x, w);
  __syncwarp();
  yk_cuda::ring_position at;
  for (int panel = w.panel, buffer = 0; panel < w.panel_end; panel++, buffer ^= 1) {
    float sum[2] = {}; /* columns lane / 4 and lane / 4 + 8 */
    for (int tile = w.first; tile < w.first + w.n_tiles;) {
      const int slot = slot_of_tile<HAS_SHARED_EXPERT>(p, slots, tile), last = w.first + w.n_tiles;
      const bool shared_expert = is_shared_expert<HAS_SHARED_EXPERT>(slots, slot);
      const int end = shared_expert ? last : min((slot + 1) * p.gemm.k_tiles, last);
      float acc[1][1][4] = {};
#pragma unroll 1
      for (; tile < end; tile++) {
        mbarrier_wait_asm_loop(ring.full + at.stage * 8, at.phase);
        multiply_k_tile<DTYPE, PANEL, 8, 1>(ring.memory + at.stage * PANEL::BYTES, x + row_x_at(tile) + lane / 8 * 16,
                                            lane, acc);
        __syncwarp();
        issue(at.stage);
        at.advance(n_stages);
      }
      if constexpr (has_row_scales(PANEL::ENCODING))
        scale_rows(load_row_scales(row_scales_of_slot<HAS_SHARED_EXPERT>(p, slots, slot), panel, lane), acc[0]);
      const float weight = shared_expert ? shared_expert_weight : slots.weight[slot];
      sum[0] = fmaf(weight, acc[0][0][0], sum[0]);
      sum[1] = fmaf(weight, acc[0][0][2], sum[1]);
    }
    if (lane % 4 == 0) {
      sums[buffer][warp][lane / 4] = sum[0];
      sums[buffer][warp][lane / 4 + 8] = sum[1];
    }
    __syncthreads();
    const int column = panel * PANEL_COLUMNS + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= PANEL_COLUMNS || column >= p.gemm.n) continue;
    float of_column = 0.0f;
#pragma unroll
    for (int i = 0; i < ROW_WARPS; i++) of_column += sums[buffer][i][threadIdx.x];
    of_column = add_to_column<DTYPE, HAS_SHARED_EXPERT>(p, slots, column, of_column);
    static_cast<uint16_t *>(p.sum.y)[column] = static_cast<uint16_t>(round_pair<element<DTYPE>>(of_column, 0.0f));
  }
#endif
}

} // namespace yk_gemm

#endif
