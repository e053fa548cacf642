/* single_token_mailbox.cuh - which half of the mailbox a launch uses.
 *
 * A block reads the number of the half from a word of its own and writes the other number there for the next launch, so
 * that no block waits for another one. A counter of the blocks that have taken all logits would be a read behind the
 * requests for weights, which returns only once these have been served. A launch of fewer blocks writes the words of
 * the other blocks too. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH

#include "kernels/cuda/moe/single_token_params.cuh"

namespace yk_moe {

/* After the wait for the kernel in front. */
__device__ __forceinline__ int half_of_block(const single_token_mailbox &e)
{
  return static_cast<int>(load_relaxed_gpu(e.halves + blockIdx.x) & 1);
}

/* By one warp of every block, once all its warps have read the half: the numbers for the next launch, whose half
 * becomes empty. */
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
