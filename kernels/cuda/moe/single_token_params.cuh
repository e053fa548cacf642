/* single_token_params.cuh - the parameters of the kernel of a single token, its shared memory, and the mailbox in
 * device memory through which its thread blocks pass values. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PARAMS_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_PARAMS_CUH

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/gemm/grouped/single_row_kernel.cuh"
#include "kernels/cuda/moe/logits_mailbox.cuh"
#include "kernels/cuda/moe/route_choose.cuh"

namespace yk_moe {

using namespace yk_gemm;

constexpr int SINGLE_TOKEN_WARPS = 16, SINGLE_TOKEN_THREADS = WARP * SINGLE_TOKEN_WARPS;
constexpr int SINGLE_TOKEN_REGISTERS = SM_REGISTERS / SINGLE_TOKEN_THREADS;
constexpr int SINGLE_TOKEN_GROUP = 3;     /* panels of a stage: neighbours of one K tile, or of neighbouring K tiles */
constexpr int SINGLE_TOKEN_STAGES = 8;    /* of a warp's ring, at most */
constexpr int SINGLE_TOKEN_BLOCKS = 256;  /* of a launch, at most */
constexpr int SINGLE_TOKEN_INNER = 32768; /* values between the two GEMMs, at most */
constexpr uint32_t OTHER_NANS = 0x7FFF7FFFu; /* what is sent in place of an empty word */
constexpr int SINGLE_TOKEN_PANELS =
    SINGLE_TOKEN_THREADS / PANEL_COLUMNS; /* of gate and up, of a block, at most: a thread a column */

/* In device memory. */
struct single_token_mailbox {
  /* Two halves, which launches use alternately; meanwhile the other one becomes empty. */
  logits_words logits[2];
  alignas(16) uint32_t inner[2][SINGLE_TOKEN_INNER / 2]; /* pairs of values */
  uint32_t halves[SINGLE_TOKEN_BLOCKS]; /* of a block, which alone reads the word: the lowest bit is the half */
};

/* One of the two GEMMs. */
struct single_token_gemm {
  const uint8_t *weights, *bias; /* of matrix 0; bias may be NULL */
  int64_t matrix_bytes;
  const uint8_t *shared;             /* weights of the shared expert, or NULL */
  int k_tiles, n_panels;             /* of an expert */
  int shared_k_tiles, shared_panels; /* 0 without a shared expert */
};

struct single_token_params {
  single_token_gemm gate_up, down;
  yk_cuda::divider by_blocks, by_panels, by_down_tiles; /* panels of gate and up, K tiles of down, of an expert */
  route_params route;
  row_router router;
  int hidden, ffn, shared_ffn;
  yk_activation activation; /* gated */
  yk_combine_args sum;
  single_token_mailbox *mailbox;
  int max_slots;
  int stages;     /* of a warp's ring */
  int max_panels; /* of gate and up, of a block */
};

/* In shared memory. */
struct single_token_memory {
  uint32_t keys[ROUTED_EXPERTS]; /* of groups */
  float scores[ROUTED_EXPERTS];
  int chosen[YK_MAX_TOP_K]; /* experts by falling score; -1: padding */
  int matrix[YK_MAX_TOP_K]; /* of the slots, which are here the choices that the rank holds, in their order */
  int n_slots;
  bool is_finite;
  float weight[YK_MAX_TOP_K + 1]; /* of the slots; the shared expert's comes last */
  uint64_t full[SINGLE_TOKEN_WARPS][SINGLE_TOKEN_STAGES];
  float down_sums[2][SINGLE_TOKEN_WARPS][PANEL_COLUMNS]; /* of two panels alternately */
  router_tile<__half, true>::sums logits;
};

} // namespace yk_moe

#endif
