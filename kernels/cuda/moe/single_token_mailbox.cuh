/* single_token_mailbox.cuh - the choice of the mailbox half that a launch uses.
 *
 * Each block reads the number of the half from its own word and writes the other number there for the next launch, so
 * that no block waits for another. A counter of the blocks that have read all logits would be read after the
 * outstanding weight loads and return only after them. A launch of fewer blocks also writes the words of the other
 * blocks. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH

#include "kernels/cuda/moe/single_token_params.cuh"

namespace yk_moe {

/* Called after the wait for the preceding kernel. */
__device__ __forceinline__ int half_of_block(const single_token_mailbox &e)
{
  return static_cast<int>(load_relaxed_gpu(e.halves + blockIdx.x) & 1);
}

/* Called by one warp of every block, once all its warps have read the half: writes the numbers for the next launch and
 * empties the half of that launch. */
__device__ __forceinline__ void prepare_next_half(single_token_mailbox &e, int half)
{
  const int block = blockIdx.x, blocks = gridDim.x, lane = threadIdx.x % WARP;
  uint4 *to = reinterpret_cast<uint4 *>(e.inner[half ^ 1]);
  for (int i = block * WARP + lane; i < SINGLE_TOKEN_INNER / 8; i += blocks * WARP)
    to[i] = make_uint4(EMPTY_WORD, EMPTY_WORD, EMPTY_WORD, EMPTY_WORD);
  for (int i = block + lane * blocks; i < SINGLE_TOKEN_BLOCKS; i += blocks * WARP) e.halves[i] = half ^ 1;
  if (block == 0) e.logits[half ^ 1].make_empty();
}

} // namespace yk_moe

#endif
