/* single_token_products.cuh - the products of a warp: its stages times the inputs of their K tiles; the results of gate
 * and up go to all thread blocks. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PRODUCTS_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PRODUCTS_CUH

#include "kernels/cuda/moe/single_token_inputs.cuh"
#include "kernels/cuda/moe/single_token_ring.cuh"

namespace yk_moe {

/* The factor of sums of products, of rows 0 to 7 of a panel and of the upper rows. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE>
constexpr float SUM_FACTOR = scales_exactly(ENCODING) ? 1.0f : integer_weights<DTYPE>::FACTOR;
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE>
constexpr float UPPER_SUM_FACTOR = scales_exactly(ENCODING) ? 1.0f : integer_weights<DTYPE>::UPPER_FACTOR;

/* multiply_stage for weights that are exact when scaled; without their row scales. */
template <yk_dtype DTYPE, typename PANEL, bool ONE_TILE>
__device__ __forceinline__ void multiply_scaled_stage(uint32_t panels, const single_token_x &x, int tile,
                                                      float (&acc)[SINGLE_TOKEN_GROUP][2])
{
  constexpr int N_X = ONE_TILE ? 1 : SINGLE_TOKEN_GROUP;
  const int lane = threadIdx.x % WARP;
  uint4 words[SINGLE_TOKEN_GROUP];
  uint2 scale_words[SINGLE_TOKEN_GROUP];
  dequant<PANEL::ENCODING, DTYPE> scales[SINGLE_TOKEN_GROUP];
  uint32_t b[N_X][4];
  float sums[SINGLE_TOKEN_GROUP][4] = {};
#pragma unroll
  for (int step = 0; step < K_STEPS; step++) {
#pragma unroll
    for (int i = 0; i < N_X; i++) {
      const uint32_t at = x.x + row_x_at(tile + i) + lane / 8 * 16;
      if (step % 2 == 0) ldmatrix_x4(b[i], (step % 4 ? at ^ 64 : at) + step / 4 * 1024);
    }
#pragma unroll
    for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
      const uint32_t panel = panels + c * PANEL::BYTES;
      const int k = step % 2 * 2, i = c % N_X;
      uint32_t a[4];
      if (step % PANEL::LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panel, step, lane));
      if (step % PANEL::SCALE_STEPS == 0) scale_words[c] = load_shared8(scales_at<PANEL>(panel, step, lane));
      if (step % PANEL::GROUP_STEPS == 0) load_scales<PANEL>(scales[c], scale_words[c], step);
      scales[c].expand(words[c], step % PANEL::LOAD_STEPS, a);
      mma<DTYPE>(sums[c], a, b[i][k], b[i][k + 1]);
    }
  }
#pragma unroll
  for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
    acc[c][0] += sums[c][0];
    acc[c][1] += sums[c][2];
  }
}

/* multiply_stage for weights that are multiplied as integers (gemm/encoding_int4_integers.cuh). */
template <yk_dtype DTYPE, typename PANEL, bool ONE_TILE>
__device__ __forceinline__ void multiply_integer_stage(uint32_t panels, const single_token_x &x, int tile,
                                                       float (&acc)[SINGLE_TOKEN_GROUP][2])
{
  constexpr int GROUP_STEPS = PANEL::GROUP_STEPS, LOAD_STEPS = PANEL::LOAD_STEPS,
                N_X = ONE_TILE ? 1 : SINGLE_TOKEN_GROUP;
  using integers = integer_weights<DTYPE>;
  const int lane = threadIdx.x % WARP;
  uint4 words[SINGLE_TOKEN_GROUP];
  uint32_t b[N_X][4], at[N_X];
  float part[SINGLE_TOKEN_GROUP][4];
#pragma unroll
  for (int i = 0; i < N_X; i++) at[i] = x.x + row_x_at(tile + i) + lane / 8 * 16;
#pragma unroll
  for (int step = 0; step < 8; step++) {
#pragma unroll
    for (int c = 0; c < SINGLE_TOKEN_GROUP; c++)
      if (step % LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panels + c * PANEL::BYTES, step, lane));
#pragma unroll
    for (int i = 0; i < N_X; i++)
      if (step % 2 == 0) ldmatrix_x4(b[i], (step % 4 ? at[i] ^ 64 : at[i]) + step / 4 * 1024);
#pragma unroll
    for (int i = 0; i < 4 * SINGLE_TOKEN_GROUP; i++)
      if (step % GROUP_STEPS == 0) part[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
      const int k = step % 2 * 2, i = c % N_X;
      uint32_t a[4];
      integers::expand(word_at(words[c], step % 4), a);
      mma<DTYPE>(part[c], a, b[i][k], b[i][k + 1]);
      if ((step + 1) % GROUP_STEPS) continue;
      const float sum = x.sums[(tile + i) * 4 + step / GROUP_STEPS];
      integers w;
      w.load(load_shared8(scales_at<PANEL>(panels + c * PANEL::BYTES, step, lane)));
      acc[c][0] = fmaf(w.scale[0], fmaf(w.offset[0], sum * (1.0f / integers::FACTOR), part[c][0]), acc[c][0]);
      acc[c][1] = fmaf(w.scale[1], fmaf(w.offset[1], sum * (1.0f / integers::UPPER_FACTOR), part[c][2]), acc[c][1]);
    }
  }
}

