/* single_token_params.cuh - parameters of the single-token kernel, its shared memory, and the mailbox in device memory
 * through which its thread blocks exchange values. */
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
/* panels of a stage: neighbours in one K tile, or from neighbouring K tiles */
constexpr int SINGLE_TOKEN_GROUP = 3;
constexpr int SINGLE_TOKEN_STAGES = 8;       /* maximum of a warp's ring */
constexpr int SINGLE_TOKEN_BLOCKS = 256;     /* maximum of a launch */
constexpr int SINGLE_TOKEN_INNER = 32768;    /* maximum number of values between the two GEMMs */
constexpr uint32_t OTHER_NANS = 0x7FFF7FFFu; /* sent instead of a value equal to an empty word */
constexpr int SINGLE_TOKEN_PANELS =
    SINGLE_TOKEN_THREADS / PANEL_COLUMNS; /* maximum number of a block's gate and up panels: one thread per column */

/* In device memory. */
struct single_token_mailbox {
  /* Two halves, which launches use alternately; a launch empties the other half. */
  logits_words logits[2];
  alignas(16) uint32_t inner[2][SINGLE_TOKEN_INNER / 2]; /* pairs of values */
  uint32_t halves[SINGLE_TOKEN_BLOCKS]; /* one word per block, read by that block only: the lowest bit is the half */
};

/* One of the two GEMMs. */
struct single_token_gemm {
  const uint8_t *weights, *bias; /* arrays of matrix 0; bias may be NULL */
  int64_t matrix_bytes;
  const uint8_t *shared;                       /* weights of the shared expert, or NULL */
  int k_tiles, n_panels;                       /* sizes of one expert */
  int shared_k_tiles, shared_panels;           /* 0 without a shared expert */
  int64_t row_scales_at, shared_row_scales_at; /* in bytes from the first panel, for encodings with row scales */

  /* The row scales of a matrix, and of the shared expert. */
  __device__ __forceinline__ const float *row_scales_of(int matrix) const
  {
    return reinterpret_cast<const float *>(weights + matrix * matrix_bytes + row_scales_at);
  }
  __device__ __forceinline__ const float *row_scales_of_shared() const
  {
    return reinterpret_cast<const float *>(shared + shared_row_scales_at);
  }
  /* Called only if there are biases. */
  template <yk_dtype DTYPE> __device__ __forceinline__ float bias_of(int matrix, int column) const
  {
    return load_float<DTYPE>(bias + matrix * matrix_bytes, column);
  }
};

struct single_token_params {
  single_token_gemm gate_up, down;
  yk_cuda::divider by_blocks, by_panels, by_down_tiles; /* panels of gate and up, K tiles of down, of one expert */
  route_params route;
  row_router router;
  int hidden, ffn, shared_ffn;
  yk_activation activation;
  yk_combine_args sum;
  single_token_mailbox *mailbox;
  int max_slots;
  int stages;     /* stages of a warp's ring */
  int max_panels; /* maximum number of a block's gate and up panels */
};

/* In shared memory. */
struct single_token_memory {
  uint32_t keys[ROUTED_EXPERTS]; /* keys for groups */
  float scores[ROUTED_EXPERTS];
  int chosen[YK_MAX_TOP_K]; /* experts by falling score; -1: padding */
  int matrix[YK_MAX_TOP_K]; /* matrices of the slots: here the choices whose experts are on this rank, in order */
  int n_slots;
  bool is_finite;
  float weight[YK_MAX_TOP_K + 1]; /* weights of the slots; the shared expert's is last */
  uint64_t full[SINGLE_TOKEN_WARPS][SINGLE_TOKEN_STAGES];
  float down_sums[2][SINGLE_TOKEN_WARPS][PANEL_COLUMNS]; /* sums of two panels, used alternately */
  router_tile<__half, true>::sums logits;
};

/* The kernels for a number of experts. Defined in single_token_instances.cuh. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> tile_kernels single_token_kernels(int n_experts);

} // namespace yk_moe

#endif
