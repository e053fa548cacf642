/* single_token_work.cuh - the panels and K tiles of both GEMMs that a warp multiplies. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_WORK_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_WORK_CUH

#include "kernels/cuda/moe/single_token_params.cuh"

namespace yk_moe {

/* The work of a warp in units, each of which is one stage of its ring. First the units of gate and up: up to
 * SINGLE_TOKEN_GROUP neighbouring panels of the block times one of the warp's K tiles, the shared expert's units first.
 * Then the units of down: one of the block's panels times up to SINGLE_TOKEN_GROUP neighbouring K tiles of the warp,
 * which are counted over slots, the shared expert's last. */
struct single_token_work {
  int shared_panel, n_shared; /* gate and up: the block's panels of the shared expert */
  int expert_panel, n_expert; /* and of the chosen experts, counted over slots */
  int k_tile, n_k_tiles;      /* the warp's of the row */
  int down_panel, n_down;
  int down_tile, n_down_tiles;
  int n_slots;
  int n_gate_up, n_units; /* units of gate and up; of both */

  /* slots: of the row. */
  __device__ __forceinline__ single_token_work(const single_token_params &p, int warp, int slots)
  {
    const auto groups = [](int n) { return (n + SINGLE_TOKEN_GROUP - 1) / SINGLE_TOKEN_GROUP; };
    const int block = blockIdx.x;
    const auto of_block = [&](int n) { return p.by_blocks.quotient(block * n); };
    const auto end_of_block = [&](int n) { return p.by_blocks.quotient((block + 1) * n); };
    const int panels = slots * p.gate_up.n_panels, tiles = slots * p.down.k_tiles + p.down.shared_k_tiles;
    n_slots = slots;
    shared_panel = of_block(p.gate_up.shared_panels);
    n_shared = end_of_block(p.gate_up.shared_panels) - shared_panel;
    expert_panel = of_block(panels);
    n_expert = end_of_block(panels) - expert_panel;
    k_tile = warp * p.gate_up.k_tiles / SINGLE_TOKEN_WARPS;
    n_k_tiles = (warp + 1) * p.gate_up.k_tiles / SINGLE_TOKEN_WARPS - k_tile;
    down_panel = of_block(p.down.n_panels);
    n_down = end_of_block(p.down.n_panels) - down_panel;
    down_tile = warp * tiles / SINGLE_TOKEN_WARPS;
    n_down_tiles = (warp + 1) * tiles / SINGLE_TOKEN_WARPS - down_tile;
    n_gate_up = (groups(n_shared) + groups(n_expert)) * n_k_tiles;
    n_units = n_gate_up + n_down * groups(n_down_tiles);
  }

  __device__ __forceinline__ int n_shared_units() const
  {
    return (n_shared + SINGLE_TOKEN_GROUP - 1) / SINGLE_TOKEN_GROUP * n_k_tiles;
  }
};

/* A column of the block's gate and up panels, one per thread. */
struct single_token_column {
  int slot, column;           /* of the result */
  int packed_row, of_weights; /* the thread's row of the packed matrix, and its column of W */
  bool is_shared, is_valid;

  __device__ __forceinline__ single_token_column(const single_token_params &p, const single_token_work &w)
  {
    const int columns = p.activation.is_gated ? PANEL_COLUMNS / 2 : PANEL_COLUMNS; /* of results, in a panel */
    const int row = threadIdx.x % PANEL_COLUMNS;
    int panel = threadIdx.x / PANEL_COLUMNS;
    is_shared = panel < w.n_shared;
    is_valid = panel < w.n_shared + w.n_expert;
    panel += is_shared ? w.shared_panel : w.expert_panel - w.n_shared;
    slot = is_shared ? w.n_slots : p.by_panels.quotient(panel);
    if (!is_shared) panel -= slot * p.gate_up.n_panels;
    const int width = is_shared ? p.shared_ffn : p.ffn;
    column = panel * columns + row % columns;
    packed_row = panel * PANEL_COLUMNS + row;
    of_weights = column + row / columns * width; /* ups follow the gates */
    is_valid = is_valid && column < width;
  }
};

} // namespace yk_moe

#endif