/* acc[c] += 128 inputs of panel c of a stage times the inputs of K tile tile + c of the row; with ONE_TILE, of K tile
 * `tile` for all panels. The acc of panels missing from the stage is undefined. */
template <yk_dtype DTYPE, typename PANEL, bool ONE_TILE>
__device__ __forceinline__ void multiply_stage(uint32_t panels, const single_token_x &x, int tile,
                                               float (&acc)[SINGLE_TOKEN_GROUP][2])
{
  if constexpr (scales_exactly(PANEL::ENCODING))
    multiply_scaled_stage<DTYPE, PANEL, ONE_TILE>(panels, x, tile, acc);
  else
    multiply_integer_stage<DTYPE, PANEL, ONE_TILE>(panels, x, tile, acc);
}

template <yk_dtype DTYPE, typename PANEL>
__device__ __forceinline__ void multiply_gate_up(const single_token_params &p, const single_token_work &w,
                                                 single_token_ring<PANEL> &ring, const single_token_x &x, float *sums)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_panels = w.n_shared + w.n_expert;
#pragma unroll 1
  for (int panel = 0, end; panel < n_panels; panel = end) {
    float acc[SINGLE_TOKEN_GROUP][2] = {};
#pragma unroll 1
    for (int tile = w.k_tile; tile < w.k_tile + w.n_k_tiles; tile++) {
      multiply_stage<DTYPE, PANEL, true>(ring.wait(), x, tile, acc);
      ring.next();
    }
    end = min(panel + SINGLE_TOKEN_GROUP, panel < w.n_shared ? w.n_shared : n_panels);
#pragma unroll
    for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
      if (lane % 4 != 0 || panel + c >= end) continue;
      float *to = sums + (warp * p.max_panels + panel + c) * PANEL_COLUMNS + lane / 4;
      to[0] = acc[c][0] * SUM_FACTOR<PANEL::ENCODING, DTYPE>;
      to[8] = acc[c][1] * UPPER_SUM_FACTOR<PANEL::ENCODING, DTYPE>;
    }
  }
}

/* Scale and bias of a thread's sum of gate or up, before the activation: sum * scale + bias. */
struct sum_terms {
  float scale, bias;
};

/* The terms of the thread's column, which are loaded long before they are needed. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE>
__device__ __forceinline__ sum_terms terms_of_column(const single_token_params &p, const single_token_column &own,
                                                     const int *matrices)
{
  sum_terms terms = {1.0f, 0.0f};
  if (!own.is_valid) return terms;
  if constexpr (has_row_scales(ENCODING))
    terms.scale = own.is_shared ? __ldg(p.gate_up.row_scales_of_shared() + own.packed_row)
                                : __ldg(p.gate_up.row_scales_of(matrices[own.slot]) + own.packed_row);
  if (p.gate_up.bias && !own.is_shared) terms.bias = p.gate_up.bias_of<DTYPE>(matrices[own.slot], own.of_weights);
  return terms;
}

/* Called by all threads: adds the warps' sums of the block's gate and up panels, applies the activation, and sends the
 * results to all blocks. sums: [warps, panels, 16]. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void send_inner(const single_token_params &p, const single_token_work &w,
                                           const single_token_column &own, const sum_terms &terms, const float *sums,
                                           uint32_t *inner)
{
  const int row = threadIdx.x % PANEL_COLUMNS;
  if (static_cast<int>(threadIdx.x / WARP) * WARP >= (w.n_shared + w.n_expert) * PANEL_COLUMNS) return;
  float v = 0.0f;
#pragma unroll
  for (int i = 0; i < SINGLE_TOKEN_WARPS; i++) v += sums[i * p.max_panels * PANEL_COLUMNS + threadIdx.x];
  v = fmaf(v, terms.scale, terms.bias);
  const bool is_gated = p.activation.is_gated;
  float up = __shfl_down_sync(ALL_LANES, v, 8);
  if (!is_gated) up = 1.0f;
  const uint32_t result = round_pair<element<DTYPE>>(yk_cuda::gated(p.activation, v, up), 0.0f) & 0xFFFFu;
  const uint32_t word = result | __shfl_down_sync(ALL_LANES, result, 1) << 16;
  if (own.is_valid && (row < 8 || !is_gated) && row % 2 == 0)
    store_relaxed_gpu(inner + (own.slot * p.ffn + own.column) / 2, word == EMPTY_WORD ? OTHER_NANS : word);
}

/* Prefetches into the L2 cache what multiply_down and biases_of_panel read besides panels. A warp does so for a slot,
 * or for the shared expert. */
