/* single_token_mailbox.cuh - which part of the mailbox a launch has.
 *
 * A block reads its own turn and writes it for the next launch, so that no block asks another one. Counting the blocks
 * that have taken all logits would be a read behind the requests for weights, which comes only when they have been
 * served. A launch of fewer blocks writes the others' turns, too. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_MAILBOX_CUH

#include "kernels/cuda/moe/single_token_params.cuh"

namespace yk_moe {

/* After the wait for the kernel in front. */
__device__ __forceinline__ int turn_of_block(const single_token_mailbox &e)
{
  return static_cast<int>(load_relaxed_gpu(e.turns + blockIdx.x) & 1);
}

/* By one warp of every block, once all its warps know the turn: the next launch's turns, and its part made empty. */
__device__ __forceinline__ void prepare_next_turn(single_token_mailbox &e, int turn)
{
  const int block = blockIdx.x, blocks = gridDim.x, lane = threadIdx.x % WARP;
  uint4 *to = reinterpret_cast<uint4 *>(e.inner[turn ^ 1]);
  for (int i = block * WARP + lane; i < SINGLE_TOKEN_INNER / 8; i += blocks * WARP)
    to[i] = make_uint4(EMPTY_WORD, EMPTY_WORD, EMPTY_WORD, EMPTY_WORD);
  for (int i = block + lane * blocks; i < SINGLE_TOKEN_BLOCKS; i += blocks * WARP) e.turns[i] = turn ^ 1;
  if (block == 0) e.logits[turn ^ 1].make_empty();
}

} // namespace yk_moe

#endif
