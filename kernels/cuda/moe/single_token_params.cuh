/* single_token_params.cuh - what the kernel of a lone row is told, what it keeps in shared memory, and what its thread
 * blocks exchange in device memory. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PARAMS_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PARAMS_CUH

#include "kernels/cuda/moe/logits_mailbox.cuh"
#include "kernels/cuda/moe/route_choose.cuh"
#include "kernels/cuda/gemm/divider.cuh"
#include "kernels/cuda/gemm/wna16_grouped_row_kernel.cuh"

namespace yk_experts {

using namespace yk_gemm;

constexpr int LONE_WARPS = 16, LONE_THREADS = WARP * LONE_WARPS;
constexpr int LONE_REGISTERS = SM_REGISTERS / LONE_THREADS;
constexpr int LONE_GROUP = 3;     /* panels of a stage: neighbours of one K tile, or of neighbouring K tiles */
constexpr int LONE_STAGES = 8;    /* of a warp's ring, at most */
constexpr int LONE_BLOCKS = 256;  /* of a launch, at most */
constexpr int LONE_INNER = 32768; /* values between the two GEMMs, at most */
constexpr uint32_t OTHER_NANS = 0x7FFF7FFFu;              /* what is sent in place of an empty word */
constexpr int LONE_PANELS = LONE_THREADS / PANEL_COLUMNS; /* of gate and up, of a block, at most: a thread a column */

/* In device memory. */
struct lone_exchange {
  /* Two parts, which launches have alternately: meanwhile the other one is made empty. */
  logits_words logits[2];
  alignas(16) uint32_t inner[2][LONE_INNER / 2]; /* pairs of values */
  uint32_t turns[LONE_BLOCKS];                   /* of a block, which nobody else reads: its lowest bit is the part */
};

/* One of the two GEMMs. */
struct lone_gemm {
  const uint8_t *weights, *bias; /* of matrix 0; bias may be NULL */
  int64_t matrix_bytes;
  const uint8_t *shared;             /* weights of the shared expert, or NULL */
  int k_tiles, n_panels;             /* of an expert */
  int shared_k_tiles, shared_panels; /* 0 without a shared expert */
};

struct lone_params {
  lone_gemm gate_up, down;
  yk_cuda::divider by_blocks, by_panels, by_down_tiles; /* panels of gate and up, K tiles of down, of an expert */
  route_params route;
  row_router router;
  int hidden, ffn, shared_ffn;
  yk_combine_args sum;
  lone_exchange *exchange;
  int max_slots;
  int stages;     /* of a warp's ring */
  int max_panels; /* of gate and up, of a block */
};

/* In shared memory. */
struct lone_row {
  uint32_t keys[ROUTED_EXPERTS]; /* of groups */
  float scores[ROUTED_EXPERTS];
  int chosen[YK_MAX_TOP_K]; /* experts by falling score; -1: padding */
  int matrix[YK_MAX_TOP_K]; /* of the slots, which are here the choices that the rank holds, in their order */
  int n_slots;
  bool is_finite;
  float weight[YK_MAX_TOP_K + 1]; /* of the slots; the shared expert's comes last */
  uint64_t full[LONE_WARPS][LONE_STAGES];
  float down_sums[2][LONE_WARPS][PANEL_COLUMNS]; /* of two panels alternately */
  router_tile<__half, true>::sums logits;
};

} // namespace yk_experts

#endif