template <yk_gemm_encoding ENCODING>
__device__ __forceinline__ void prefetch_down(const single_token_params &p, const single_token_work &w,
                                              const int *matrices)
{
  const int slot = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  if (slot > w.n_slots || (slot == w.n_slots && !p.down.shared)) return;
  for (int panel = w.down_panel + lane; panel < w.down_panel + w.n_down; panel += WARP) {
    const int row = panel * PANEL_COLUMNS;
    if constexpr (has_row_scales(ENCODING))
      prefetch_l2((slot < w.n_slots ? p.down.row_scales_of(matrices[slot]) : p.down.row_scales_of_shared()) + row);
    if (p.down.bias && slot < w.n_slots && row < p.hidden)
      prefetch_l2(p.down.bias + matrices[slot] * p.down.matrix_bytes + row * 2);
  }
}

/* The weighted biases of a panel that the warp adds, those of every SINGLE_TOKEN_WARPSth slot: columns lane / 4 and
 * lane / 4 + 8. */
template <yk_dtype DTYPE>
__device__ __forceinline__ float2 biases_of_panel(const single_token_params &p, const single_token_work &w,
                                                  const int *matrices, const float *weights, int panel)
{
  const int column = panel * PANEL_COLUMNS + threadIdx.x % WARP / 4;
  float2 sum = {0.0f, 0.0f};
  if (!p.down.bias) return sum;
  for (int slot = threadIdx.x / WARP; slot < w.n_slots; slot += SINGLE_TOKEN_WARPS) {
    if (column < p.hidden) sum.x = fmaf(weights[slot], p.down.bias_of<DTYPE>(matrices[slot], column), sum.x);
    if (column + 8 < p.hidden) sum.y = fmaf(weights[slot], p.down.bias_of<DTYPE>(matrices[slot], column + 8), sum.y);
  }
  return sum;
}

/* Returns the warp's weighted sums of a panel: columns lane / 4 and lane / 4 + 8. panel: of the row. */
template <yk_dtype DTYPE, typename PANEL>
__device__ __forceinline__ float2 multiply_down(const single_token_params &p, const single_token_work &w,
                                                single_token_ring<PANEL> &ring, const single_token_x &x,
                                                const int *matrices, const float *weights, int panel)
{
  float2 sum = {0.0f, 0.0f};
#pragma unroll 1
  for (int i = 0; i < w.n_down_tiles; i += SINGLE_TOKEN_GROUP) {
    float acc[SINGLE_TOKEN_GROUP][2] = {};
    float2 row_scales[SINGLE_TOKEN_GROUP];
    if constexpr (has_row_scales(PANEL::ENCODING)) { /* loaded while the stage arrives */
#pragma unroll
      for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
        const int slot = p.by_down_tiles.quotient(w.down_tile + min(i + c, w.n_down_tiles - 1));
        const float *of_slot = slot < w.n_slots ? p.down.row_scales_of(matrices[slot]) : p.down.row_scales_of_shared();
        row_scales[c] = load_row_scales(of_slot, panel, threadIdx.x % WARP);
      }
    }
    multiply_stage<DTYPE, PANEL, false>(ring.wait(), x, w.down_tile + i, acc);
    ring.next();
#pragma unroll
    for (int c = 0; c < SINGLE_TOKEN_GROUP; c++) {
      const int slot = p.by_down_tiles.quotient(w.down_tile + i + c);
      if (i + c >= w.n_down_tiles) continue;
      const float weight = weights[slot < w.n_slots ? slot : YK_MAX_TOP_K];
      if constexpr (has_row_scales(PANEL::ENCODING)) acc[c][0] *= row_scales[c].x, acc[c][1] *= row_scales[c].y;
      sum.x = fmaf(weight, acc[c][0], sum.x);
      sum.y = fmaf(weight, acc[c][1], sum.y);
    }
  }
  return {sum.x * SUM_FACTOR<PANEL::ENCODING, DTYPE>, sum.y * UPPER_SUM_FACTOR<PANEL::ENCODING, DTYPE>};
}

} // namespace yk_moe

#endif
